"""Benchmarks: each package here is run as `python -m bench.<name>` and writes `bench/results/<name>.json`."""

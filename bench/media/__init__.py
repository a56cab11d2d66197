"""Benchmarks of the processors of media."""

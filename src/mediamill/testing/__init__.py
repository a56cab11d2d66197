"""Contracts and scripted parts that plugin authors, benches and the chaos run use."""

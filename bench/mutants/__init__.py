"""Mutation testing: small faults put into a room's code, one at a time, and whether a test notices."""

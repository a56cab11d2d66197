"""Races run on the engine's bench, with connections of their own."""

from __future__ import annotations

from tests.engine.conftest import bench

__all__ = ["ROUNDS", "bench"]

ROUNDS = 60

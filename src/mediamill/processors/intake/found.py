"""A value that was read out of some characters of a text, and how sure that reading is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """`value` in canonical form; `start` and `end`: the characters that it was read from."""

    value: str
    start: int
    end: int
    sureness: float = 1.0  # that these characters mean this value
    unit: str = ""

"""Long lists bit by bit, so that a statement about them stays short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


def in_batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """So many at a time."""
    for first in range(0, len(items), size):
        yield items[first : first + size]

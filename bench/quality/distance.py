"""How far apart two texts are."""

from __future__ import annotations

from collections.abc import Sequence


def distance(wanted: Sequence[str], got: Sequence[str]) -> int:
    """The least words or characters to change, drop or put in."""
    row = list(range(len(got) + 1))
    for index, one in enumerate(wanted, 1):
        diagonal, row[0] = row[0], index
        for column, other in enumerate(got, 1):
            best = min(row[column] + 1, row[column - 1] + 1, diagonal + (one != other))
            diagonal, row[column] = row[column], best
    return row[-1]

"""Stretches of pages, and the words for those that were not read. Loads no decoder: pages of projects use it, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

MOST_SPANS = 12


def spans_of(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Numbers as stretches, each with its first and last."""
    spans: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if spans and spans[-1][1] == number - 1:
            spans[-1] = spans[-1][0], number
        else:
            spans.append((number, number))
    return spans


def pages_not_read(spans: Iterable[Sequence[int]]) -> str:
    """`pages 3, 7 to 9 and 51 to 400 were not read`; of very many stretches only the first are named."""
    told: list[str] = []
    for first, last in spans:
        told += [f"{first:,} to {last:,}"] if last - first > 1 else [f"{n:,}" for n in range(first, last + 1)]
    told = [*told[:MOST_SPANS], "others"] if len(told) > MOST_SPANS else told
    if len(told) == 1:
        return f"pages {told[0]} were not read" if " " in told[0] else f"page {told[0]} was not read"
    return f"pages {', '.join(told[:-1])} and {told[-1]} were not read"

"""Long texts in parts: Telegram takes 4096 UTF-16 units. Cut at the end of a line, else of a word."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST_UNITS = 4_096


def split_text(text: str, limit: int = LONGEST_UNITS) -> list[str]:
    """The parts, none of them empty."""
    return [part for part in _parts(text.strip(), limit) if part]


def _parts(rest: str, limit: int) -> Iterator[str]:
    while rest:
        head = rest[: _fitting(rest, limit)]
        if len(head) < len(rest):
            head = head[: _border(rest, len(head))]
        yield head.rstrip()
        rest = rest[len(head) :].lstrip()


def _fitting(text: str, limit: int) -> int:
    """How many characters have no more units than that. One beyond the first plane has two."""
    units = 0
    for index, character in enumerate(text):
        units += 2 if ord(character) > 0xFFFF else 1
        if units > limit:
            return index
    return len(text)


def _border(text: str, most: int) -> int:
    """Where to cut: in the second half, after a blank line, a line, or a word; else where it must be."""
    for mark in ("\n\n", "\n", " "):
        found = text.rfind(mark, most // 2, most + 1)
        if found > 0:
            return min(found + len(mark), most)
    return most

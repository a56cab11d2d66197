"""Numbers as people write them: 1.234,56 and 1,234.56 and 1'234.56. What `1.234` means is taken from the document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from mediamill.processors.intake.found import Found

Mark = Literal[".", ","]  # that a document has before the decimals
SPACES = "\u00a0\u202f\u2009"
NUMBER = re.compile(
    rf"(?<![\w.,])(?P<sign>[-+−–])?(?P<digits>\d{{1,3}}(?: \d{{3}})+[.,]\d{{1,2}}(?!\d)"
    rf"|\d{{1,3}}(?:[.,'’{SPACES}]\d{{3}})+(?:[.,]\d{{1,6}})?(?!\d)|\d{{1,18}}(?:[.,]\d{{1,9}})?)(?![\d])(?![.,/:]\d)"
)
BOTH_MARKS = re.compile(r"\d([.,])\d{3}([.,])\d")
DECIMALS = re.compile(r"(?<![\d.,])\d+([.,])(?:\d|\d\d|\d{4,6})(?![\d.,]*\d)")
AGREED = 0.8  # share of the numbers of a document that must show the same mark
GROUPED, BY_DOCUMENT, BY_LANGUAGE, GUESSED = 0.97, 0.92, 0.8, 0.6


def find_numbers(text: str, mark: Mark | None, *, money: bool = False, known: bool = True) -> Iterator[Found]:
    """The numbers of a text. `money`: three digits behind a mark are no decimals. `known`: the mark is no guess."""
    for match in NUMBER.finditer(text):
        value, sureness = read_number(match["digits"], mark, money=money)
        if sureness == BY_DOCUMENT and not known:
            sureness = BY_LANGUAGE
        start = match.start()
        if match["sign"] in ("-", "−", "–"):
            if start == 0 or text[start - 1] in " :(=":
                value = f"-{value}" if value != "0" else value
            else:
                start += 1  # a dash between two numbers
        yield Found(value, start, match.end(), sureness)


def read_number(digits: str, mark: Mark | None, *, money: bool = False) -> tuple[str, float]:
    """The number with a dot before its decimals, and how sure that is."""
    plain = re.sub(rf"['’{SPACES} ]", "", digits)
    marks = [char for char in plain if char in ".,"]
    if not marks:
        return _tidy(plain), 1.0
    last = marks[-1]
    if len(set(marks)) == 2:
        other = "," if last == "." else "."
        return _tidy(plain.replace(other, "").replace(last, ".")), 1.0
    if len(marks) > 1:
        return _tidy(plain.replace(last, "")), GROUPED
    whole, _, after = plain.partition(last)
    if len(after) != 3 or whole == "0" or len(whole) > 3 or plain != digits:
        return _tidy(plain.replace(last, ".")), 1.0
    return _three_digits(whole, after, last, mark, money=money)


def _three_digits(whole: str, after: str, last: str, mark: Mark | None, *, money: bool) -> tuple[str, float]:
    grouped = money or (mark != last if mark else last == ",")
    value = _tidy(whole + after if grouped else f"{whole}.{after}")
    known = mark is not None and (mark != last) == grouped
    return value, BY_DOCUMENT if known else GUESSED


def _tidy(value: str) -> str:
    whole, dot, decimals = value.partition(".")
    return f"{whole.lstrip('0') or '0'}{dot}{decimals}"


def decimal_mark(text: str) -> Mark | None:
    """What a document writes before decimals, if its numbers agree."""
    votes = {".": 0, ",": 0}
    for match in BOTH_MARKS.finditer(text):
        if match[1] != match[2]:
            votes[match[2]] += 3
    for match in DECIMALS.finditer(text):
        votes[match[1]] += 1
    total = votes["."] + votes[","]
    for mark in (".", ","):
        if total and votes[mark] >= AGREED * total:
            return mark
    return None

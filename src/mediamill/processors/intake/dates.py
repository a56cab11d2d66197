"""Dates as people write them in English, German and French: found in a text, told as YYYY-MM-DD.

`12/11/2025` is two dates. Which one is meant is taken from other dates of the document, else from its language, else
both are told, with little confidence in each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import Literal

from mediamill.processors.intake.found import Found

DateOrder = Literal["day", "month"]  # which of the two comes first
FIRST_YEAR, LAST_YEAR = 1900, 2100
TWO_DIGITS = 0.85  # years of two digits
COMPACT = 0.6  # 20251231 may be any number
KNOWN_ORDER, UNKNOWN_ORDER = 0.9, 0.5
MONTHS = {
    1: "january jan januar jänner jaenner janvier janv",
    2: "february feb februar feber février fevrier févr",
    3: "march mar märz maerz mrz mär mars",
    4: "april apr avril avr",
    5: "may mai",
    6: "june jun juni juin",
    7: "july jul juli juillet juil",
    8: "august aug août aout",
    9: "september sep sept septembre",
    10: "october oct oktober okt octobre",
    11: "november nov novembre",
    12: "december dec dezember dez décembre decembre déc",
}
MONTH = {name: number for number, names in MONTHS.items() for name in names.split()}
_NAMES = "|".join(sorted(MONTH, key=len, reverse=True))
_YEAR = r"(?P<y>(?:19|20)\d\d|'?\d\d)(?!\d)"
_FULL = r"(?P<y>(?:19|20)\d\d)(?!\d)"
_BEFORE = r"(?<![\d.,/-])"
ISO = re.compile(rf"{_BEFORE}{_FULL}([-/.])(?P<m>\d\d?)\2(?P<d>\d\d?)(?!\d)")
DOTTED = re.compile(rf"{_BEFORE}(?P<d>\d\d?)\.\s?(?P<m>\d\d?)\.\s?{_YEAR}(?![.\d])")
EITHER = re.compile(rf"{_BEFORE}(?P<a>\d\d?)([/-])(?P<b>\d\d?)\2{_YEAR}(?![/\d-])")
DAY_FIRST = re.compile(
    rf"{_BEFORE}(?P<d>\d\d?)(?:st|nd|rd|th|er)?\.?[\s-]*(?:of\s+|de\s+)?(?P<m>{_NAMES})\b\.?[\s,-]*{_YEAR}",
    re.IGNORECASE,
)
MONTH_FIRST = re.compile(
    rf"\b(?P<m>{_NAMES})\b\.?\s*(?P<d>\d\d?)(?:st|nd|rd|th)?\s*,?\s+{_FULL}", re.IGNORECASE
)
EIGHT_DIGITS = re.compile(r"(?<!\d)(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d)(?!\d)")


def find_dates(text: str, order: DateOrder | None = None) -> list[Found]:
    """The dates of a text from left to right; one that can be read in two ways is there twice, the likelier first."""
    found: list[Found] = []
    for pattern in (ISO, DAY_FIRST, MONTH_FIRST, DOTTED):
        found += [date_ for match in pattern.finditer(text) if (date_ := _plain(match))]
    for match in EITHER.finditer(text):
        found += _either(match, order)
    if not found:
        found = [date_ for match in EIGHT_DIGITS.finditer(text) if (date_ := _plain(match, COMPACT))]
    return sorted(found, key=lambda each: (each.start, -each.sureness))


def order_of(text: str) -> DateOrder | None:
    """Which number comes first in the dates of a document that can be read in one way only."""
    votes = {"day": 0, "month": 0}
    for match in EITHER.finditer(text):
        first, second = int(match["a"]), int(match["b"])
        if first > 12 >= second:
            votes["day"] += 1
        elif second > 12 >= first:
            votes["month"] += 1
    if votes["day"] and votes["month"]:
        return None
    return "day" if votes["day"] else "month" if votes["month"] else None


def _plain(match: re.Match[str], sureness: float = 1.0) -> Found | None:
    month = match["m"]
    number = int(month) if month.isdecimal() else MONTH[month.casefold()]
    return _made(match, match["y"], number, int(match["d"]), sureness)


def _either(match: re.Match[str], order: DateOrder | None) -> Iterator[Found]:
    first, second, year = int(match["a"]), int(match["b"]), match["y"]
    day = _made(match, year, second, first)
    month = _made(match, year, first, second)
    if day is None or month is None or day.value == month.value:
        if one := day or month:
            yield one
        return
    likely, other = (month, day) if order == "month" else (day, month)
    sure = KNOWN_ORDER if order else UNKNOWN_ORDER
    yield Found(likely.value, likely.start, likely.end, likely.sureness * sure)
    yield Found(other.value, other.start, other.end, other.sureness * (1 - sure) * 0.9)


def _made(match: re.Match[str], year: str, month: int, day: int, sureness: float = 1.0) -> Found | None:
    digits = year.lstrip("'")
    number = int(digits)
    if len(digits) == 2:
        number += 2000 if number < 70 else 1900
        sureness *= TWO_DIGITS
    if not FIRST_YEAR <= number <= LAST_YEAR:
        return None
    try:
        made = date(number, month, day)
    except ValueError:
        return None
    return Found(made.isoformat(), match.start(), match.end(), sureness)

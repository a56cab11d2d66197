"""Values of fields as they are kept: one form for each type. Pure."""

from __future__ import annotations

import re
from datetime import date

from mediamill.errors import InvalidError

VALUE_CHARACTERS = 2_000
DIGITS = 40
_PLAIN = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)
_UNCLEAR = re.compile(r"-?[1-9][0-9]{0,2},[0-9]{3}", re.ASCII)
_GERMAN_DATE = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})", re.ASCII)
_TRUE, _FALSE = ("true", "yes", "1", "on"), ("false", "no", "0", "off")


class BadValueError(InvalidError):
    """That cannot be the value of this field."""

    code = "bad_value"


def canonical(type_: str, value: str) -> str:
    """The value in the one form of its type; BadValueError if it has none."""
    plain = " ".join(value.replace("\0", "").split())
    if not plain or len(plain) > VALUE_CHARACTERS:
        raise BadValueError(f"a value has 1 to {VALUE_CHARACTERS} characters")
    match type_:
        case "number" | "amount":
            return _number(plain)
        case "date":
            return _date(plain)
        case "boolean":
            return _boolean(plain)
    return plain.encode("utf-8", "replace").decode()


def is_number(value: str) -> bool:
    """Is it a plain decimal, as `canonical` makes it?"""
    return _PLAIN.fullmatch(value) is not None


def _number(text: str) -> str:
    """`1234.50`; also as people write it: 1,234.50 or 1.234,50 or 1 234,50."""
    digits = re.sub(r"[\s'’]", "", text.replace("−", "-").removeprefix("+"))
    if _UNCLEAR.fullmatch(digits):
        raise BadValueError(f"{text[:50]!r} can be read in two ways", fix="write it like 1234.50")
    last = max(digits.rfind("."), digits.rfind(","))
    if last >= 0:
        mark = digits[last]
        other = "," if mark == "." else "."
        if digits.count(mark) == 1:
            digits = f"{digits[:last].replace(other, '')}.{digits[last + 1 :]}"
        elif other not in digits:
            digits = digits.replace(mark, "")
    if not _PLAIN.fullmatch(digits) or len(digits) > DIGITS:
        raise BadValueError(f"{text[:50]!r} is no number", fix="write it like 1234.50")
    sign = "-" if digits.startswith("-") else ""
    whole, dot, rest = digits.removeprefix("-").partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{dot}{rest}"


def _date(text: str) -> str:
    found = _GERMAN_DATE.fullmatch(text)
    try:
        day = date(int(found[3]), int(found[2]), int(found[1])) if found else date.fromisoformat(text)
    except ValueError:
        raise BadValueError(f"{text[:50]!r} is no date", fix="write it like 2024-12-31") from None
    return day.isoformat()


def _boolean(text: str) -> str:
    plain = text.lower()
    if plain not in (*_TRUE, *_FALSE):
        raise BadValueError(f"{text[:50]!r} is neither true nor false", fix="write true or false")
    return "true" if plain in _TRUE else "false"

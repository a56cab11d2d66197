"""Places in a list of assets, as text that means nothing to whoever holds it."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime, timedelta
from typing import NamedTuple

from mediamill.errors import InvalidError

MOST_ID = 2**63 - 1
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


class BadCursorError(InvalidError):
    """That is no place in this list."""

    code = "bad_cursor"


class Place(NamedTuple):
    """In the order of time: no moment is before or after everything, as the id says."""

    shown_at: datetime | None
    id: int


NEWEST, OLDEST = Place(None, MOST_ID), Place(None, 0)


def write_place(place: Place) -> str:
    """One asset, in the order of time."""
    if place.shown_at is None:
        raise ValueError("no asset is there")
    return _write("t", (place.shown_at - _EPOCH) // _MICROSECOND, place.id)


def read_place(text: str) -> Place:
    """As it was written."""
    match _read(text):
        case ["t", int(micros), int(id_)] if 0 <= id_ <= MOST_ID:
            try:
                return Place(_EPOCH + micros * _MICROSECOND, id_)
            except OverflowError:
                raise BadCursorError from None
    raise BadCursorError(fix="use the `next` or `previous` of a page of the same list")


def write_path(path: str) -> str:
    """One asset, in the order of paths."""
    return _write("p", path)


def read_path(text: str) -> str:
    """As it was written."""
    match _read(text):
        case ["p", str(path)] if "\0" not in path:
            return path
    raise BadCursorError(fix="use the `next` of a page of the same list")


def read_month(month: str) -> tuple[Place, Place]:
    """The places around a month, `2024-05`: what is in it is before the first and after the second."""
    try:
        first = datetime.strptime(month, "%Y-%m")
        after = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        before = first - _MICROSECOND
    except (ValueError, OverflowError):
        raise BadCursorError(f"{month[:20]!r} is no month", fix="write it like 2024-05") from None
    return Place(after, 0), Place(before, MOST_ID)


def _write(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def _read(text: str) -> list[object]:
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise BadCursorError(fix="use the `next` or `previous` of a page") from None
    return found if isinstance(found, list) else []

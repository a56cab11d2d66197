"""Places in a list: they come back as they were written, and nothing else is one."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from mediamill.libraries.cursors import (
    NEWEST,
    OLDEST,
    BadCursorError,
    Place,
    read_month,
    read_path,
    read_place,
    write_path,
    write_place,
)

LARGEST = 2**63 - 1
MICROSECOND = timedelta(microseconds=1)


def encode(*parts: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode()


@pytest.mark.parametrize("id_", [0, 7, LARGEST])
@pytest.mark.parametrize(
    "moment",
    [
        datetime(1970, 1, 1),
        datetime(2024, 5, 31, 23, 59, 59, 999_999),
        datetime(1, 1, 1),
    ],
)
def test_a_place_comes_back_to_the_microsecond(moment: datetime, id_: int) -> None:
    text = write_place(Place(moment, id_))
    assert read_place(text) == Place(moment, id_)
    assert "=" not in text


@pytest.mark.parametrize("path", ["", "a/b c/ü.jpg", "x" * 100])
def test_a_path_comes_back_however_long_it_is(path: str) -> None:
    assert read_path(write_path(path)) == path


def test_the_ends_of_the_list_are_no_places_of_assets() -> None:
    assert [*NEWEST, *OLDEST] == [None, LARGEST, None, 0]
    with pytest.raises(ValueError, match="no asset is there"):
        write_place(NEWEST)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "?",
        "x",
        "ä",
        encode("t", 0, -1),
        encode("t", 0, LARGEST + 1),
        encode("t", 10**30, 1),
        encode("t", "0", 1),
        encode("t", 0),
        encode("p", 0, 1),
        base64.urlsafe_b64encode(b'{"t": 1}').decode(),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        write_path("a"),
    ],
)
def test_what_is_no_place_in_time_is_refused(text: str) -> None:
    with pytest.raises(BadCursorError) as refused:
        read_place(text)
    assert refused.value.code == "bad_cursor"


@pytest.mark.parametrize("text", ["", "?", encode("p", "a\0"), encode("p", 1), encode("t", "a")])
def test_what_is_no_place_among_paths_is_refused(text: str) -> None:
    with pytest.raises(BadCursorError):
        read_path(text)


@pytest.mark.parametrize(
    ("month", "first", "after"),
    [("2024-05", (2024, 5), (2024, 6)), ("2024-12", (2024, 12), (2025, 1)), ("0001-02", (1, 2), (1, 3))],
)
def test_a_month_lies_between_its_first_moment_and_that_of_the_next(
    month: str, first: tuple[int, int], after: tuple[int, int]
) -> None:
    until, since = read_month(month)
    assert until == Place(datetime(*after, 1), 0)
    assert since == Place(datetime(*first, 1) - MICROSECOND, LARGEST)


@pytest.mark.parametrize("month", ["", "2024", "2024-13", "2024-00", "0001-01", "9999-12", "x" * 30])
def test_what_is_no_month_is_refused_in_few_words(month: str) -> None:
    with pytest.raises(BadCursorError, match="is no month") as refused:
        read_month(month)
    assert len(str(refused.value)) < 40
    assert refused.value.fix == "write it like 2024-05"

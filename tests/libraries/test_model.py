"""Names, facts and times of libraries and assets. Pure."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from mediamill.libraries.model import (
    FACTS_CHARACTERS,
    BadLibraryError,
    facts_text,
    home_of_asset,
    id_of,
    make_slug,
    number_of,
    output_folder,
    owner_of,
    read_time,
)


@pytest.mark.parametrize("said", ["\\u0000", "a\\\\u0000b", "\\", "\\u0000\0"])
def test_facts_are_json_whatever_a_camera_says(said: str) -> None:
    """A camera's name may hold the very letters that stand for what a database cannot keep."""
    told = json.loads(facts_text({"camera": said}))
    assert told == {"camera": said.replace("\0", "\ufffd")}


def test_too_many_facts_are_none() -> None:
    assert facts_text({"comment": "x" * FACTS_CHARACTERS}) == "{}"
    assert facts_text(["no", "facts"]) == "{}"


def test_a_time_of_another_world_is_none() -> None:
    assert read_time("2024-05-31T12:00:00+02:00") is not None
    for told in (None, "", "yesterday", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        assert read_time(told) is None


def test_facts_up_to_the_bound_are_kept() -> None:
    room = FACTS_CHARACTERS - len(json.dumps({"comment": ""}))
    assert json.loads(facts_text({"comment": "x" * room})) == {"comment": "x" * room}
    assert facts_text({"comment": "x" * (room + 1)}) == "{}"
    assert FACTS_CHARACTERS == 20_000


@pytest.mark.parametrize(("year", "is_kept"), [(1800, False), (1801, True), (2199, True), (2200, False)])
def test_a_time_is_of_a_century_with_cameras_and_local(year: int, is_kept: bool) -> None:
    found = read_time(f"{year}-06-01T12:00:00+05:00")
    assert found == (datetime(year, 6, 1, 12) if is_kept else None)


@pytest.mark.parametrize(
    ("subject", "id_"), [("7", 7), ("0", 0), ("", 0), (None, 0), ("-7", 0), ("7a", 0), ("7.5", 0)]
)
def test_a_job_is_about_an_asset_or_about_none(subject: str | None, id_: int) -> None:
    assert id_of(subject) == id_


@pytest.mark.parametrize(
    ("owner", "number"), [("library:7", 7), ("library:", 0), ("library:x", 0), ("bot:7", 0), ("7", 0)]
)
def test_an_owner_is_a_library_or_somebody_else(owner: str, number: int) -> None:
    assert number_of(owner) == number
    assert number_of(owner_of(7)) == 7


def test_the_folders_of_assets_are_spread_over_a_thousand() -> None:
    assert home_of_asset(7) == "libraries/007/7"
    assert home_of_asset(1_001_999) == "libraries/999/1001999"
    assert str(output_folder(1_000, "5-1")) == "libraries/000/1000-5-1"


def test_a_slug_is_short_plain_and_never_empty() -> None:
    assert make_slug(" Fotos: Zürich & Ümläute! ") == "fotos-zurich-umlaute"
    assert make_slug("a" * 64 + "b") == "a" * 64
    assert make_slug("a" * 63 + " b") == "a" * 63
    for name in ("", "---", "日本"):
        with pytest.raises(BadLibraryError, match="makes no short name") as refused:
            make_slug(name)
        assert refused.value.code == "bad_library"

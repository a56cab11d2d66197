"""Names, facts and times of libraries and assets. Pure."""

from __future__ import annotations

import json

import pytest

from mediamill.libraries.model import FACTS_CHARACTERS, facts_text, read_time


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

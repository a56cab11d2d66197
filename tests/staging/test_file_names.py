"""Names of files as text, and back."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.staging.file_names import FIRST, shown, to_bytes, to_text

NAMES = st.binary(min_size=1, max_size=255).filter(lambda name: b"/" not in name and b"\0" not in name)
ESCAPES = st.text(
    st.characters(min_codepoint=FIRST - 2, max_codepoint=FIRST + 0x101).filter(lambda one: one != "\0"),
    min_size=1,
    max_size=20,
).map(str.encode)


@pytest.mark.spec("L3")
@given(NAMES | ESCAPES)
def test_every_name_comes_back_from_its_text(name: bytes) -> None:
    text = to_text(name)
    assert to_bytes(text) == name
    assert text == to_text(os.fsdecode(name))
    assert text.encode().decode() == text  # a database takes it
    assert "/" not in text
    assert "\0" not in text


@pytest.mark.spec("L3")
@given(NAMES | ESCAPES, NAMES | ESCAPES)
def test_two_names_never_have_one_text(one: bytes, other: bytes) -> None:
    assert (to_text(one) == to_text(other)) == (one == other)


@given(NAMES | ESCAPES)
def test_what_is_shown_is_one_line_that_turns_nothing_around(name: bytes) -> None:
    text = shown(to_text(name))
    assert len(text.splitlines()) <= 1
    assert not set(text) & set("\x1b\r\n\u202e\u2066\x85")


def test_ordinary_names_are_as_they_are() -> None:
    assert to_text("Ferien in Österreich.jpg") == "Ferien in Österreich.jpg"
    assert shown("Ferien in Österreich.jpg") == "Ferien in Österreich.jpg"
    assert shown(to_text(b"a\xffb\nc")) == "a\ufffdb\\nc"

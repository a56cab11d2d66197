from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from mediamill.conversations.model import BOT, OUTGOING, USER
from mediamill.ui.bubbles import FOLD_CHARACTERS, FOLD_LINES, fold, kind_of, make_bubbles, show_text


def message(id_: int, at: int, source: str = USER, name: str = "Ann", **more: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "content": "hello",
        "sender": {"display_name": name, "identifier": name.lower()},
        "source": source,
        "accepted_time": datetime(2026, 11, 16, tzinfo=UTC),
        "originating_time": at,
        "provider_message_id": None,
        "media": None,
        **more,
    }


@given(st.text())
def test_folding_loses_nothing(text: str) -> None:
    head, rest = fold(text)
    assert head + rest == text


def test_only_what_is_much_too_long_is_folded_between_words() -> None:
    assert fold("a" * FOLD_CHARACTERS)[1] == ""
    head, rest = fold("word " * 1000)
    assert len(head) <= FOLD_CHARACTERS
    assert head.endswith(" ")
    assert rest.startswith("word")
    head, rest = fold("\n" * 200)
    assert len(head) <= FOLD_LINES
    assert len(rest) == 200 - len(head)


@given(st.text())
def test_text_without_addresses_is_only_escaped(text: str) -> None:
    assert show_text(text.replace("http", "ttp")) == escape(text.replace("http", "ttp"))


def test_addresses_can_be_followed_and_carry_nothing_along() -> None:
    shown = show_text(
        'See https://example.org/a?b=1&c=2), or "http://x.org"onclick="y" or javascript:alert(1).'
    )
    assert '<a href="https://example.org/a?b=1&amp;c=2"' in shown
    assert shown.count("<a ") == 2
    assert '<a href="http://x.org"' in shown
    assert "&#34;onclick=&#34;y&#34;" in shown


@pytest.mark.parametrize(
    ("mime_type", "kind"),
    [
        ("image/jpeg", "image"),
        ("image/webp", "sticker"),
        ("audio/ogg", "audio"),
        ("video/mp4", "video"),
        ("application/pdf", "document"),
        ("text/plain", "document"),
        ("application/octet-stream", "file"),
        ("media_corrupt_audio", "audio"),
        ("media_corrupt_surprise", "file"),
    ],
)
def test_every_type_has_a_kind(mime_type: str, kind: str) -> None:
    assert kind_of(mime_type) == kind


def test_names_stand_where_they_change_and_days_where_they_begin() -> None:
    day = 24 * 3600
    said = [
        message(1, day),
        message(2, day),
        message(3, 3 * day, name="Luis"),
        message(4, 3 * day, BOT, "anna"),
    ]
    shown = make_bubbles(said, reader_is_correspondent=False, is_group=True, failed_answers={2: "asleep"})
    assert [bubble.name for bubble in shown] == ["Ann", None, "Luis", "anna"]
    assert [bubble.day is not None for bubble in shown] == [True, False, True, False]
    assert [bubble.mine for bubble in shown] == [False, False, False, True]
    assert [bubble.is_open for bubble in shown] == [False, True, False, False]


def test_in_ones_own_chat_one_stands_on_the_right_and_needs_no_name() -> None:
    said = [message(1, 1), message(2, 1, BOT)]
    shown = make_bubbles(said, reader_is_correspondent=True, is_group=False, failed_answers={})
    assert [(bubble.mine, bubble.name) for bubble in shown] == [(True, None), (False, None)]


@pytest.mark.parametrize("written", [None, 0, 10**30, -(10**18), 10**14])
def test_a_time_that_is_none_is_replaced_by_when_it_came(written: Any) -> None:
    [shown] = make_bubbles(
        [message(1, written, OUTGOING)], reader_is_correspondent=False, is_group=False, failed_answers={}
    )
    assert shown.at == datetime(2026, 11, 16, tzinfo=UTC)
    assert shown.name == "Ann"

"""The nouns of conversations: what strangers write is made fit to be kept, and texts are put together."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.conversations.model import (
    BadGuidError,
    Group,
    Limits,
    Media,
    Sender,
    clean_time,
    failed_content,
    finished_content,
    owner_of,
)


def test_names_and_ids_of_strangers_are_freed_of_what_the_database_cannot_keep() -> None:
    sender = Sender("a\0nn", "A\ud800nn", ("\0lid", "x"))
    assert (sender.identifier, sender.display_name) == ("ann", "A?nn")
    assert sender.alternate_identifiers == ("lid", "x")
    group = Group("g\0", "The\0 group")
    assert (group.identifier, group.display_name) == ("g", "The group")
    assert (Sender("ann").display_name, Group("g").display_name) == (None, None)
    assert Sender("ann").alternate_identifiers == ()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (0, 0),
        (1_700_000_000, 1_700_000_000),
        (2**62 - 1, 2**62 - 1),
        (-(2**62) + 1, -(2**62) + 1),
        (2**62, None),
        (-(2**62), None),
        (None, None),
        ("soon", None),
        (1.5, None),
    ],
)
def test_a_time_that_is_none_is_not_kept(given: Any, kept: int | None) -> None:
    assert clean_time(given) == kept


def test_the_id_of_a_file_is_a_name_that_harms_nobody() -> None:
    for fine in ("0", "Z", "a" * 128, "a-b_c"):
        assert Media(fine, "audio/ogg").guid == fine
    for bad in ("", "-a", "_a", ".", "..", "a/b", "a.b", "a" * 129, "a\n", "ä"):
        with pytest.raises(BadGuidError) as refused:
            Media(bad, "audio/ogg")
        assert refused.value.code == "bad_guid"


def test_what_is_shown_of_media_is_its_type_and_a_name_of_bearable_length() -> None:
    media = Media("guid", "media_corrupt_audio", "n\0" * 300)
    assert media.to_json() == {
        "guid": "guid",
        "mime_type": "media_corrupt_audio",
        "original_filename": "n" * 255,
        "failed_reason": None,
    }
    assert Media("guid", "a" * 63 + "/" + "b" * 127).mime_type == "a" * 63 + "/" + "b" * 127
    for no_type in ("a/" + "b" * 128, "audio", "/x", "x/", "media_corrupt_", "media_corrupt_" + "x" * 21):
        assert Media("guid", no_type).mime_type == "application/octet-stream"
    assert (Media("guid", "a/b").original_filename, Media("guid", "a/b").metadata) == (None, {})


@pytest.mark.parametrize(
    ("caption", "text", "content"),
    [("look", "a cat", "look\n\na cat"), ("look", "", "look"), ("", "a cat", "a cat"), ("", "", "")],
)
def test_a_text_follows_its_caption(caption: str, text: str, content: str) -> None:
    assert finished_content(caption, text) == content


@pytest.mark.parametrize(
    ("caption", "notice", "content"),
    [
        ("", None, "[The media could not be processed]"),
        ("my cat", None, "[The media could not be processed] my cat"),
        ("my cat", "[Too long]", "[Too long] my cat"),
        ("my cat", "[Too long] my cat", "[Too long] my cat"),
        ("", "[Too long]", "[Too long]"),
    ],
)
def test_a_notice_precedes_the_caption_once(caption: str, notice: str | None, content: str) -> None:
    assert failed_content(caption, notice) == content


def test_the_owner_of_a_bots_jobs_is_named_after_it() -> None:
    assert owner_of("demo") == "bot:demo"


def test_a_queue_keeps_a_thousand_messages_a_million_characters_and_a_day_by_default() -> None:
    limits = Limits()
    assert (limits.max_messages, limits.max_characters, limits.max_age_seconds) == (1_000, 1_000_000, 86_400)
    assert (limits.max_message_characters, limits.max_caption_characters) == (200_000, 50_000)

"""Pure parts: long texts in parts, and what updates of any shape say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.errors import InvalidError
from mediamill.providers.telegram.config import account_of, read_config
from mediamill.providers.telegram.secret import is_right, webhook_secret
from mediamill.providers.telegram.split import split_text
from mediamill.providers.telegram.update import read_head, read_message
from mediamill.settings import Settings
from mediamill.testing.telegram_server import ACCOUNT, TOKEN


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


@given(st.text(st.sampled_from("ab \n😀é"), max_size=300), st.integers(2, 40))
def test_every_part_fits_and_together_they_say_it_all(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert all(part.strip() and units(part) <= limit for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_long_texts_are_cut_at_lines_then_at_words() -> None:
    assert split_text("one two\nthree four", 12) == ["one two", "three four"]
    assert split_text("one two three", 9) == ["one two", "three"]
    assert split_text("x" * 10, 4) == ["xxxx", "xxxx", "xx"]
    assert split_text("😀" * 5, 4) == ["😀😀", "😀😀", "😀"]
    assert [units(part) for part in split_text("word " * 3000)] == [4094, 4094, 4094, 2714]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
FIELDS = (
    *("message_id", "date", "chat", "from", "text", "caption", "photo", "document", "voice", "sticker"),
    *("media_group_id", "edit_date", "sender_chat", "venue", "location", "contact", "poll", "dice"),
    *("reply_to_message", "forward_origin", "quote"),
)


@given(
    st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=8), st.sampled_from(["message", "edited_message"])
)
def test_an_update_of_any_shape_is_read_or_left(message: dict[str, Any], kind: str) -> None:
    update = {"update_id": 1, kind: {"chat": {"id": 5}, "message_id": 9, **message}}
    assert read_head(update) is not None
    found = read_message(update)
    assert found is None or (found.text or found.file)
    json.dumps(found.text if found else "").encode()


@pytest.mark.parametrize(
    "update", [None, 5, [], {}, {"update_id": "1"}, {"update_id": True}, {"update_id": 2**70}]
)
def test_what_has_no_number_is_no_update(update: Any) -> None:
    assert read_head(update) is None


def test_the_largest_size_of_a_photo_is_the_photo() -> None:
    sizes = [
        {"file_id": "s", "width": 9, "height": 9},
        {"file_id": "l", "width": 90, "height": 90},
        {"file_id": ""},
    ]
    found = read_message({"message": {"message_id": 1, "chat": {"id": 5}, "photo": sizes}})
    assert found is not None
    assert found.file is not None
    assert found.file.file_id == "l"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/start", "start"),
        ("/start@mill_bot x", "start"),
        ("/forget", "forget"),
        ("a /start", None),
        ("/", None),
    ],
)
def test_commands_stand_at_the_beginning(text: str, command: str | None) -> None:
    found = read_message({"message": {"message_id": 1, "chat": {"id": 5}, "text": text}})
    assert found is not None
    assert found.command == command


def test_the_configuration_names_its_faults_and_never_the_token() -> None:
    config, token = read_config({"token": TOKEN}, Settings())
    assert (config.mode, account_of(token)) == ("polling", ACCOUNT)
    assert TOKEN not in repr(config)
    for bad in (
        {},
        {"token": "nonsense of a token"},
        {"token": TOKEN, "mode": "push"},
        {"token": TOKEN, "mode": "webhook"},
        {"token": TOKEN, "webhook_url": "ftp://x"},
        {"token": TOKEN, "mode": "webhook", "webhook_url": "http://mill.example.com"},
        {"token": TOKEN, "tokn": 1},
    ):
        with pytest.raises(InvalidError) as caught:
            read_config(bad, Settings())
        assert TOKEN not in str(caught.value)
        assert "nonsense" not in str(caught.value)


def test_a_bot_api_of_ones_own_may_call_without_a_certificate() -> None:
    given = {"token": TOKEN, "mode": "webhook", "webhook_url": "http://mill:8420"}
    config, _ = read_config(given, Settings(telegram_url="http://bot-api:8081"))
    assert config.webhook_url == "http://mill:8420"


def test_the_token_may_come_from_the_settings() -> None:
    assert read_config({}, Settings.model_validate({"telegram_token": TOKEN}))[1] == TOKEN


def test_the_secret_of_the_webhook_is_the_tokens_own_and_does_not_tell_it() -> None:
    secret = webhook_secret(TOKEN)
    assert secret == webhook_secret(TOKEN) != webhook_secret(f"{TOKEN}x")
    assert is_right(secret, secret)
    assert not any(is_right(given, secret) for given in ("", secret[:-1], "é", "\udc80"))

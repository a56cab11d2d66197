"""The configuration of bots: what holds without a word, which values fit, and what is shown of it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from mediamill.conversations import bots
from mediamill.conversations.access import DayLimits
from mediamill.conversations.bots import (
    BadBotError,
    BotConfig,
    BotExistsError,
    UnknownBotError,
    check_config,
    is_open_to_all,
)
from mediamill.conversations.model import USER, Limits
from mediamill.conversations.queue import CorrespondentQueue
from mediamill.db.connection import Database
from mediamill.errors import ConflictError
from mediamill.settings import Settings
from tests.conversations.conftest import ANN

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MOST = 1_000_000_000
SERVER = Settings(sender_messages_per_day=11, sender_media_seconds_per_day=12, sender_tokens_per_day=13)


def put_to_use(config: BotConfig, messages: int = 3) -> int:
    """How many of these messages its queues keep in memory."""
    queue = CorrespondentQueue("ann", config.queue_limits)
    for _ in range(messages):
        queue.add_message(queue.make_message("x", ANN, USER, NOON))
    return len(queue)


def check(**given: Any) -> BotConfig:
    return check_config(given, ["chat", "line"])


def test_a_bot_that_says_nothing_is_on_the_chat_answers_nobody_and_wants_people_paired() -> None:
    config = check()
    assert config.model_dump() == {
        "providers": {"chat": {}},
        "reply": {"by": "none", "prompt": "", "model": None},
        "access": {
            "mode": "paired",
            "groups": "mentioned",
            "messages_per_day": None,
            "media_seconds_per_day": None,
            "tokens_per_day": None,
        },
        "limits": {"max_messages": 1_000, "max_characters": 1_000_000, "max_age_seconds": 86_400},
    }
    assert config.queue_limits == Limits() == Limits(1_000, 1_000_000, 24 * 3_600, 200_000, 50_000)
    assert put_to_use(config, 1_002) == 1_000


def test_limits_of_a_day_are_the_bots_own_or_the_servers() -> None:
    own = {"messages_per_day": 0, "media_seconds_per_day": 5, "tokens_per_day": MOST}
    assert DayLimits.of(check().access, SERVER) == DayLimits(11, 12, 13)
    assert DayLimits.of(check(access=own).access, SERVER) == DayLimits(0, 5, MOST)
    assert DayLimits() == DayLimits(0, 0, 0)


@pytest.mark.parametrize(
    ("part", "name", "fine", "wrong"),
    [
        ("access", "messages_per_day", [0, MOST], [-1, MOST + 1]),
        ("access", "media_seconds_per_day", [0, MOST], [-1, MOST + 1]),
        ("access", "tokens_per_day", [0, MOST], [-1, MOST + 1]),
        ("access", "mode", ["paired", "open"], ["closed"]),
        ("access", "groups", ["mentioned", "always", "never"], ["sometimes"]),
        ("limits", "max_messages", [1], [0]),
        ("limits", "max_characters", [1], [0]),
        ("limits", "max_age_seconds", [0.1], [0]),
        ("reply", "by", ["none", "echo", "openai", "pi"], ["human"]),
        ("reply", "prompt", ["x" * 20_000], ["x" * 20_001]),
        ("reply", "colour", [], ["red"]),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_place(
    part: str, name: str, fine: list[Any], wrong: list[Any]
) -> None:
    for value in fine:
        config = check(**{part: {name: value}})
        assert config.model_dump()[part][name] == value
        assert put_to_use(config) == (1 if name in ("max_messages", "max_characters") else 3)
        DayLimits.of(config.access, SERVER)
    for value in wrong:
        with pytest.raises(BadBotError) as refused:
            check(**{part: {name: value}})
        assert refused.value.faults is not None
        assert [fault.split(": ")[0] for fault in refused.value.faults] == [f"{part}.{name}"]
        assert str(refused.value) == refused.value.faults[0]
        assert refused.value.code == "bad_bot"


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(BadBotError, match=r"reply\.by: .*; limits\.max_messages: ") as refused:
        check(reply={"by": "human"}, limits={"max_messages": 0})
    assert refused.value.faults is not None
    assert len(refused.value.faults) == 2


def test_a_bot_needs_a_network_that_is_there() -> None:
    with pytest.raises(BadBotError, match=r"^unknown provider pigeon, post$") as refused:
        check(providers={"post": {}, "line": {}, "pigeon": {}})
    assert refused.value.fix == "choose from chat, line"
    assert refused.value.faults is None
    with pytest.raises(BadBotError, match=r"^a bot needs a provider$"):
        check(providers={})
    assert set(check(providers={"line": {}}).providers) == {"line"}


def test_a_configuration_stays_as_it_was_checked() -> None:
    config = check()
    with pytest.raises(ValidationError, match="frozen"):
        config.access.mode = "open"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("mode", "networks", "is_open"),
    [
        ("open", ["line"], True),
        ("open", ["chat", "line"], True),
        ("open", ["chat"], False),  # it asks for a login
        ("paired", ["line"], False),
    ],
)
def test_open_to_all_is_a_bot_in_open_mode_on_a_network_without_a_login(
    mode: str, networks: list[str], is_open: bool
) -> None:
    config = check(access={"mode": mode}, providers={name: {} for name in networks})
    assert is_open_to_all({"config": config.model_dump()}) is is_open


async def test_bots_are_made_under_names_of_their_own_and_missed_by_every_verb(database: Database) -> None:
    async with database.transaction() as connection:
        for name in ("0", "a" * 63, "a_b-c"):
            await bots.create_bot(connection, name, check())
        for name in ("", "A", "-a", "a b", "a" * 64):
            with pytest.raises(BadBotError, match="cannot be the name of a bot"):
                await bots.create_bot(connection, name, check())
        with pytest.raises(BotExistsError, match="there is a bot 0 already") as taken:
            await bots.create_bot(connection, "0", check())
        assert taken.value.code == "bot_exists"
        assert {bot["id"] for bot in await bots.list_bots(connection)} == {"0", "a" * 63, "a_b-c"}
        for verb in (bots.show_bot, bots.start_bot, bots.stop_bot, bots.delete_bot):
            with pytest.raises(UnknownBotError, match="there is no bot none") as missed:
                await verb(connection, "none")
            assert missed.value.code == "unknown_bot"
        with pytest.raises(UnknownBotError):
            await bots.change_bot(connection, "none", check())
        await bots.start_bot(connection, "0")
        assert (await bots.show_bot(connection, "0"))["running"] is True
        with pytest.raises(ConflictError, match="the bot 0 runs"):
            await bots.delete_bot(connection, "0")
        assert await bots.stop_bot(connection, "0") == 0
        await bots.delete_bot(connection, "0")
        assert len(await bots.list_bots(connection)) == 2


async def test_a_token_is_shown_to_nobody_and_stays_if_it_is_given_back_hidden(database: Database) -> None:
    def with_token(token: str, **more: Any) -> BotConfig:
        return check(providers={"line": {"token": token, **more}})

    async with database.transaction() as connection:
        with pytest.raises(BadBotError, match=r"^providers\.line\.token is not known$"):
            await bots.create_bot(connection, "bot", with_token("********"))
        await bots.create_bot(connection, "bot", with_token("secret", colour="red"))
        shown = await bots.show_bot(connection, "bot")
        assert shown["config"]["providers"] == {"line": {"token": "********", "colour": "red"}}
        assert shown["status"] == {}
        await bots.change_bot(connection, "bot", with_token("********", colour="blue"))
        kept = "select config #>> '{providers,line,token}' from bots"
        assert await connection.fetchval(kept) == "secret"
        assert (await bots.list_bots(connection))[0]["config"]["providers"]["line"]["colour"] == "blue"
        await bots.change_bot(connection, "bot", with_token("another"))
        assert await connection.fetchval(kept) == "another"
        await bots.change_bot(connection, "bot", check())
        assert (await bots.show_bot(connection, "bot"))["config"]["providers"] == {"chat": {}}
        # One from before there were rules of access has those of today.
        await connection.execute("update bots set config = config - 'access'")
        assert (await bots.show_bot(connection, "bot"))["config"]["access"] == check().access.model_dump()

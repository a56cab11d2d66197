"""What owners decide about senders: by which names, on which network, and what is said if it cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.conversations import bots, senders
from mediamill.conversations.bots import BotConfig, UnknownBotError
from mediamill.conversations.senders import BadSenderError, UnknownCodeError, UnknownSenderError
from mediamill.db.connection import Connection, Database


async def create(connection: Connection, bot_id: str, *networks: str) -> None:
    config = BotConfig.model_validate({"providers": {name: {} for name in networks}})
    await bots.create_bot(connection, bot_id, config)


@pytest.mark.parametrize(
    ("network", "given", "found"),
    [
        ("whatsapp", "12345", "12345@s.whatsapp.net"),
        ("whatsapp", "+1 (234) 567./-8", "12345678@s.whatsapp.net"),
        ("whatsapp", "12345@lid", "12345@lid"),
        ("whatsapp", "491701111111-1400000000@g.us", "491701111111-1400000000@g.us"),
        ("telegram", "0" * 20, "0" * 20),
        ("letters", " x\0y ", "xy"),
        ("letters", "x" * 256, "x" * 256),
    ],
)
def test_a_sender_is_taken_as_people_write_them(network: str, given: str, found: str) -> None:
    assert senders.sender_id_of(network, given) == found


@pytest.mark.parametrize(
    ("network", "given", "what", "fix"),
    [
        ("whatsapp", "1234", "'1234@s.whatsapp.net' is neither", "give a phone number with"),
        ("whatsapp", "9" * 31, "9@s.whatsapp.net", "give a phone number with"),
        ("whatsapp", "ann@s.whatsapp.net", "is neither a phone number nor", "give a phone number with"),
        ("telegram", "0" * 21, "is no numeric Telegram id", "let them write to the bot"),
        ("telegram", "x" * 99, f"^'{'x' * 60}' is no", "let them write to the bot"),
        ("letters", "x" * 257, "has 1 to 256 characters", None),
        ("letters", "\0 ", "has 1 to 256 characters", None),
    ],
)
def test_who_cannot_be_a_sender_is_refused_with_what_to_do(
    network: str, given: str, what: str, fix: str | None
) -> None:
    with pytest.raises(BadSenderError, match=what) as refused:
        senders.sender_id_of(network, given)
    assert refused.value.code == "bad_sender"
    assert (refused.value.fix or "").startswith(fix or "")
    assert (refused.value.fix is None) is (fix is None)


async def test_the_only_network_need_not_be_named_and_the_chat_is_none(database: Database) -> None:
    async with database.transaction() as connection:
        await create(connection, "one", "chat", "line")
        await create(connection, "two", "line", "post")
        await create(connection, "none", "chat")
        assert await senders.find_provider(connection, "one", None) == "line"
        assert await senders.find_provider(connection, "one", "line") == "line"
        refusals: list[tuple[str, str | None, str, str]] = [
            ("one", "chat", "one is not on chat", "name one of: line"),
            ("two", None, "two is on 2 chat networks", "name one of: line, post"),
            ("none", None, "none is on 0 chat networks", "the chat in the browser asks for a login"),
        ]
        for bot_id, given, what, fix in refusals:
            with pytest.raises(BadSenderError) as refused:
                await senders.find_provider(connection, bot_id, given)
            assert (str(refused.value), refused.value.fix) == (what, fix)


async def test_what_was_decided_is_listed_until_it_is_forgotten(database: Database) -> None:
    async with database.transaction() as connection:
        await create(connection, "bot", "line")
        decided = await senders.decide_sender(connection, "bot", None, " ann ", "blocked")
        assert decided == {"provider_name": "line", "sender_id": "ann", "state": "blocked"}
        [listed] = await senders.list_senders(connection, "bot")
        assert (listed["sender_id"], listed["state"], listed["messages"]) == ("ann", "blocked", 0)
        forgotten = await senders.forget_sender(connection, "bot", "line", "ann")
        assert forgotten == {"provider_name": "line", "sender_id": "ann", "state": "unknown"}
        assert await senders.list_senders(connection, "bot") == []
        with pytest.raises(UnknownSenderError, match="nothing was decided about ann") as unknown:
            await senders.forget_sender(connection, "bot", "line", "ann")
        assert unknown.value.code == "unknown_sender"
        with pytest.raises(UnknownCodeError, match=r"with the code x{20}; codes") as no_code:
            await senders.pair_sender(connection, "bot", "x\0" * 30)
        assert no_code.value.code == "unknown_pairing_code"
        asked: list[Any] = [
            senders.list_senders(connection, "ghost"),
            senders.pair_sender(connection, "ghost", "ABCDEFGH"),
            senders.decide_sender(connection, "ghost", None, "ann", "allowed"),
        ]
        for asking in asked:
            with pytest.raises(UnknownBotError):
                await asking
        # Nobody waited with a code: nobody is told.
        await senders.decide_sender(connection, "bot", None, "ann", "allowed")
        assert await connection.fetchval("select count(*) from replies") == 0

"""Looking at conversations: how many are listed, which come next, and what is said of media and their jobs."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from mediamill.conversations import bots
from mediamill.conversations.bots import BotConfig, UnknownBotError
from mediamill.conversations.model import BOT
from mediamill.conversations.retry import NothingToRetryError, retry_message
from mediamill.conversations.watch import (
    UnknownConversationError,
    failed_replies,
    find_conversation,
    list_conversations,
    list_messages,
)
from mediamill.db.connection import Database
from mediamill.engine.rules import Engine
from mediamill.errors import NotFoundError
from tests.conversations.conftest import ANN, Ground, say, send_media

WHERE = ("bot", "line", "ann")
MANY = """
insert into conversations (bot_id, provider_name, correspondent_id, display_name, last_id, last_at)
select 'bot', 'line', case n when 51 then 'ann' else 'p' || n end, 'P' || n, 51,
    '2026-01-01Z'::timestamptz + n * interval '1 hour'
from generate_series(1, 51) n;
insert into queues (bot_id, provider_name, correspondent_id, id, content, sender, source, accepted_time, message_size)
select 'bot', 'line', 'ann', n, 'text ' || n, '{"identifier": "ann", "display_name": "Ann"}', 'user', now(), 6
from generate_series(1, 51) n;
insert into replies (bot_id, provider_name, correspondent_id, message_id, told, state, error)
select 'bot', 'line', 'ann', n, 'text', 'failed', 'no model' from generate_series(1, 51) n;
"""


@pytest.mark.spec("C30")
async def test_messages_are_listed_in_the_order_of_sending_however_late_their_ids(ground: Ground) -> None:
    _, queues = await ground.run()
    now = int(time.time())
    await say(queues, "first", originating_time=now - 60)
    await say(queues, "after the video", originating_time=now - 30)
    await queues.add_message("ann", "the answer to it", ANN, BOT)
    await send_media(queues, "g-1", caption="video", originating_time=now - 40)  # its download took this long
    await say(queues, "from the future", originating_time=now + 10**9)
    await queues.add_message("ann", "the last answer", ANN, BOT)
    await ground.until_row("select count(*) = 5 from queues")
    async with ground.database.connection() as connection:
        said = await list_messages(connection, *WHERE)
        assert [message["id"] for message in said] == [1, 4, 2, 3, 5, 6]
        page = await list_messages(connection, *WHERE, before=5, amount=3)
        assert [message["id"] for message in page] == [4, 2, 3]


async def test_fifty_are_listed_at_a_time_the_latest_of_them(database: Database) -> None:
    async with database.transaction() as connection:
        await bots.create_bot(connection, "bot", BotConfig())
        await connection.execute(MANY)
        talks = await list_conversations(connection, "bot")
        assert [talk["display_name"] for talk in talks] == [f"P{n}" for n in range(51, 1, -1)]
        [first] = await list_conversations(connection, "bot", before=talks[-1]["last_at"])
        assert (first["display_name"], first["last_at"]) == ("P1", datetime(2026, 1, 1, 1, tzinfo=UTC))
        assert len(await list_conversations(connection, "bot", amount=3)) == 3
        said = await list_messages(connection, *WHERE)
        assert [message["id"] for message in said] == list(range(2, 52))
        assert (said[0]["content"], said[0]["sender"]["display_name"]) == ("text 2", "Ann")
        assert (said[0]["group"], said[0]["media"]) == (None, None)
        between = await list_messages(connection, *WHERE, before=10, after=3, amount=4)
        assert [message["id"] for message in between] == [6, 7, 8, 9]
        failed = await failed_replies(connection, *WHERE)
        assert [each["message_id"] for each in failed] == list(range(51, 1, -1))
        assert len(await failed_replies(connection, *WHERE, amount=2)) == 2
        assert (await find_conversation(connection, *WHERE))["display_name"] == "P51"
        with pytest.raises(UnknownConversationError, match="bot has no conversation with eve") as unknown:
            await find_conversation(connection, "bot", "line", "eve")
        assert unknown.value.code == "unknown_conversation"
        with pytest.raises(UnknownBotError):
            await find_conversation(connection, "ghost", "line", "ann")
        with pytest.raises(UnknownBotError):
            await list_conversations(connection, "ghost")
        assert await retry_message(connection, Engine(), *WHERE, 7) == "reply"
        with pytest.raises(NothingToRetryError) as nothing:
            await retry_message(connection, Engine(), *WHERE, 7)
        assert nothing.value.code == "nothing_to_retry"
        for none in (0, 52):
            with pytest.raises(NotFoundError, match=f"there is no message {none} in"):
                await retry_message(connection, Engine(), *WHERE, none)


async def test_media_show_how_far_they_are_and_whether_another_try_is_worth_it(ground: Ground) -> None:
    async def shown() -> dict[str, Any]:
        async with ground.database.connection() as connection:
            found = [message["media"] for message in await list_messages(connection, *WHERE)]
        return {
            media["guid"]: (media["state"], media["percent"], media["can_retry"], media["job_id"] is not None)
            for media in found
        }

    keeper, queues = await ground.run()
    for guid in ("runs", "done", "dead", "gone"):
        await send_media(queues, guid)
    await send_media(queues, "lost", mime_type="media_corrupt_audio")
    assert set((await shown()).values()) == {("waiting", None, False, True)}
    jobs = {str(job.subject_id): job for job in await ground.claim()}
    await send_media(queues, "waits")
    await ground.one("update jobs set percent = 40 where subject_id = 'runs' returning 1")
    await ground.finish(jobs["done"])
    assert (await shown())["done"] == ("processing", 100, False, True)  # until its bot has taken it
    for guid in ("dead", "gone", "lost"):
        await ground.fail(jobs[guid])
    gone = """update dead_jobs set payload = jsonb_set(payload, '{file,given_up}', '"then"')
        where subject_id = 'gone' returning 1"""
    await ground.one(gone)
    await keeper.deliver_once()
    assert await shown() == {
        "waits": ("waiting", None, False, True),
        "runs": ("processing", 40, False, True),
        "done": ("done", None, False, False),
        "dead": ("failed", None, True, True),
        "gone": ("failed", None, False, True),
        "lost": ("failed", None, False, True),
    }

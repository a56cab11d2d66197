"""What is kept of messages: whose conversation it is, what it is called, and an id that another process took."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.conversations.bot_queues import IdTakenError
from mediamill.conversations.model import BOT, OUTGOING, USER, BadGuidError, Group, Sender
from mediamill.conversations.records import find_correspondent, find_message_id, look_up_correspondent
from tests.conversations.conftest import ANN, Ground, say, send_media
from tests.conversations.queues import manager

WHERE = ("bot", "line")


async def test_somebody_is_known_by_every_id_that_ever_came_along(ground: Ground) -> None:
    await ground.create(start=False)
    database = ground.database
    assert await look_up_correspondent(database, *WHERE, ["phone", "lid"]) == "phone"
    assert await ground.one("select count(*) from correspondents") == 0  # looking is not knowing
    assert await find_correspondent(database, *WHERE, ["phone"]) == "phone"
    assert await ground.rows("select identifier, correspondent_id from correspondents") == [
        ("phone", "phone")
    ]
    assert await find_correspondent(database, *WHERE, ["lid", "phone"]) == "phone"
    for known in ("lid", "phone"):
        assert await look_up_correspondent(database, *WHERE, [known]) == "phone"
        assert await find_correspondent(database, *WHERE, [known]) == "phone"
    assert await look_up_correspondent(database, "bot", "post", ["lid"]) == "lid"


async def test_a_conversation_is_called_after_the_group_or_the_other_side(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    me = Sender("me", "Myself")
    await queues.add_message("ann", "mine", me, OUTGOING)
    await queues.add_message("ben", "from a bot", me, BOT)
    sql = "select correspondent_id, display_name, is_group from conversations order by 1"
    assert await ground.rows(sql) == [("ann", None, False), ("ben", None, False)]
    await queues.add_message("ann", "hers", ANN, USER)
    await queues.add_message("g", "to all", ANN, USER, group=Group("g", "The group"))
    assert await ground.rows(sql) == [("ann", "Ann", False), ("ben", None, False), ("g", "The group", True)]


async def test_an_id_that_another_process_gave_is_refused_once_and_the_next_one_fits(ground: Ground) -> None:
    await ground.create()
    here, there = manager(ground), manager(ground)
    await say(here, "one")
    await say(there, "two")
    with pytest.raises(IdTakenError) as taken:
        await say(here, "three", provider_message_id="p-3")
    assert taken.value.code == "id_taken"
    message = await say(here, "three", provider_message_id="p-3")
    assert message is not None
    assert await ground.rows("select id, message ->> 'content' from arrivals order by id") == [
        (1, "one"),
        (2, "two"),
        (message.id, "three"),
    ]
    assert message.id == 3
    assert await find_message_id(ground.database, *WHERE, "ann", "p-3") == 3
    assert await find_message_id(ground.database, *WHERE, "ann", "p-4") is None


async def test_a_job_holds_what_is_needed_to_process_and_to_deliver(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    more: dict[str, Any] = {"original_filename": "cat.ogg", "media_metadata": {"declared_seconds": 3}}
    message = await send_media(queues, "guid-1", caption="listen", **more)
    assert message is not None
    [job] = await ground.claim()
    assert (job.kind, job.owner, job.subject_id, job.mime_type) == (
        "message.process",
        "bot:bot",
        "guid-1",
        "audio/ogg",
    )
    assert json.loads(await ground.one("select payload from jobs")) == {
        "bot_id": "bot",
        "provider_name": "line",
        "correspondent_id": "ann",
        "placeholder_message": json.loads(json.dumps(message.to_json())),
        "guid": "guid-1",
        "file": {"staged": "guid-1"},
        "caption": "listen",
        "original_filename": "cat.ogg",
        "media_metadata": {"declared_seconds": 3},
    }
    with pytest.raises(BadGuidError, match="belongs to another message"):
        await manager(ground).add_message(
            "ben", "", ANN, USER, media_processing_id="guid-1", mime_type="audio/ogg"
        )

"""Delivery: however many results have come, each reaches its conversation once, and what it played is counted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.conversations import deliver
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.deliver import deliver_media
from mediamill.conversations.model import OUTGOING
from mediamill.engine.settle import Finish, finish_jobs
from tests.conversations.conftest import ANN, Ground, send_media
from tests.conversations.queues import manager, placeholders


async def settle(ground: Ground, results: dict[str, Any]) -> None:
    """A worker ends the jobs of these guids with these results."""
    jobs = await ground.claim()
    finishes = [Finish(job, json.dumps(results[str(job.subject_id)])) for job in jobs]
    await finish_jobs(ground.database, ground.engine, jobs[0].worker_id, finishes)


async def test_more_results_than_a_batch_are_all_delivered_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "BATCH", 2)
    await ground.create()
    queues = manager(ground)
    everyone: dict[tuple[str, str], BotQueuesManager] = {("bot", "line"): queues}
    assert await deliver_media(ground.database, {}) == 0
    assert await deliver_media(ground.database, everyone) == 0
    guids = [f"guid-{number}" for number in range(4)]
    for guid in guids:
        await send_media(queues, guid, caption="listen")
    results: list[Any] = [{"content": "words"}, {"content": None}, {}, ["odd"]]
    await settle(ground, dict(zip(guids, results, strict=True)))
    assert await deliver_media(ground.database, everyone) == 4
    assert placeholders(queues) == []
    texts = {message.content for _, message in queues.pop_ready_messages()}
    assert texts == {"listen\n\nwords", "listen"}
    assert await deliver_media(ground.database, everyone) == 0
    assert await ground.one("select count(*) from jobs") == 0


async def test_a_text_of_a_network_that_is_not_here_stays_in_the_records(ground: Ground) -> None:
    await ground.create()
    queues = manager(ground)
    await send_media(queues, "guid-1")
    await settle(ground, {"guid-1": {"content": "words"}})
    assert await deliver_media(ground.database, {("bot", "post"): queues}) == 0
    assert placeholders(queues) == ["guid-1"]
    assert await ground.rows("select state, message ->> 'content' from arrivals") == [("ready", "words")]
    assert await deliver_media(ground.database, {("bot", "line"): queues}) == 1


async def test_what_was_played_is_counted_for_whom_it_is_known_and_who_is_limited(ground: Ground) -> None:
    await ground.create(providers={"line": {}, "chat": {}})
    keeper = ground.keeper()
    await keeper.keep_once()
    line, chat = (keeper.get("bot").queues[name] for name in ("line", "chat"))
    for number, declared in enumerate((10, 10, 10, 0, 0)):
        await send_media(line, f"line-{number}", media_metadata={"declared_seconds": declared})
    await send_media(chat, "chat-1")
    await line.add_message("ann", "", ANN, OUTGOING, media_processing_id="own-1", mime_type="audio/ogg")
    counted = "select sender_id, messages, media_seconds from sender_days"
    assert await ground.rows(counted) == [("ann@example", 5, 30)]

    def played(seconds: Any) -> dict[str, Any]:
        return {"content": "words", "facts": {"duration_seconds": seconds}}

    results = {
        "line-0": played(25.5),
        "line-1": played(4),
        "line-2": played("long"),
        "line-3": {"content": "words", "facts": None},
        "line-4": played(1),
        "chat-1": played(1_000),
        "own-1": played(1_000),
    }
    await settle(ground, results)
    await keeper.deliver_once()
    assert await ground.rows(counted) == [("ann@example", 5, 30 + 15.5 - 6 + 1)]

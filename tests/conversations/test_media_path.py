"""The media path: placeholder and job, the result first kept and then delivered, failures told to the conversation."""

from __future__ import annotations

import asyncio
import json

import pytest

from mediamill.conversations.model import Message
from mediamill.engine.recovery.release import release_claims
from mediamill.engine.store import recovery
from tests.conftest import wait_until
from tests.conversations.conftest import Ground, say, send_media


@pytest.mark.spec("C1", "C2", "C4", "C22")
async def test_a_voice_note_becomes_text_in_its_place(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "g-1", caption="listen")
    await say(queues, "are you there?")
    await ground.until_stored("are you there?")  # the text does not wait for the voice note
    await ground.finish(*await ground.claim(), text="hello there")
    await keeper.deliver_once()
    await ground.until_stored("listen\n\nhello there", "are you there?")
    assert await ground.one("select count(*) from jobs") == 0
    assert await ground.rows("select id, message_size from queues order by id") == [(1, 19), (2, 14)]


@pytest.mark.spec("C3")
async def test_the_job_knows_whose_it_is_and_holds_the_whole_placeholder(ground: Ground) -> None:
    _, queues = await ground.run()
    message = await send_media(
        queues, "g-1", caption="listen", original_filename="v.ogg", media_metadata={"_quota_exceeded": False}
    )
    assert message is not None
    [(owner, subject, mime_type, state, payload)] = await ground.rows(
        "select owner, subject_id, mime_type, state, payload from jobs"
    )
    assert (owner, subject, mime_type, state) == ("bot:bot", "g-1", "audio/ogg", "queued")
    job = json.loads(payload)
    assert (job["bot_id"], job["correspondent_id"], job["guid"]) == ("bot", "ann", "g-1")
    assert Message.from_json(job["placeholder_message"]) == message
    assert not {"bot_id", "correspondent_id"} & set(job["placeholder_message"])
    assert job["original_filename"] == "v.ogg"
    assert job["media_metadata"] == {"_quota_exceeded": False}


@pytest.mark.spec("C22", "C25")
async def test_a_failure_is_told_to_the_conversation_and_keeps_the_caption(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "g-1", caption="my cat")
    [job] = await ground.claim()
    await ground.fail(job, "the file is damaged", notice="[The file is damaged]", traceback="where it was")
    await keeper.deliver_once()
    await ground.until_stored("[The file is damaged] my cat")
    assert await ground.rows("select error, traceback from dead_jobs") == [
        ("the file is damaged", "where it was")
    ]


async def test_the_bot_answers_once(ground: Ground) -> None:
    keeper, queues = await ground.run(reply={"by": "echo"})
    await say(queues, "hello")
    await ground.until_stored("hello", "You said: hello")
    await send_media(queues, "g-1")
    await ground.finish(*await ground.claim(), text="a song")
    await keeper.deliver_once()
    await ground.until_stored("hello", "You said: hello", "a song", "You said: a song")
    assert [text for _, text in ground.line.sent.values()] == ["You said: hello", "You said: a song"]


@pytest.mark.spec("C8", "C22", "C23")
async def test_media_sent_again_between_its_text_and_its_storing_is_heard_once(ground: Ground) -> None:
    ground.settings = ground.settings.model_copy(update={"ingest_seconds": 600})  # not stored before the end
    keeper, queues = await ground.run()
    heard: list[str] = []
    queues.register_callback(lambda _correspondent, message: heard.append(message.content))
    await send_media(queues, "g-1", provider_message_id="p-1")
    await ground.finish(*await ground.claim(), text="a song")
    await keeper.deliver_once()
    async with ground.database.transaction() as other:
        await other.execute(
            "lock table arrivals in share row exclusive mode"
        )  # nothing is accepted meanwhile
        again = asyncio.create_task(send_media(queues, "g-1", provider_message_id="p-1"))

        async def waits() -> object:
            return await ground.one("select count(*) from pg_locks where not granted")

        await wait_until(waits)
        await keeper.deliver_once()
    assert await again is None
    assert heard == ["a song"]
    assert list(queues.placeholders()) == []


async def lose_worker(ground: Ground) -> None:
    """The worker that has claimed everything dies."""
    [job] = await ground.claim()
    assert job.attempts == 1
    async with ground.database.transaction() as connection:
        rows = await recovery.lock_claims_of_worker.rows(connection, worker_id=job.worker_id, batch=10)
        assert await release_claims(connection, ground.engine, rows) == 1


@pytest.mark.spec("C22", "E9")
async def test_a_worker_that_dies_costs_a_voice_note_no_attempt(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "g-1")
    assert await ground.one("select max_attempts from jobs") == 1
    for _ in range(4):
        await lose_worker(ground)
    await ground.finish(*await ground.claim(), text="hello there")
    await keeper.deliver_once()
    await ground.until_stored("hello there")


@pytest.mark.spec("C22", "E8", "E9")
async def test_a_file_that_kills_five_workers_is_dead_and_its_sender_is_notified(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "g-1", caption="my cat")
    for _ in range(5):
        await lose_worker(ground)
    dead = "select reason, error, attempts from dead_jobs"
    assert await ground.rows(dead) == [("max_attempts_exhausted", "its worker died 5 times", 1)]
    await keeper.deliver_once()
    await ground.until_stored("[The media could not be processed] my cat")

"""Another try of failed media: the text takes the place of the notice, stored or not, and is not answered again."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.conversations.retry import NothingToRetryError, retry_message
from mediamill.conversations.watch import list_messages
from mediamill.engine.dead import requeue_dead
from mediamill.errors import NotFoundError
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.inputs import end_input, find_input
from mediamill.staging.sweep import sweep_failed
from tests.conversations.conftest import Ground, say, send_media

WHERE = ("bot", "line", "ann")


async def retry(ground: Ground, message_id: int) -> str:
    async with ground.database.transaction() as connection:
        return await retry_message(connection, ground.engine, *WHERE, message_id)


async def messages(ground: Ground) -> list[dict[str, Any]]:
    async with ground.database.connection() as connection:
        return await list_messages(connection, *WHERE)


async def media_state(ground: Ground, id_: int) -> str:
    return str((await messages(ground))[id_ - 1]["media"]["state"])


@pytest.mark.spec("C22", "C25", "C10")
@pytest.mark.parametrize("way", ["message", "dead letter"])
async def test_the_text_takes_the_place_of_the_notice_and_is_not_answered_again(
    ground: Ground, way: str
) -> None:
    keeper, queues = await ground.run(reply={"by": "echo"})
    await send_media(queues, "guid-1", caption="my cat")
    assert await media_state(ground, 1) == "waiting"
    folder = ground.settings.data_folder
    staging_folder(folder).mkdir(parents=True)
    (staging_folder(folder) / "guid-1").write_bytes(b"meow")
    [job] = await ground.claim()
    assert await media_state(ground, 1) == "processing"
    await ground.fail(job, "no model")
    payload = {"file": {"staged": "guid-1"}}
    await end_input(ground.database, folder, payload, keep=True)
    await keeper.deliver_once()
    notice = "[The media could not be processed] my cat"
    await ground.until_stored(notice, f"You said: {notice}")
    assert await media_state(ground, 1) == "failed"

    if way == "message":
        assert await retry(ground, 1) == "media"
    else:
        async with ground.database.transaction() as connection:
            assert await requeue_dead(connection, ground.engine, None) == [job.id]
    assert await media_state(ground, 1) == "waiting"
    found = find_input(folder, payload)
    assert found == failed_folder(folder) / "guid-1"
    assert found.read_bytes() == b"meow"
    await ground.finish(*await ground.claim(), text="a cat")
    await end_input(ground.database, folder, payload, keep=False)
    await keeper.deliver_once()
    await ground.until_stored("my cat\n\na cat", f"You said: {notice}")
    assert await media_state(ground, 1) == "done"
    assert not found.exists()
    assert len(ground.line.sent) == 1
    assert await ground.one("select message_size from queues where id = 1") == len("my cat\n\na cat")
    assert (await messages(ground))[0]["media"]["failed_reason"] is None
    with pytest.raises(NothingToRetryError):
        await retry(ground, 1)


@pytest.mark.spec("C22", "C25")
async def test_a_text_that_comes_before_the_notice_was_stored_is_not_lost(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1", caption="my cat")
    jobs = await ground.claim()
    await ground.stop()
    await keeper.keep_once()
    await ground.fail(jobs[0], "no model")  # told while the bot is stopped: nobody stores it
    assert await retry(ground, 1) == "media"
    await ground.one("delete from held_owners")
    await ground.one("update jobs set state = 'queued' returning 1")
    await ground.finish(*await ground.claim(), text="a cat")
    await ground.start()
    ground.settings = ground.settings.model_copy(update={"ingest_seconds": 3600})
    other = ground.keeper()
    async with ground.database.transaction() as blocker:  # so that the ingestion cannot be first
        await blocker.execute("lock table queues in share mode")
        await other.keep_once()
        await other.deliver_once()
    await other.stop_all()
    assert await ground.stored() == ["my cat\n\na cat"]


@pytest.mark.spec("C25")
async def test_a_second_failure_is_told_in_place_of_the_first(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    for notice in ("[First]", "[Second]"):
        [job] = await ground.claim()
        await ground.fail(job, notice, notice=notice)
        await keeper.deliver_once()
        await ground.until_stored(notice)
        assert await retry(ground, 1) == "media"
    await ground.finish(*await ground.claim(), text="text")
    await keeper.deliver_once()
    await ground.until_stored("text")


@pytest.mark.spec("C25")
async def test_media_whose_file_is_not_kept_any_longer_cannot_be_tried_again(ground: Ground) -> None:
    _, queues = await ground.run()
    await send_media(queues, "guid-1")
    [job] = await ground.claim()
    await ground.fail(job, "no model")
    assert (await messages(ground))[0]["media"]["can_retry"]
    aside = failed_folder(ground.settings.data_folder)
    aside.mkdir(parents=True)
    (aside / "guid-1").write_bytes(b"meow")
    assert await sweep_failed(ground.database, ground.settings.data_folder, -60) == 1
    assert not (await messages(ground))[0]["media"]["can_retry"]
    with pytest.raises(NothingToRetryError) as caught:
        await retry(ground, 1)
    assert "sent again" in str(caught.value.fix)


async def test_there_must_be_something_to_retry(ground: Ground) -> None:
    _, queues = await ground.run()
    await say(queues, "hello")
    await send_media(queues, "guid-1")
    with pytest.raises(NotFoundError):
        await retry(ground, 7)
    for id_ in (1, 2):
        with pytest.raises(NothingToRetryError):
            await retry(ground, id_)

"""Placeholders that nobody will finish, forgotten jobs, staged files, and old message ids."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from mediamill.conversations import janitor
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.janitor import forget_arrivals, give_up_placeholders
from mediamill.engine.dead import FileGivenUpError, requeue_dead
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.janitor import bury_forgotten
from mediamill.engine.recovery.sweep import run_chore
from mediamill.settings import Settings
from mediamill.staging import staging_folder
from mediamill.staging.sweep import sweep_staging
from tests.conftest import wait_until
from tests.conversations.conftest import Ground, say, send_media


async def give_up(ground: Ground, queues: BotQueuesManager) -> int:
    return await give_up_placeholders(ground.database, ground.engine, [queues], 3)


def grow_old(queues: BotQueuesManager) -> None:
    for _, message in queues.placeholders():
        message.accepted_time -= timedelta(hours=4)


async def until_gone(path: Path) -> None:
    async def gone() -> bool:
        return not await asyncio.to_thread(path.exists)

    await wait_until(gone, 30)


@pytest.mark.spec("E34")
def test_three_hours_is_the_default() -> None:
    assert Settings().placeholder_keep_hours == 3


@pytest.mark.spec("E34", "C22")
async def test_an_old_placeholder_goes_to_the_dead_letter_with_its_job_and_is_told_once(
    ground: Ground,
) -> None:
    keeper, queues = await ground.run(reply={"by": "echo"})
    await send_media(queues, "g-old", caption="my cat")
    grow_old(queues)
    await send_media(queues, "g-young")
    assert await give_up(ground, queues) == 1
    assert await give_up(ground, queues) == 0
    assert await ground.rows("select subject_id, reason from dead_jobs") == [("g-old", "abandoned")]
    assert await ground.rows("select subject_id from jobs") == [("g-young",)]
    for _ in range(2):
        await keeper.deliver_once()
    notice = "[The media could not be processed] my cat"
    await ground.until_stored(notice, f"You said: {notice}")
    assert queues.has_placeholder("ann", "g-young")
    assert await ground.rows("select media ->> 'failed_reason' from queues order by id limit 1") == [
        ("abandoned",)
    ]


@pytest.mark.spec("E34")
async def test_a_job_that_runs_or_has_its_result_is_left_alone(ground: Ground) -> None:
    keeper, queues = await ground.run()
    for guid in ("g-1", "g-2"):
        await send_media(queues, guid)
    first, second = await ground.claim()
    await ground.finish(first, text="one")
    grow_old(queues)
    assert await give_up(ground, queues) == 0
    await ground.finish(second, text="two")
    await keeper.deliver_once()
    await ground.until_stored("one", "two")
    assert await ground.one("select count(*) from dead_jobs") == 0


@pytest.mark.spec("E34")
async def test_a_placeholder_without_any_job_is_told_too(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1", caption="my cat")
    await ground.one("delete from jobs")
    grow_old(queues)
    assert await give_up(ground, queues) == 1
    await keeper.deliver_once()
    await ground.until_stored("[The media could not be processed] my cat")


@pytest.mark.spec("E34")
async def test_more_placeholders_than_a_batch_are_all_given_up(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "BATCH", 5)
    keeper, queues = await ground.run()
    for n in range(12):
        await send_media(queues, f"guid-{n}")
    grow_old(queues)
    await keeper.tidy()
    await keeper.deliver_once()
    await ground.until_stored(*["[The media could not be processed]"] * 12)
    assert await ground.one("select count(*) from jobs") == 0
    assert await ground.one("select count(*) from dead_jobs") == 12


@pytest.mark.spec("E34", "C22")
async def test_a_forgotten_job_is_told_to_the_conversation_and_a_late_word_of_it_is_dropped(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "guid-1")
    jobs = await ground.claim()
    await ground.one(
        "update jobs set lease_expires_at = now() - interval '5 hours', claimed_at = now() - interval '6 hours', "
        "created_at = now() - interval '6 hours', run_after = now() - interval '6 hours' returning 1"
    )
    staged = staging_folder(ground.settings.data_folder) / "guid-1"
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"x")
    await run_chore(ground.database, ground.engine, release_expired)
    assert await run_chore(ground.database, ground.engine, bury_forgotten) == 1
    await until_gone(staged)
    async with ground.database.transaction() as connection:
        with pytest.raises(FileGivenUpError):
            await requeue_dead(connection, ground.engine, None)
    settled = await ground.finish(*jobs, text="too late")
    assert settled.lost == {jobs[0].id}
    assert "Job record missing for GUID guid-1" in caplog.text
    await keeper.deliver_once()
    await ground.until_stored("[The media could not be processed]")


@pytest.mark.spec("E34")
async def test_staged_files_live_as_long_as_their_jobs(ground: Ground) -> None:
    _, queues = await ground.run()
    folder = staging_folder(ground.settings.data_folder)
    folder.mkdir(parents=True)
    hours_ago = time.time() - 5 * 3600
    for guid in ("g-job", "g-given-up", "g-nobody"):
        (folder / guid).write_bytes(b"x")
        os.utime(folder / guid, (hours_ago, hours_ago))
    await send_media(queues, "g-given-up")
    grow_old(queues)
    await send_media(queues, "g-job")
    await give_up(ground, queues)
    await until_gone(folder / "g-given-up")
    await sweep_staging(ground.database, ground.settings.data_folder, 4 * 3600)
    assert [path.name for path in folder.iterdir()] == ["g-job"]


@pytest.mark.spec("C2", "E34")
async def test_message_ids_are_forgotten_when_nobody_sends_them_again(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await say(queues, "old", provider_message_id="p-old")
    await send_media(queues, "guid-1", provider_message_id="p-waits")
    await ground.until_stored("old")
    await ground.one("update arrivals set accepted_at = now() - interval '40 days' returning 1")
    await say(queues, "new", provider_message_id="p-new")
    await ground.until_stored("old", "new")
    assert await forget_arrivals(ground.database, 30) == 1
    assert await ground.rows("select provider_message_id from arrivals order by 1") == [
        ("p-new",),
        ("p-waits",),
    ]
    await keeper.tidy()


@pytest.mark.spec("E34")
async def test_tidying_up_is_one_round_of_everything_and_the_table_takes_turns(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await say(queues, "old")
    await ground.until_stored("old")
    await send_media(queues, "guid-1", caption="my cat")
    grow_old(queues)
    for sql in (
        "update arrivals set accepted_at = now() - interval '400 days' where id = 1 returning 1",
        """insert into sender_days (bot_id, provider_name, sender_id, day)
        values ('bot', 'line', 'ann', '2020-01-01') returning 1""",
    ):
        await ground.one(sql)
    await keeper.tidy()
    assert await ground.rows("select id, state from arrivals") == [(2, "ready")]
    assert await ground.one("select media ->> 'failed_reason' from arrivals") == "abandoned"
    assert await ground.one("select count(*) from sender_days where sender_id = 'ann'") == 0
    await keeper.deliver_once()
    await ground.until_stored("old", "[The media could not be processed] my cat")
    await ground.one("update arrivals set accepted_at = now() - interval '400 days' returning 1")
    await keeper.tidy()  # the turn was taken a moment ago
    assert await ground.one("select count(*) from arrivals") == 1


@pytest.mark.spec("C2", "E34")
async def test_more_message_ids_than_a_batch_are_forgotten_in_one_go(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "FORGET_BATCH", 2)
    await ground.create(start=False)
    arrivals = """insert into arrivals
        (bot_id, provider_name, correspondent_id, provider_message_id, id, state, accepted_at)
        select 'bot', 'line', 'ann', n::text, n, 'stored', now() - interval '30 days' - interval '1 hour' * (4.5 - n)
        from generate_series(1, 5) n returning 1"""
    await ground.one(arrivals)
    assert await forget_arrivals(ground.database, 30) == 4
    assert await ground.rows("select id from arrivals") == [(5,)]


@pytest.mark.spec("E34")
async def test_only_what_waited_longer_than_asked_for_is_given_up_however_much_it_is(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(janitor, "BATCH", 2)
    _, queues = await ground.run()
    for n in range(5):
        await send_media(queues, f"guid-{n}")
    for (_, message), minutes in zip(queues.placeholders(), (59, 61, 61, 61, 61), strict=True):
        message.accepted_time -= timedelta(minutes=minutes)
    gave = await janitor.give_up_placeholders(ground.database, ground.engine, [queues], 1.0)
    assert gave == 4
    assert await ground.rows("select subject_id from jobs") == [("guid-0",)]

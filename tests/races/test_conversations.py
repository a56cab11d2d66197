"""Races around a message's media, on real connections: whoever comes first, one text in the conversation, once."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from datetime import timedelta

import pytest

from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.deliver import write_texts
from mediamill.conversations.ingest import IngestionService
from mediamill.conversations.janitor import give_up_placeholders
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.model import Message
from mediamill.conversations.retry import retry_message
from mediamill.engine.model import ClaimedJob
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.janitor import bury_forgotten
from mediamill.engine.recovery.sweep import run_chore
from tests.conversations.conftest import Ground, ground, say, send_media
from tests.outages import let_time_pass

__all__ = ["ground"]

ROUNDS = 30
NOTICE = "[The media could not be processed]"
CONTENT = "select content from queues where media ->> 'guid' = $1"


@pytest.fixture(autouse=True)
def ingest_fast(ground: Ground) -> None:
    ground.settings = ground.settings.model_copy(update={"ingest_seconds": 0.01})


async def steps(number: int) -> None:
    """Let the others go on a little: another order in every round."""
    for _ in range(number):
        await asyncio.sleep(0)


async def claim_one(ground: Ground, queues: BotQueuesManager, guid: str) -> ClaimedJob:
    await send_media(queues, guid)
    [job] = await ground.claim()
    return job


def hear(queues: BotQueuesManager, heard: list[str]) -> None:
    def told(_correspondent: str, message: Message) -> None:
        heard.append(message.content)

    queues.register_callback(told)


def queues_of(keeper: BotKeeper) -> BotQueuesManager:
    return keeper.get("bot").queues["line"]


async def expire(ground: Ground) -> None:
    """The worker was silent for hours."""
    await ground.one("update jobs set lease_expires_at = now() - interval '5 hours'")


async def grow_old(ground: Ground, queues: BotQueuesManager) -> None:
    for _, message in queues.placeholders():
        message.accepted_time -= timedelta(hours=4)
    await let_time_pass(ground.database, 4, served=True)


@pytest.mark.spec("C22", "C23", "E11", "E12")
async def test_delivery_against_bot_stop(ground: Ground) -> None:
    keeper, _ = await ground.run()
    heard: list[str] = []
    for round_ in range(ROUNDS):
        hear(queues_of(keeper), heard)
        job = await claim_one(ground, queues_of(keeper), f"g{round_}")
        await ground.finish(job, text=f"text {round_}")

        async def stop() -> None:
            await steps(random.randrange(40))
            await ground.stop()
            await keeper.keep_once()

        await asyncio.gather(keeper.deliver_once(), stop())
        await ground.start()
        await keeper.keep_once()
        hear(queues_of(keeper), heard)
        await keeper.deliver_once()
        await ground.until_row(CONTENT, f"g{round_}")
        assert list(queues_of(keeper).placeholders()) == []
        await ground.stop()
        await keeper.keep_once()
        await ground.start()
        await keeper.keep_once()
    assert await ground.stored() == [f"text {n}" for n in range(ROUNDS)]
    assert sorted(heard) == sorted(f"text {n}" for n in range(ROUNDS))
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C23", "E11", "E12")
async def test_the_reaping_of_a_bot_that_starts_against_the_workers_delivery(ground: Ground) -> None:
    keeper, _ = await ground.run()
    for round_ in range(ROUNDS):
        job = await claim_one(ground, queues_of(keeper), f"g{round_}")
        await ground.stop()
        await keeper.keep_once()
        await ground.start()

        async def back() -> None:
            await keeper.keep_once()
            await keeper.deliver_once()

        async def finish(late: int, job: ClaimedJob, text: str) -> None:
            await steps(late)
            assert (await ground.finish(job, text=text)).done == {job.id}

        await asyncio.gather(back(), finish(random.randrange(60), job, f"text {round_}"))
        await keeper.deliver_once()
        await ground.until_row(CONTENT, f"g{round_}")
    assert await ground.stored() == [f"text {n}" for n in range(ROUNDS)]
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("C4", "C22", "E11")
async def test_two_deliverers_deliver_once(ground: Ground) -> None:
    keeper, queues = await ground.run(reply={"by": "echo"})
    heard: list[str] = []
    hear(queues, heard)
    other = (
        ground.keeper()
    )  # has no bot of its own; the first one's connection to its lock is gone for a while
    for round_ in range(ROUNDS):
        job = await claim_one(ground, queues, f"g{round_}")
        await ground.finish(job, text=f"text {round_}")
        await asyncio.gather(*(each.deliver_once() for each in (keeper, other, keeper, keeper)))
    texts = [f"text {n}" for n in range(ROUNDS)]
    assert [each for each in heard if not each.startswith("You said")] == texts
    await ground.until_row("select count(*) = $1 from replies where state = 'sent'", ROUNDS)
    assert sorted(text for _, text in ground.line.sent.values()) == sorted(
        f"You said: {each}" for each in texts
    )


@pytest.mark.spec("C4", "C6", "C8")
async def test_eviction_against_delivery(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediamill.conversations.ingest.LEFT_BEHIND_SECONDS", 0.0)
    keeper, queues = await ground.run(limits={"max_messages": 1, "max_characters": 8})
    heard: list[str] = []
    hear(queues, heard)
    for round_ in range(ROUNDS):
        job = await claim_one(ground, queues, f"g{round_}")
        await ground.finish(job, text=f"text {round_}")

        async def talk(round_: int) -> None:
            for n in range(3):
                await say(queues, f"say {round_} {n}")

        await asyncio.gather(talk(round_), keeper.deliver_once())
    expected = [f"text {n}" for n in range(ROUNDS)] + [
        f"say {r} {n}" for r in range(ROUNDS) for n in range(3)
    ]
    await ground.until_row("select count(*) = $1 from queues", len(expected))
    assert sorted(await ground.stored()) == sorted(expected) == sorted(heard)


@pytest.mark.spec("E34", "E11", "C22")
@pytest.mark.parametrize("janitor", ["of placeholders", "of jobs"])
async def test_janitor_against_a_late_worker(
    ground: Ground, janitor: str, caplog: pytest.LogCaptureFixture
) -> None:
    keeper, queues = await ground.run()
    heard: list[str] = []
    hear(queues, heard)
    fates: dict[str, int] = {}
    for round_ in range(ROUNDS):
        job = await claim_one(ground, queues, f"g{round_}")
        if round_ % 2:
            await expire(ground)
        await grow_old(ground, queues)

        async def tidy() -> None:
            await run_chore(ground.database, ground.engine, release_expired)
            if janitor == "of jobs":
                await run_chore(ground.database, ground.engine, bury_forgotten)
            await give_up_placeholders(ground.database, ground.engine, [queues], 3)

        tidied = asyncio.create_task(tidy())
        await steps(random.randrange(80))
        if round_ % 4 == 3:
            await tidied
        done = bool((await ground.finish(job, text="the text")).done)
        await tidied
        await tidy()
        await keeper.deliver_once()
        expected = "the text" if done else NOTICE
        assert heard[-1] == expected, fates
        assert len(heard) == round_ + 1
        await ground.until_row(CONTENT, f"g{round_}")
        assert await ground.one(CONTENT, f"g{round_}") == expected
        assert await ground.one("select count(*) from dead_jobs where subject_id = $1", f"g{round_}") == (
            not done
        )
        fates[expected] = fates.get(expected, 0) + 1
    missing = [record for record in caplog.records if "Job record missing for GUID" in record.message]
    assert all(record.levelno == logging.WARNING for record in missing)
    assert fates.keys() == {"the text", NOTICE}
    assert missing


@pytest.mark.spec("E11", "E34")
async def test_a_word_that_comes_after_the_janitor_is_dropped_with_a_warning(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    keeper, queues = await ground.run()
    job = await claim_one(ground, queues, "guid-1")
    await expire(ground)
    await grow_old(ground, queues)
    await run_chore(ground.database, ground.engine, release_expired)
    assert await give_up_placeholders(ground.database, ground.engine, [queues], 3) == 1
    assert (await ground.finish(job, text="too late")).lost == {job.id}
    assert "Job record missing for GUID guid-1" in caplog.text
    await keeper.deliver_once()
    await ground.until_stored(NOTICE)


@pytest.mark.spec("C25", "E34")
async def test_retry_against_janitor(ground: Ground) -> None:
    keeper, queues = await ground.run()
    for round_ in range(ROUNDS):
        guid = f"g{round_}"
        message = await send_media(queues, guid)
        assert message is not None
        [job] = await ground.claim()
        await ground.fail(job, "broken")
        await grow_old(ground, queues)

        async def retry(late: int, message_id: int) -> str:
            await steps(late)
            async with ground.database.transaction() as connection:
                return await retry_message(connection, ground.engine, "bot", "line", "ann", message_id)

        async def tidy() -> None:
            await give_up_placeholders(ground.database, ground.engine, [queues], 3)
            await run_chore(ground.database, ground.engine, bury_forgotten)

        await asyncio.gather(retry(random.randrange(30), message.id), tidy(), keeper.deliver_once())
        for again in await ground.claim():
            await ground.finish(again, text="the text")
        await keeper.deliver_once()
        await ground.until_row(f"select exists ({CONTENT} and content = 'the text')", guid)
    assert await ground.one("select count(*) from jobs") == 0
    assert await ground.one("select count(*) from dead_jobs") == 0


@pytest.mark.spec("C8", "C25")
async def test_a_text_that_replaces_a_notice_against_the_storing_of_the_notice(ground: Ground) -> None:
    ground.settings = ground.settings.model_copy(update={"ingest_seconds": 3600})
    keeper, queues = await ground.run()
    counter = itertools.count()
    for round_ in range(ROUNDS):
        guid = f"g{round_}"
        message = await send_media(queues, guid)
        assert message is not None
        [job] = await ground.claim()
        await ground.fail(job, "broken")
        await keeper.deliver_once()
        async with ground.database.transaction() as connection:
            await retry_message(connection, ground.engine, "bot", "line", "ann", message.id)
        await ground.finish(*await ground.claim(), text="the text")
        ingestion = IngestionService(ground.database, "bot", [queues])

        async def store(late: int, ingestion: IngestionService) -> None:
            await steps(late)
            await ingestion.ingest()

        await asyncio.gather(keeper.deliver_once(), store(next(counter) % 40, ingestion))
        assert await ground.one(CONTENT, guid) == "the text", round_


@pytest.mark.spec("C8", "C25")
async def test_a_store_that_meets_a_text_which_replaces_its_notice_waits_and_stores_the_text(
    ground: Ground,
) -> None:
    ground.settings = ground.settings.model_copy(update={"ingest_seconds": 3600})
    keeper, queues = await ground.run()
    job = await claim_one(ground, queues, "guid-1")
    await ground.fail(job, "broken")
    await keeper.deliver_once()
    async with ground.database.transaction() as connection:
        assert await write_texts(connection, {"guid-1": ("the text", None)}) == {"guid-1"}
        storing = asyncio.create_task(IngestionService(ground.database, "bot", [queues]).ingest())
        await ground.until_row("select exists (select from pg_locks where not granted)")
    assert await storing == 1
    assert await ground.stored() == ["the text"]

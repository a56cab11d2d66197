"""How long a job is put off for a model server that is busy or unavailable, and what can be seen of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mediamill.conversations.jobs import message_kinds
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.settle import Fate
from mediamill.engine.watch import overview
from mediamill.errors import Wait
from mediamill.settings import Settings
from tests.engine.conftest import Bench

pytestmark = pytest.mark.spec("C31")

SERVER = Wait(30, "model:4000")
LIMIT_SECONDS = 3600.0  # of the pool `default`


async def put_off(bench: Bench, wait: Wait = SERVER) -> Fate:
    """The job is claimed and finds the server as it is said."""
    await bench.run("update jobs set state = 'queued', pool = 'default', run_after = now()")
    [job] = await bench.claim()
    return await bench.fail(job, "too many requests", wait=wait)


async def waited(bench: Bench, **span: float) -> None:
    await bench.run("update jobs set waiting_since = waiting_since - $1::interval", timedelta(**span))


async def test_a_job_waits_as_long_as_the_setting_says_and_only_then_an_attempt_counts(bench: Bench) -> None:
    await bench.enqueue(max_attempts=1)
    for _ in range(5):
        assert await put_off(bench) is Fate.AGAIN
        assert await bench.one("select attempts from jobs") == 0
    away = await bench.one("select extract(epoch from run_after - now()) from jobs")
    assert 20 < away <= 30, "it is tried again when the server wants it"
    await waited(bench, hours=23)
    assert await put_off(bench) is Fate.AGAIN
    await waited(bench, hours=1)
    assert await put_off(bench) is Fate.DEAD
    assert await bench.one("select reason from dead_jobs") == "max_attempts_exhausted"


@pytest.mark.parametrize("suspect", [False, True], ids=["awaited", "suspect"])
async def test_media_of_a_chat_and_a_file_that_may_be_the_reason_wait_no_longer_than_the_pool_allows(
    bench: Bench, suspect: bool
) -> None:
    for kind in message_kinds(Settings()):
        bench.engine.kinds.add(kind)
    await bench.run("update pools set timeout_seconds = $1", LIMIT_SECONDS)
    await bench.enqueue("test.plain" if suspect else "message.process", max_attempts=1, pool="default")
    wait = Wait(30, "model:4000", suspect)
    assert await put_off(bench, wait) is Fate.AGAIN
    await waited(bench, seconds=LIMIT_SECONDS - 60)
    assert await put_off(bench, wait) is Fate.AGAIN
    await waited(bench, seconds=60)
    assert await put_off(bench, wait) is Fate.DEAD


async def test_what_is_waited_for_is_seen_until_the_job_goes_on(bench: Bench) -> None:
    assert await seen(bench) == []
    await bench.enqueue(max_attempts=2)
    await put_off(bench)
    [wait] = await seen(bench)
    assert (wait["server"], wait["jobs"], wait["reason"]) == ("model:4000", 1, "too many requests")
    assert wait["since"] <= datetime.now(UTC)
    await bench.run("update jobs set state = 'queued', run_after = now()")
    [job] = await bench.claim()
    assert await seen(bench) == [], "it runs"
    await bench.fail(job, "another reason")
    assert await seen(bench) == []
    assert await bench.one("select waiting_since from jobs") is None, "another outage is another wait"


async def test_time_on_hold_is_no_time_of_waiting(bench: Bench) -> None:
    await bench.enqueue(owner="bot", max_attempts=1)
    await put_off(bench)
    async with bench.database.transaction() as connection:
        await hold_owner(connection, "bot")
    assert await seen(bench) == []
    await waited(bench, hours=50)
    async with bench.database.transaction() as connection:
        await release_owner(connection, "bot")
    assert await put_off(bench) is Fate.AGAIN


async def seen(bench: Bench) -> list[dict[str, Any]]:
    async with bench.database.connection() as connection:
        waits: list[dict[str, Any]] = (await overview(connection))["waits"]
    return waits

"""The dead letter: listed, shown, requeued with fresh attempts, purged."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mediamill.engine.browse import browse_dead, browse_jobs
from mediamill.engine.dead import (
    UnknownJobError,
    purge_dead,
    purge_jobs,
    requeue_dead,
    retry_job,
)
from mediamill.engine.hold import hold_owner
from mediamill.engine.watch import show_job
from mediamill.errors import ConflictError
from tests.engine.conftest import Bench


async def die(bench: Bench, kind: str = "test.plain", **more: object) -> int:
    id_ = await bench.enqueue(kind, **more)
    (job,) = await bench.claim()
    await bench.fail(job, f"no {id_}", permanent=True, traceback="the trace")
    return id_


@pytest.mark.spec("E13")
async def test_dead_jobs_are_listed_newest_first_by_page_kind_owner_and_reason(bench: Bench) -> None:
    ids = [await die(bench, owner=f"o{n % 2}") for n in range(4)]
    other = await die(bench, "test.subject", subject_id="s")
    async with bench.database.connection() as connection:
        found = (await browse_dead(connection)).jobs
        assert [job["id"] for job in found] == [other, *reversed(ids)]
        assert found[0]["reason"] == "permanent"
        assert [job["id"] for job in (await browse_dead(connection, kind="test.subject")).jobs] == [other]
        assert [job["id"] for job in (await browse_dead(connection, owner="o1")).jobs] == [ids[3], ids[1]]
        assert (await browse_dead(connection, reason="max_attempts_exhausted")).jobs == []
        page = await browse_dead(connection, amount=2)
        rest = await browse_dead(connection, before=page.next)
        assert [job["id"] for job in [*page.jobs, *rest.jobs]] == [other, *reversed(ids)]


@pytest.mark.spec("E13")
async def test_a_dead_job_is_shown_with_its_whole_record(bench: Bench) -> None:
    id_ = await die(bench, payload={"a": [1]}, subject_id="s")
    async with bench.database.connection() as connection:
        shown = await show_job(connection, id_)
        assert (shown["state"], shown["payload"], shown["traceback"]) == ("dead", {"a": [1]}, "the trace")
        assert (shown["error"], shown["worker_name"], shown["subject_id"]) == (f"no {id_}", "a", "s")
        assert shown["claimed_at"] >= shown["started_at"]
        with pytest.raises(UnknownJobError, match="no job 424242"):
            await show_job(connection, 424242)
        assert [job["state"] for job in (await browse_jobs(connection)).jobs] == ["dead"]


@pytest.mark.spec("E13")
async def test_a_requeued_job_has_fresh_attempts_an_old_token_is_void_and_its_subject_is_told(
    bench: Bench,
) -> None:
    await bench.enqueue("test.subject", subject_id="s", max_attempts=1, payload={"a": 1})
    (first,) = await bench.claim()
    await bench.fail(first)
    assert await bench.subject("s") == "failed"
    async with bench.database.transaction() as connection:
        assert await requeue_dead(connection, bench.engine, [first.id]) == [first.id]
    assert await bench.subject("s") == "released"
    assert await bench.one("select count(*) from dead_jobs") == 0
    (again,) = await bench.claim()
    assert (again.id, again.attempts, again.max_attempts, again.payload_json) == (first.id, 1, 1, '{"a": 1}')
    assert again.token > first.token
    assert (await bench.finish(first)).lost == {first.id}
    assert (await bench.finish(again)).done == {first.id}


@pytest.mark.spec("E13")
async def test_all_dead_jobs_of_a_kind_can_be_requeued_or_purged_at_once(bench: Bench) -> None:
    plain = [await die(bench) for _ in range(3)]
    other = await die(bench, "test.subject", subject_id="s")
    async with bench.database.transaction() as connection:
        assert sorted(await requeue_dead(connection, bench.engine, None, kind="test.plain")) == plain
        assert await purge_dead(connection, [other, 424242]) == [other]
        assert await purge_dead(connection, None) == []
    assert await bench.one("select count(*) from dead_jobs") == 0
    assert await bench.state(other) is None


@pytest.mark.spec("E12", "E13")
async def test_a_requeued_job_of_a_held_owner_or_of_a_pool_that_is_gone_still_finds_its_place(
    bench: Bench,
) -> None:
    held, moved = await die(bench, owner="bot"), await die(bench)
    await bench.run("update dead_jobs set pool = 'gone' where id = $1", moved)
    async with bench.database.transaction() as connection:
        await hold_owner(connection, "bot")
        assert sorted(await requeue_dead(connection, bench.engine, None)) == [held, moved]
    assert await bench.state(held) == "held"
    assert [job.id for job in await bench.claim(amount=5)] == [moved]


@pytest.mark.spec("E13")
async def test_retry_means_now_for_dead_and_waiting_jobs_and_is_refused_for_others(bench: Bench) -> None:
    dead = await die(bench)
    waits = await bench.enqueue(run_after=datetime.now(UTC) + timedelta(hours=1))
    async with bench.database.transaction() as connection:
        await retry_job(connection, bench.engine, dead)
        await retry_job(connection, bench.engine, waits)
    assert {job.id for job in await bench.claim(amount=5)} == {dead, waits}
    done = await bench.enqueue()
    await bench.finish(*await bench.claim())
    async with bench.database.connection() as connection:
        with pytest.raises(ConflictError, match="is running already"):
            await retry_job(connection, bench.engine, dead)
        with pytest.raises(ConflictError, match="has finished"):
            await retry_job(connection, bench.engine, done)
        with pytest.raises(UnknownJobError):
            await retry_job(connection, bench.engine, 424242)


@pytest.mark.spec("E6", "E13")
async def test_waiting_jobs_can_be_thrown_away_and_what_runs_is_left_alone(bench: Bench) -> None:
    runs = await bench.enqueue("test.subject", subject_id="runs")
    await bench.claim()
    waits = await bench.enqueue("test.subject", subject_id="waits")
    async with bench.database.transaction() as connection:
        assert await purge_jobs(connection, bench.engine, None) == [waits]
    assert await bench.state(waits) is None
    assert await bench.subject("waits") == "failed"
    assert await bench.state(runs) == "running"

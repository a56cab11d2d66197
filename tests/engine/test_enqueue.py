"""Enqueue: both or neither, in bulk, with every column, and once per idempotency key."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mediamill.engine.enqueue import PayloadInvalidError, PayloadTooLargeError, UnknownPoolError
from mediamill.engine.kinds import UnknownKindError
from mediamill.engine.model import NewJob, Priority
from mediamill.errors import InvalidError
from tests.engine.conftest import Bench
from tests.engine.waiting import wait_for_blocked


@pytest.mark.spec("E1")
async def test_a_rollback_of_the_cause_takes_the_job_and_its_key_with_it(bench: Bench) -> None:
    async def fail_in_the_middle() -> None:
        async with bench.database.transaction() as connection:
            await connection.execute("insert into subjects (id, status) values ('s', 'new')")
            await bench.enqueuer.enqueue_jobs(
                connection,
                [NewJob("test.plain"), NewJob("test.plain", idempotency_key="k"), NewJob("test.subject")],
            )
            raise RuntimeError("the cause is gone")

    with pytest.raises(RuntimeError, match="the cause is gone"):
        await fail_in_the_middle()
    assert await bench.one("select count(*) from jobs") == 0
    assert await bench.one("select count(*) from subjects") == 0
    assert await bench.one("select count(*) from job_keys") == 0
    # The key is free again, and what is committed together stands together.
    async with bench.database.transaction() as connection:
        await connection.execute("insert into subjects (id, status) values ('s', 'new')")
        await bench.enqueuer.enqueue_job(
            connection, NewJob("test.plain", subject_id="s", idempotency_key="k")
        )
    assert await bench.one("select count(*) from jobs join subjects on subjects.id = jobs.subject_id") == 1


@pytest.mark.spec("E1")
async def test_a_job_is_not_seen_by_others_before_its_cause_is(bench: Bench) -> None:
    async with bench.database.transaction() as connection:
        await connection.execute("insert into subjects (id, status) values ('s', 'new')")
        await bench.enqueuer.enqueue_job(connection, NewJob("test.plain"))
        assert await bench.claim() == []
    assert len(await bench.claim()) == 1


@pytest.mark.spec("E1")
async def test_every_column_of_a_job_is_kept_and_reaches_the_worker(bench: Bench) -> None:
    when = datetime.now(UTC) - timedelta(minutes=5)
    id_ = await bench.enqueue(
        payload={"file": "ä.jpg", "deep": {"n": [1, None, 2.5]}},
        owner="bot-7",
        subject_id="message-1",
        mime_type="image/jpeg",
        priority=Priority.HIGH,
        pool="default",
        max_attempts=7,
        run_after=when,
        idempotency_key="once",
    )
    async with bench.database.connection() as connection:
        row = await connection.fetchrow("select * from jobs where id = $1", id_)
    assert row is not None
    expected: dict[str, Any] = {
        "kind": "test.plain",
        "pool": "default",
        "owner": "bot-7",
        "subject_id": "message-1",
        "mime_type": "image/jpeg",
        "priority": 0,
        "max_attempts": 7,
        "attempts": 0,
        "run_after": when,
        "state": "queued",
    }
    assert {key: row[key] for key in expected} == expected
    (job,) = await bench.claim()
    assert (job.owner, job.subject_id, job.mime_type, job.max_attempts) == (
        "bot-7",
        "message-1",
        "image/jpeg",
        7,
    )
    assert '"ä.jpg"' in job.payload_json


@pytest.mark.spec("E1")
async def test_a_job_with_a_later_time_waits_for_it(bench: Bench) -> None:
    id_ = await bench.enqueue(run_after=datetime.now(UTC) + timedelta(hours=1))
    assert await bench.state(id_) == "scheduled"
    assert await bench.claim() == []
    with pytest.raises(InvalidError, match="time zone"):
        await bench.enqueue(run_after=datetime(2030, 1, 1))


@pytest.mark.spec("E1")
async def test_many_jobs_at_once_get_ids_in_the_order_in_which_they_were_given(bench: Bench) -> None:
    jobs = [
        NewJob(
            ("test.plain", "test.subject")[n % 2],
            payload={"n": n},
            owner=f"o{n % 3}",
            priority=Priority(n % 3),
            idempotency_key=f"k{n}" if n % 10 == 0 else None,
        )
        for n in range(500)
    ]
    async with bench.database.transaction() as connection:
        ids = await bench.enqueuer.enqueue_jobs(connection, jobs)
    assert len(set(ids)) == 500
    async with bench.database.connection() as connection:
        rows = await connection.fetch("select id, (payload->>'n')::int as n, kind, owner, priority from jobs")
    found = {row["id"]: (row["n"], row["kind"], row["owner"], row["priority"]) for row in rows}
    assert [found[id_] for id_ in ids] == [
        (n, job.kind, job.owner, job.priority) for n, job in enumerate(jobs)
    ]


@pytest.mark.spec("E1")
async def test_fifty_enqueues_at_once_with_one_key_make_one_job(bench: Bench) -> None:
    ids = await asyncio.gather(
        *(bench.enqueue(payload={"n": n}, idempotency_key="the same") for n in range(50))
    )
    assert len(set(ids)) == 1
    assert await bench.one("select count(*) from jobs") == 1
    assert await bench.enqueue("test.subject", idempotency_key="the same") not in ids


@pytest.mark.spec("E1")
async def test_a_key_stays_taken_after_its_job_has_finished_or_died(bench: Bench) -> None:
    done = await bench.enqueue(idempotency_key="a")
    await bench.finish(*await bench.claim())
    assert await bench.state(done) == "finished"
    assert await bench.enqueue(idempotency_key="a") == done
    dead = await bench.enqueue(idempotency_key="b")
    await bench.fail((await bench.claim())[0], permanent=True)
    assert await bench.enqueue(idempotency_key="b") == dead
    assert await bench.one("select count(*) from jobs") == 0


@pytest.mark.spec("E1")
async def test_of_two_transactions_with_one_key_the_second_gets_the_job_if_the_first_is_rolled_back(
    bench: Bench,
) -> None:
    async with bench.database.connection() as first:
        transaction = first.transaction()
        await transaction.start()
        lost = await bench.enqueuer.enqueue_job(first, NewJob("test.plain", idempotency_key="k"))
        second = asyncio.create_task(bench.enqueue(idempotency_key="k"))
        await wait_for_blocked(bench)
        await transaction.rollback()
    assert await second != lost
    assert await bench.one("select id from jobs") == await second


@pytest.mark.spec("E1")
async def test_what_cannot_be_a_job_is_refused_with_its_name(bench: Bench) -> None:
    with pytest.raises(UnknownKindError, match=r"test\.plian") as unknown:
        await bench.enqueue("test.plian")
    assert unknown.value.fix == "did you mean test.plain?"
    with pytest.raises(PayloadInvalidError, match="not list"):
        await bench.enqueue(payload=[1, 2])
    with pytest.raises(PayloadTooLargeError, match="the limit is 1000000"):
        await bench.enqueue(payload={"bytes": "x" * 1_000_001})
    with pytest.raises(UnknownPoolError, match="no pool named nowhere"):
        await bench.enqueue(pool="nowhere")
    with pytest.raises(InvalidError, match="max_attempts"):
        await bench.enqueue(max_attempts=0)
    with pytest.raises(PayloadInvalidError, match="NUL"):
        await bench.enqueue(payload={"text": "a\x00b"})
    assert await bench.one("select count(*) from jobs") == 0

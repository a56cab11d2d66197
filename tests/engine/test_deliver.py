"""Delivery: a result is saved before anybody is told, and handed over once."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mediamill.db.connection import Database
from mediamill.engine import deliver
from mediamill.engine.dead import requeue_dead
from mediamill.engine.deliver import deliver_results, reap_results
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import ClaimedJob
from mediamill.engine.rules import Engine
from tests.conftest import wait_until
from tests.engine.conftest import Bench
from tests.engine.waiting import has_no_session


async def finish_some(bench: Bench, count: int, bad: int | None = None) -> list[ClaimedJob]:
    for n in range(count):
        payload = {"refuse": "delivery"} if n == bad else {}
        await bench.enqueue("test.delivered", subject_id=f"s{n}", payload=payload)
    jobs = await bench.claim(amount=count)
    settled = await bench.finish(*jobs, result='{"text": "done"}')
    assert settled.done == {job.id for job in jobs}
    return jobs


async def delivered(bench: Bench) -> int:
    return int(await bench.one("select count(*) from deliveries"))


@pytest.mark.spec("E11")
async def test_a_result_is_on_the_job_before_it_is_delivered_and_the_job_leaves_with_the_delivery(
    bench: Bench,
) -> None:
    (job,) = await finish_some(bench, 1)
    assert await bench.state(job.id) == "completed"
    assert await bench.one("select result from jobs") == '{"text": "done"}'
    assert await delivered(bench) == 0
    assert await deliver_results(bench.database, bench.engine) == 1
    assert await bench.one("select result from deliveries") == "{'text': 'done'}"
    assert await bench.state(job.id) == "finished"


@pytest.mark.spec("E11")
async def test_delivering_twice_delivers_once(bench: Bench) -> None:
    await finish_some(bench, 3)
    assert await deliver_results(bench.database, bench.engine) == 3
    assert await deliver_results(bench.database, bench.engine) == 0
    assert await delivered(bench) == 3


@pytest.mark.spec("E11")
async def test_a_crash_in_the_middle_of_a_delivery_leaves_the_result_for_the_next(bench: Bench) -> None:
    (job,) = await finish_some(bench, 1)

    async def crash() -> None:
        async with bench.database.transaction() as connection:
            assert len(await reap_results(connection, ["default"])) == 1
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        await crash()
    assert await bench.state(job.id) == "completed"
    assert await deliver_results(bench.database, bench.engine) == 1


@pytest.mark.spec("E11")
async def test_many_deliverers_at_once_deliver_each_result_once(bench: Bench) -> None:
    await finish_some(bench, 250)
    counts = await asyncio.gather(*(deliver_results(bench.database, bench.engine) for _ in range(6)))
    while await deliver_results(bench.database, bench.engine):
        counts.append(0)
    # The table has a unique key: a second delivery would have raised.
    assert await delivered(bench) == 250
    assert await bench.one("select count(*) from jobs") == 0
    assert await bench.one("select count(*) from dead_jobs") == 0


@pytest.mark.spec("E11")
async def test_a_result_that_nobody_takes_goes_to_the_dead_letter_and_the_others_are_delivered(
    bench: Bench,
) -> None:
    jobs = await finish_some(bench, 5, bad=2)
    await deliver_results(bench.database, bench.engine)
    assert await delivered(bench) == 4
    assert await bench.state(jobs[2].id) == "dead"
    assert await bench.one("select reason from dead_jobs") == "delivery_failed"
    assert await bench.one("select error from dead_jobs") == "nobody takes this"
    assert await bench.one("select result from dead_jobs") == '{"text": "done"}'
    assert "nobody takes this" in await bench.one("select traceback from dead_jobs")


@pytest.mark.spec("E11")
async def test_of_many_deliverers_none_buries_a_result_that_another_one_could_not_deliver(
    bench: Bench,
) -> None:
    """A deliverer that failed must bury the very job it failed with, whoever takes the next one meanwhile."""
    for round_ in range(5):
        jobs = await finish_some(bench, 12, bad=0)
        await asyncio.gather(*(deliver_results(bench.database, bench.engine) for _ in range(6)))
        while await deliver_results(bench.database, bench.engine):
            pass
        assert await delivered(bench) == 11 * (round_ + 1)
        assert await bench.state(jobs[0].id) == "dead"


@pytest.mark.spec("E11")
async def test_a_delivery_that_meets_an_error_of_the_system_does_not_stop_the_others(bench: Bench) -> None:
    async def lose_a_socket(_connection: object, moved: object) -> None:
        raise ConnectionRefusedError("nobody listens")

    bench.engine.kinds.add(JobKind("test.socket", deliver=lose_a_socket))
    bad = await bench.enqueue("test.socket")
    await bench.finish(*await bench.claim())
    await finish_some(bench, 2)
    await deliver_results(bench.database, bench.engine)
    assert await delivered(bench) == 2
    assert await bench.state(bad) == "dead"


@pytest.mark.spec("E11")
async def test_a_job_that_was_removed_meanwhile_is_named_in_a_warning(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.enqueue("test.delivered", subject_id="3f2c-11")
    (job,) = await bench.claim()
    await bench.run("delete from jobs")
    assert (await bench.finish(job, result="1")).lost == {job.id}
    (record,) = [record for record in caplog.records if "Job record missing" in record.message]
    assert record.levelno == logging.WARNING
    assert record.message.startswith("Job record missing for GUID 3f2c-11")
    assert await deliver_results(bench.database, bench.engine) == 0


@pytest.mark.spec("E11", "E13")
async def test_a_result_that_was_buried_undelivered_is_delivered_when_requeued_without_running_again(
    bench: Bench,
) -> None:
    id_ = await bench.enqueue("test.delivered", payload={"refuse": "delivery"})
    (job,) = await bench.claim()
    await bench.finish(job, result='{"text": "hello"}')
    await deliver_results(bench.database, bench.engine)
    assert await bench.state(id_) == "dead"
    await bench.run("update dead_jobs set payload = '{}'")
    async with bench.database.transaction() as connection:
        assert await requeue_dead(connection, bench.engine, [id_]) == [id_]
    assert await bench.claim() == []
    assert await deliver_results(bench.database, bench.engine) == 1
    assert await bench.one("select result from deliveries where job_id = $1", id_) == "{'text': 'hello'}"
    assert await bench.state(id_) == "finished"


@pytest.mark.spec("E11")
async def test_a_delivery_that_may_work_later_waits_and_does_not_keep_others_waiting(bench: Bench) -> None:
    waits = await bench.enqueue("test.delivered", payload={"refuse": "for now"})
    goes = await bench.enqueue("test.delivered")
    for job in await bench.claim(amount=2):
        await bench.finish(job)
    assert await deliver_results(bench.database, bench.engine) == 1
    assert (await bench.state(waits), await bench.state(goes)) == ("completed", "finished")
    await bench.run("update jobs set payload = '{}'")
    assert await deliver_results(bench.database, bench.engine) == 1
    assert await bench.state(waits) == "finished"


@pytest.mark.spec("E11")
async def test_a_process_that_does_not_know_a_kind_leaves_its_results_to_one_that_does(bench: Bench) -> None:
    id_ = await bench.enqueue("test.delivered")
    (job,) = await bench.claim()
    await bench.finish(job, result='{"text": "hello"}')
    assert await deliver_results(bench.database, Engine()) == 0
    assert await bench.state(id_) == "completed"
    assert await deliver_results(bench.database, bench.engine) == 1


async def test_the_deliverer_is_woken_by_a_result_and_outlives_errors(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would look by itself after hours only, so that what is delivered here is what woke it."""
    looked: asyncio.Queue[None] = asyncio.Queue()
    errors: list[Exception | None] = [OSError("unavailable"), RuntimeError("a defect")]

    async def look(database: Database, engine: Engine) -> int:
        looked.put_nowait(None)
        if errors and (error := errors.pop(0)) is not None:
            raise error
        return await deliver_results(database, engine)

    monkeypatch.setattr(deliver, "deliver_results", look)
    monkeypatch.setattr(deliver, "POLL_SECONDS", 0.01)
    task = asyncio.create_task(deliver.deliver_forever(bench.database, bench.engine))
    async with asyncio.timeout(60):
        for _ in range(3):  # two errors, and a look that finds nothing
            await looked.get()
        monkeypatch.setattr(deliver, "POLL_SECONDS", 3600)
        await finish_some(bench, 2)
        while await delivered(bench) < 2:
            await looked.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until(lambda: has_no_session(bench, "mediamill deliveries"))

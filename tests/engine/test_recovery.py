"""What recovery tells and how much it takes at a time."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from mediamill.engine.deliver import deliver_results
from mediamill.engine.model import NewJob
from mediamill.engine.recovery.due import promote_due
from mediamill.engine.recovery.exhausted import fail_exhausted
from mediamill.engine.recovery.janitor import abandon_subjects
from mediamill.engine.recovery.release import release_claims
from mediamill.engine.store import recovery
from mediamill.engine.watch import counters
from tests.engine.conftest import Bench
from tests.outages import let_time_pass


async def alerts(bench: Bench) -> dict[str, Any]:
    async with bench.database.transaction() as connection:
        rows = await connection.fetch("delete from alerts returning type, data")
        await connection.execute("delete from alert_limits")
    return {row["type"]: json.loads(row["data"]) for row in rows}


async def release(bench: Bench, worker_id: int) -> int:
    async with bench.database.transaction() as connection:
        rows = await recovery.lock_claims_of_worker.rows(connection, worker_id=worker_id, batch=10)
        return await release_claims(connection, bench.engine, rows)


@pytest.mark.spec("E8", "E9")
async def test_the_log_says_which_job_is_recovered_from_which_worker(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.engine")
    id_ = await bench.enqueue()
    (job,) = await bench.claim("gone")
    await release(bench, job.worker_id)
    (line,) = [each for each in caplog.records if getattr(each, "event", None) == "job_recovered"]
    said = f"job {id_} (test.plain) is recovered from worker gone and queued again: stale_processing_requeued"
    assert (line.levelname, line.getMessage()) == ("WARNING", said)


async def test_whoever_finds_that_the_attempts_are_used_up_raises_the_alert(bench: Bench) -> None:
    bench.engine = replace(bench.engine, alerts_on=True, alert_pattern_failures=2)
    queued = await bench.enqueue(subject_id="s", owner="o")
    await bench.run("update jobs set attempts = max_attempts")
    async with bench.database.transaction() as connection:
        assert await fail_exhausted(connection, bench.engine) == 1
    facts = {"kind": "test.plain", "owner": "o", "subject_id": "s"}
    assert await alerts(bench) == {"job_max_retries_exceeded": {**facts, "id": queued, "attempts": 3}}
    claimed = await bench.enqueue(subject_id="s", owner="o", max_attempts=1)
    (job,) = await bench.claim()
    assert await release(bench, job.worker_id) == 1
    assert await alerts(bench) == {
        "job_max_retries_exceeded": {**facts, "id": claimed, "attempts": 1},
        "job_failed_pattern": {**facts, "id": claimed, "failures": 2},
    }
    async with bench.database.connection() as connection:
        assert (await counters(connection))["retries_exhausted"] == 2


async def test_attempts_of_one_job_are_a_pattern_too_and_without_a_subject_there_is_none(
    bench: Bench,
) -> None:
    bench.engine = replace(bench.engine, alerts_on=True, alert_pattern_failures=3)
    for subject in ("s", None):
        id_ = await bench.enqueue(subject_id=subject, max_attempts=9)
        found = []
        for _ in range(3):
            (job,) = await bench.claim()
            await bench.fail(job)
            found.append(await alerts(bench))
            await bench.run("update jobs set state = 'queued'")
        await bench.run("delete from jobs")
        assert found[:2] == [{}, {}]
        assert list(found[2]) == (["job_failed_pattern"] if subject else [])
        if subject:
            assert (found[2]["job_failed_pattern"]["id"], found[2]["job_failed_pattern"]["failures"]) == (
                id_,
                3,
            )


async def test_a_job_whose_subject_refuses_to_be_released_is_dead_with_what_it_said(bench: Bench) -> None:
    refuses = await bench.enqueue("test.subject", subject_id="a", payload={"refuse": "released"})
    goes = await bench.enqueue("test.subject", subject_id="b")
    jobs = await bench.claim(amount=2)
    assert await release(bench, jobs[0].worker_id) == 2
    assert (await bench.state(refuses), await bench.state(goes)) == ("dead", "queued")
    row = await bench.one("select row(reason, error)::text from dead_jobs")
    assert row == '(hook_failed,"the subject refuses to be released")'
    assert "RuntimeError" in await bench.one("select traceback from dead_jobs")
    assert await bench.one("select error from jobs") == "stale_processing_requeued"


async def test_jobs_come_due_five_hundred_at_a_time_and_results_are_delivered_a_hundred_at_a_time(
    bench: Bench,
) -> None:
    async with bench.database.transaction() as connection:
        await bench.enqueuer.enqueue_jobs(connection, [NewJob("test.delivered")] * 502)
        await connection.execute(
            "update jobs set state = 'scheduled', run_after = now() - interval '1 second'"
        )
        assert [await promote_due(connection, bench.engine) for _ in range(3)] == [500, 2, 0]
        await connection.execute("delete from jobs where id % 5 <> 0")
        await connection.execute("update jobs set state = 'completed', result = '7'")
        waiting = await connection.fetchval("select count(*) from jobs")
    assert [await deliver_results(bench.database, bench.engine) for _ in range(2)] == [100, waiting - 100]
    assert await bench.one("select count(*) from deliveries where result = '7'") == waiting


async def test_jobs_of_subjects_that_were_forgotten_are_abandoned_but_not_what_runs(bench: Bench) -> None:
    runs = await bench.enqueue("test.subject", subject_id="r")
    await bench.claim()
    waits = await bench.enqueue("test.subject", subject_id="w")
    other = await bench.enqueue("test.subject", subject_id="o")
    await let_time_pass(bench.database, 2, served=True)
    async with bench.database.transaction() as connection:
        assert await abandon_subjects(connection, bench.engine, ["r", "w", "x"], 7_300) == 0
        assert await abandon_subjects(connection, bench.engine, ["r", "w", "x"], 7_100) == 1
        assert await abandon_subjects(connection, bench.engine, [], 0) == 0
    assert [await bench.state(id_) for id_ in (runs, waits, other)] == ["running", "dead", "queued"]
    assert await bench.one("select reason from dead_jobs") == "abandoned"
    assert await bench.subject("w") == "failed"

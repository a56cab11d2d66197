"""Subjects move with their jobs, in one transaction, and one bad subject does not harm the others."""

from __future__ import annotations

import pytest

from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.sweep import SWEEP, run_chores
from mediamill.engine.settle import hand_back
from mediamill.errors import InvalidError
from tests.engine.conftest import KINDS, Bench


async def history(bench: Bench, id_: str) -> list[str]:
    return list(await bench.one("select history from subjects where id = $1", id_) or [])


@pytest.mark.spec("E6")
async def test_a_subject_moves_on_claimed_released_claimed_and_completed(bench: Bench) -> None:
    await bench.enqueue("test.subject", subject_id="s")
    (job,) = await bench.claim()
    assert await bench.subject("s") == "claimed"
    await bench.fail(job)
    assert await bench.subject("s") == "released"
    await bench.run("update jobs set state = 'queued'")
    await bench.finish(*await bench.claim())
    assert await history(bench, "s") == ["claimed", "released", "claimed", "completed"]


@pytest.mark.spec("E6")
async def test_a_subject_moves_when_its_job_dies_expires_or_is_handed_back(bench: Bench) -> None:
    for id_ in ("dies", "expires", "back"):
        await bench.enqueue("test.subject", subject_id=id_)
    dies, expires, back = await bench.claim(amount=3)
    await bench.fail(dies, permanent=True)
    await bench.expire(expires.id, 10_000)
    await run_chores(bench.database, bench.engine, SWEEP)
    await hand_back(bench.database, bench.engine, back.worker_id, [back])
    assert await history(bench, "dies") == ["claimed", "failed"]
    assert await history(bench, "expires") == ["claimed", "released"]
    assert await history(bench, "back") == ["claimed", "released"]
    assert await bench.one("select attempts from jobs where id = $1", back.id) == 0


@pytest.mark.spec("E6")
async def test_a_rollback_takes_both_the_job_and_its_subject_back(bench: Bench) -> None:
    await bench.enqueue("test.subject", subject_id="s")
    (job,) = await bench.claim()

    async def crash_after_release() -> None:
        await bench.expire(job.id, 10_000)
        async with bench.database.transaction() as connection:
            assert await release_expired(connection, bench.engine) == 1
            raise RuntimeError("crash")

    with pytest.raises(RuntimeError, match="crash"):
        await crash_after_release()
    assert await bench.state(job.id) == "running"
    assert await bench.subject("s") == "claimed"


@pytest.mark.spec("E6")
async def test_a_subject_that_refuses_leaves_its_job_as_it_was_and_its_neighbours_settle(
    bench: Bench,
) -> None:
    for n in range(4):
        payload = {"refuse": "completed"} if n == 1 else {}
        await bench.enqueue("test.subject", subject_id=f"s{n}", payload=payload)
    jobs = await bench.claim(amount=4)
    settled = await bench.finish(*jobs)
    assert settled.done == {jobs[0].id, jobs[2].id, jobs[3].id}
    assert set(settled.failed) == {jobs[1].id}
    assert "refuses to be completed" in settled.failed[jobs[1].id].error
    assert "Traceback" in (settled.failed[jobs[1].id].traceback or "")
    assert await bench.state(jobs[1].id) == "running"
    assert [await bench.subject(f"s{n}") for n in range(4)] == [
        "completed",
        "claimed",
        "completed",
        "completed",
    ]
    assert await bench.fail(jobs[1])


@pytest.mark.spec("E6")
async def test_a_hook_that_meets_an_error_of_the_system_is_not_taken_for_a_lost_database(
    bench: Bench,
) -> None:
    async def lose_a_file(_connection: object, moved: object) -> None:
        if any(job.payload.get("lose") for job in moved):  # type: ignore[attr-defined]
            raise FileNotFoundError("the file is gone")

    bench.engine.kinds.add(JobKind("test.file", on_completed=lose_a_file))
    for lose in (True, False):
        await bench.enqueue("test.file", payload={"lose": lose})
    bad, good = await bench.claim(amount=2)
    settled = await bench.finish(bad, good)
    assert settled.done == {good.id}
    assert "the file is gone" in settled.failed[bad.id].error


@pytest.mark.spec("E6", "E8")
async def test_a_subject_that_refuses_to_be_claimed_uses_its_attempts_up_and_does_not_block_the_line(
    bench: Bench,
) -> None:
    bad = await bench.enqueue("test.subject", subject_id="bad", payload={"refuse": "claimed"}, max_attempts=2)
    good = await bench.enqueue("test.subject", subject_id="good")
    assert [job.id for job in await bench.claim(amount=2)] == [good]
    assert await bench.subject("good") == "claimed"
    assert await bench.state(bad) == "scheduled"
    await bench.run("update jobs set state = 'queued' where id = $1", bad)
    assert await bench.claim() == []
    assert await bench.state(bad) == "dead"


@pytest.mark.spec("E6", "E8")
async def test_a_subject_that_refuses_to_be_released_or_failed_does_not_stop_the_sweep(bench: Bench) -> None:
    for what in ("released", "failed"):
        await bench.enqueue("test.subject", subject_id=what, payload={"refuse": what})
        await bench.enqueue("test.subject", subject_id=f"not {what}")
    jobs = {job.subject_id: job.id for job in await bench.claim(amount=4)}
    await bench.run("update jobs set lease_expires_at = now() - interval '1 day'")
    await bench.run("update jobs set attempts = max_attempts where subject_id like '%failed'")
    await run_chores(bench.database, bench.engine, SWEEP)
    assert await bench.state(jobs["not released"]) == "queued"
    assert await bench.subject("not released") == "released"
    assert await bench.state(jobs["not failed"]) == "dead"
    assert await bench.subject("not failed") == "failed"
    # The two that refuse end in the dead letter, where somebody sees them, and why.
    assert await bench.state(jobs["released"]) == "dead"
    assert await bench.state(jobs["failed"]) == "dead"
    assert "refuses to be released" in await bench.one(
        "select traceback from dead_jobs where id = $1", jobs["released"]
    )


@pytest.mark.spec("E6")
def test_a_kind_is_declared_once() -> None:
    with pytest.raises(InvalidError, match=r"test\.plain is declared twice"):
        Kinds([*KINDS, JobKind("test.plain")])

"""Two transactions that met on the same rows: ours is undone and tried again. It is no failure of the job."""

from __future__ import annotations

import pytest
from asyncpg import DeadlockDetectedError

from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.sweep import run_chore
from mediamill.engine.settle import hand_back
from tests.engine.conftest import Bench


async def meet(bench: Bench, what: str) -> int:
    return await bench.enqueue("test.subject", subject_id="s", payload={"meet": what}, max_attempts=2)


async def part(bench: Bench) -> None:
    """The other one has gone on."""
    await bench.run("update jobs set payload = '{}'")


@pytest.mark.spec("E5")
async def test_a_result_whose_settling_met_another_is_kept_and_settled_the_next_time(bench: Bench) -> None:
    id_ = await meet(bench, "completed")
    (job,) = await bench.claim()
    with pytest.raises(DeadlockDetectedError):
        await bench.finish(job)
    assert await bench.state(id_) == "running"
    await part(bench)
    assert (await bench.finish(job)).done == {id_}
    assert await bench.one("select attempts from finished_jobs") == 1


@pytest.mark.spec("E5")
async def test_a_claim_that_met_another_is_no_attempt(bench: Bench) -> None:
    id_ = await meet(bench, "claimed")
    with pytest.raises(DeadlockDetectedError):
        await bench.claim()
    assert (await bench.state(id_), await bench.one("select attempts from jobs")) == ("queued", 0)
    await part(bench)
    assert [job.id for job in await bench.claim()] == [id_]


@pytest.mark.spec("E8", "E9")
async def test_a_release_that_met_another_does_not_bury_the_job(bench: Bench) -> None:
    id_ = await meet(bench, "released")
    await bench.claim()
    await bench.expire(id_, 10_000)
    with pytest.raises(DeadlockDetectedError):
        await run_chore(bench.database, bench.engine, release_expired)
    assert await bench.state(id_) == "running"
    await part(bench)
    assert await run_chore(bench.database, bench.engine, release_expired) == 1
    assert await bench.state(id_) == "queued"


@pytest.mark.spec("E5")
async def test_a_job_whose_subject_refuses_to_be_handed_back_does_not_keep_its_neighbours(
    bench: Bench,
) -> None:
    ids = [
        await bench.enqueue(
            "test.subject", subject_id=f"s{n}", payload={"refuse": "released"} if n == 1 else {}
        )
        for n in range(3)
    ]
    jobs = await bench.claim(amount=3)
    await hand_back(bench.database, bench.engine, jobs[0].worker_id, jobs)
    assert [await bench.state(id_) for id_ in ids] == ["queued"] * 3
    assert [await bench.subject(f"s{n}") for n in range(3)] == ["released", "claimed", "released"]
    assert await bench.one("select sum(attempts) from jobs") == 0


@pytest.mark.spec("E5")
async def test_jobs_whose_handing_back_met_another_stay_in_hand_to_be_handed_back_again(bench: Bench) -> None:
    id_ = await meet(bench, "released")
    jobs = await bench.claim()
    with pytest.raises(DeadlockDetectedError):
        await hand_back(bench.database, bench.engine, jobs[0].worker_id, jobs)
    assert await bench.state(id_) == "running"
    await part(bench)
    await hand_back(bench.database, bench.engine, jobs[0].worker_id, jobs)
    assert (await bench.state(id_), await bench.subject("s")) == ("queued", "released")

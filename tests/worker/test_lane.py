"""Jobs on their way through a worker: time limits, leases, progress, lost claims, holds, turns."""

from __future__ import annotations

import datetime
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mediamill.engine.claim import Claimer
from mediamill.engine.deliver import deliver_results
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.kinds import JobKind, Run
from mediamill.engine.pools import list_pools
from mediamill.engine.settle import Finish, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.errors import NotNowError, Wait
from mediamill.worker.pace import MOST_AHEAD, MOST_UNSETTLED
from tests.conftest import wait_until
from tests.worker.working import Ground, ground

__all__ = ["ground"]

CHILDREN: dict[str, Any] = {
    "matches": ["stage.child"],
    "processor": "scripted",
    "backoff_seconds": 0,
    "memory_bytes": 256 << 20,
}


@pytest.mark.spec("E7", "E10")
async def test_a_handler_over_its_time_limit_is_interrupted_and_tried_again(ground: Ground) -> None:
    await ground.pool(timeout_seconds=1.5)  # the second attempt has time even on a busy machine
    async with ground.working():
        again = await ground.add(hang=1, max_attempts=2)
        await ground.until(again, "finished")
        assert ground.stage.interrupted == [again]
        assert await ground.one("select attempts from finished_jobs where id = $1", again) == 2


@pytest.mark.spec("E10")
async def test_a_handler_that_hangs_each_time_is_given_up_and_its_slot_goes_on(ground: Ground) -> None:
    await ground.pool(timeout_seconds=0.3)
    async with ground.working():
        hung, after = await ground.add(hang=9, max_attempts=2), await ground.add()
        await ground.until(hung, "dead")
        await ground.until(after, "finished")
    dead = await ground.row("select reason, error, attempts from dead_jobs where id = $1", hung)
    assert dead["reason"] == "max_attempts_exhausted"
    assert dead["attempts"] == 2
    assert dead["error"] == "TIMEOUT: stage.work processing exceeded 0.3s"


@pytest.mark.spec("E10")
async def test_a_handler_without_progress_is_interrupted_and_its_job_released(ground: Ground) -> None:
    await ground.pool(no_progress_seconds=0.5)
    async with ground.working():
        stuck = await ground.add(wait=True)
        await wait_until(interrupted(ground, stuck))
        ground.stage.release(stuck)
        await ground.until(stuck, "finished")
    assert await ground.one("select sum(value) from counters where name = 'failures'") is None


def interrupted(ground: Ground, id_: int) -> Callable[[], Awaitable[bool]]:
    async def was() -> bool:
        return id_ in ground.stage.interrupted

    return was


@pytest.mark.spec("E10")
async def test_a_handler_that_swallows_its_interruption_does_not_cost_the_slot(ground: Ground) -> None:
    await ground.pool(timeout_seconds=0.2)
    async with ground.working():
        for _ in range(3):
            stubborn = await ground.add(hang=9, stubborn=True, max_attempts=1)
            await ground.until(stubborn, "dead")
        after = await ground.add()
        await ground.until(after, "finished")


@pytest.mark.spec("E10")
async def test_a_child_that_hangs_is_killed_at_the_limit_and_the_next_job_of_its_slot_runs(
    ground: Ground,
) -> None:
    await ground.pool("children", **CHILDREN, timeout_seconds=1.5)
    async with ground.working():
        hung = await ground.add("stage.child", do="hang", max_attempts=2)
        after = await ground.add("stage.child", do="succeed", result={"well": True})
        await ground.until(hung, "dead")
        await ground.until(after, "finished")
    dead = await ground.row("select reason, attempts from dead_jobs where id = $1", hung)
    assert dead == {"reason": "max_attempts_exhausted", "attempts": 2}


@pytest.mark.spec("E10")
async def test_a_segfault_and_a_memory_eater_fail_alone_while_their_neighbour_completes(
    ground: Ground,
) -> None:
    await ground.pool("children", **CHILDREN, concurrency=3)
    async with ground.working():
        neighbour = await ground.add("stage.child", do="sleep", seconds=3)
        await ground.until(neighbour, "running")
        crashing = await ground.add("stage.child", do="segfault", max_attempts=1)
        eating = await ground.add("stage.child", do="eat_memory", seconds=60, max_attempts=1)
        await ground.until(crashing, "dead")
        await ground.until(eating, "dead")
        await ground.until(neighbour, "finished")
    assert await ground.one("select attempts from finished_jobs where id = $1", neighbour) == 1


@pytest.mark.spec("E3", "E4")
async def test_the_lease_of_a_long_job_is_extended_while_it_runs(ground: Ground) -> None:
    await ground.pool(lease_seconds=10)  # there is time for a busy machine between an extension and the end
    seen: list[datetime.datetime] = []
    sql = "select lease_expires_at, lease_expires_at > now() as held, token from jobs where id = $1"
    async with ground.working() as worker:
        long = await ground.add(wait=True)
        await ground.until(long, "running")
        first = await ground.row(sql, long)

        async def extended_often() -> bool:
            now = await ground.row(sql, long)
            assert now["held"]
            assert now["token"] == first["token"]
            if now["lease_expires_at"] not in seen:
                seen.append(now["lease_expires_at"])
            later = seen[-1] - first["lease_expires_at"]
            return bool(later > datetime.timedelta(seconds=10))  # longer than it was

        await wait_until(extended_often)
        ground.stage.release(long)
        await ground.until(long, "finished")
        done = await ground.row(
            "select attempts, worker_id, worker_name from finished_jobs where id = $1", long
        )
    assert seen == sorted(seen)
    assert len(seen) > 3
    assert done == {"attempts": 1, "worker_id": worker.id, "worker_name": "a"}


@pytest.mark.spec("E4")
async def test_progress_of_a_child_reaches_the_row_and_the_events(ground: Ground, tmp_path: Path) -> None:
    await ground.pool("children", **CHILDREN)
    async with ground.working():
        told = await ground.add("stage.child", do="report", times=4, gate=str(tmp_path), subject_id="video 7")
        for number in range(1, 5):
            await ground.until_sql(
                "select step = $2 and percent = $3::integer * 25 and parts = $4::jsonb and checkpoint = $4::jsonb "
                "from jobs where id = $1",
                told,
                f"step {number}",
                number,
                json.dumps({"n": number}),
            )
            (tmp_path / str(number)).touch()
        await ground.until(told, "finished")
    steps = await ground.one(
        "select array_agg(data ->> 'step' order by id) from events where topic = 'job.progress' and subject = 'video 7'"
    )
    assert steps == ["step 1", "step 2", "step 3", "step 4"]


async def _take_over(ground: Ground, id_: int) -> Any:
    """As recovery and another worker would, if this one were believed dead.

    The other is a remote one: it has no session whose absence would be noticed after some seconds.
    """
    async with ground.database.connection() as connection:
        id_of_other = await register_worker(connection, name="other", type_="remote")
        other = Claimer(id_of_other, "other", ground.engine.kinds)
        pools = {pool.name: pool for pool in await list_pools(connection)}
        name = await connection.fetchval(
            "update jobs set state = 'queued', lease_expires_at = null, claimed_at = null where id = $1 returning pool",
            id_,
        )
        (claimed,) = await other.claim_jobs(connection, pools[name], 1)
        await connection.execute(
            "update jobs set lease_expires_at = now() + interval '1 hour' where id = $1", id_
        )
    assert claimed.id == id_
    return claimed


@pytest.mark.spec("E5")
async def test_a_job_that_was_taken_over_is_abandoned_and_the_other_result_stands(ground: Ground) -> None:
    await ground.pool(lease_seconds=1)
    async with ground.working() as worker:
        taken = await ground.add(wait=True, result={"by": "a"})
        await ground.until_begun(taken)
        claimed = await _take_over(ground, taken)

        async def interrupted() -> bool:
            return ground.stage.interrupted == [taken]

        await wait_until(interrupted)
        after = await ground.add()
        await ground.until(after, "finished")  # the slot goes on
        assert await ground.state(taken) == "running"
        await finish_jobs(
            ground.database, ground.engine, claimed.worker_id, [Finish(claimed, '{"by": "other"}')]
        )
        await ground.until_sql("select stats ->> 'claims_lost' = '1' from workers where id = $1", worker.id)
    done = await ground.row("select result, worker_name from finished_jobs where id = $1", taken)
    assert done == {"result": '{"by": "other"}', "worker_name": "other"}
    assert await ground.one("select count(*) from dead_jobs") == 0


@pytest.mark.spec("E5")
async def test_a_child_whose_job_was_taken_over_is_stopped_with_its_next_report(ground: Ground) -> None:
    await ground.pool("children", **CHILDREN)
    async with ground.working() as worker:
        taken = await ground.add("stage.child", do="report", times=10_000, seconds=0.05)
        await ground.until_sql("select step is not null from jobs where id = $1", taken)
        claimed = await _take_over(ground, taken)
        after = await ground.add("stage.child")
        await ground.until(after, "finished")
        await ground.until_sql("select stats ->> 'claims_lost' = '1' from workers where id = $1", worker.id)
        held = await ground.row("select state, worker_id, token from jobs where id = $1", taken)
    assert held == {"state": "running", "worker_id": claimed.worker_id, "token": claimed.token}


@pytest.mark.spec("E12")
async def test_an_owner_on_hold_keeps_the_result_of_what_runs_and_waits_with_the_rest(ground: Ground) -> None:
    async with ground.working():
        running = await ground.add("stage.delivered", owner="bot", wait=True, result=1)
        await ground.until_begun(running)
        waiting = await ground.add("stage.delivered", owner="bot", result=2)
        async with ground.database.transaction() as connection:
            await hold_owner(connection, "bot")
        ground.stage.release(running)
        await ground.until(running, "completed")
        other = await ground.add(owner="somebody else")
        await ground.until(other, "finished")
        assert await ground.state(waiting) == "held"
        assert await deliver_results(ground.database, ground.engine) == 0
        async with ground.database.transaction() as connection:
            await release_owner(connection, "bot")
        await ground.until(waiting, "completed")
        assert await deliver_results(ground.database, ground.engine) == 2
        assert await deliver_results(ground.database, ground.engine) == 0
    assert await ground.one("select count(*) from deliveries") == 2


@pytest.mark.spec("E14")
async def test_a_noisy_owner_does_not_starve_a_quiet_one(ground: Ground) -> None:
    await ground.add(copies=150, owner="noisy", seconds=0.02)
    await ground.add(copies=5, owner="quiet", seconds=0.02)
    async with ground.working():
        await ground.until_sql("select count(*) = 155 from finished_jobs")
    last_quiet = max(place for place, owner in enumerate(ground.stage.owners) if owner == "quiet")
    assert last_quiet < 40, "quiet jobs waited for noisy ones"


@pytest.mark.spec("E7", "E14")
async def test_a_result_that_the_database_refuses_fails_alone(ground: Ground) -> None:
    refused = await ground.add(max_attempts=1, seconds=0.1)
    await ground.pool(concurrency=2)

    class Refused(msgspec.Struct):
        text: msgspec.Raw = msgspec.Raw(b'"\\ud800"')  # half a character

    act = ground.stage._act

    async def act_and_change(given: Any, run: Any) -> None:
        await act(given, run)
        if run.job.id == refused:
            given["result"] = Refused()

    ground.stage._act = act_and_change  # type: ignore[method-assign]
    async with ground.working():
        neighbour = await ground.add(seconds=0.1)
        await ground.until(refused, "dead")
        await ground.until(neighbour, "finished")


@pytest.mark.spec("E7")
async def test_a_subject_that_refuses_every_word_does_not_keep_its_job(ground: Ground) -> None:
    async with ground.working():
        refused, after = await ground.add("stage.refused", max_attempts=2), await ground.add()
        await ground.until(refused, "dead")
        await ground.until(after, "finished")
    assert await ground.one("select error from dead_jobs where id = $1", refused) == "boom"


async def test_what_cannot_be_written_down_keeps_more_from_being_claimed(ground: Ground) -> None:
    await ground.pool(concurrency=8)
    most = MOST_UNSETTLED + MOST_AHEAD
    async with ground.working() as worker:
        settler, seen = worker._lanes["default"].settler, [0]

        async def claims_no_more() -> bool:
            """It has ended a good deal, and nothing new for a while."""
            seen.append(len(ground.stage.begun))
            return settler.waiting > MOST_UNSETTLED and len(seen) > 20 and seen[-20] == seen[-1]

        async with ground.database.transaction() as stall:
            await stall.execute("lock table finished_jobs in exclusive mode")  # as a disk that stalls
            last = await ground.add(copies=4 * most)
            await wait_until(claims_no_more)
            assert len(ground.stage.begun) <= 2 * most
        await ground.until(last, "finished")
    assert len(ground.stage.begun) == 4 * most


@pytest.mark.spec("C31")
async def test_a_lane_whose_model_server_is_unavailable_begins_no_more_jobs_until_it_is_time(
    ground: Ground,
) -> None:
    """A job of another pool, which comes later, is done meanwhile; then the server is back."""
    begun: list[int] = []

    async def ask(run: Run) -> None:
        begun.append(run.job.id)
        if run.payload.get("fails"):
            error = NotNowError("waiting for the model server at gpu:1")
            error.wait = Wait(2.0, "gpu:1")
            raise error

    ground.engine.kinds.add(JobKind("stage.asks", handler=ask))
    await ground.pool("others", matches=["stage.other"])
    async with ground.working():
        first = await ground.add("stage.asks", fails=True)
        await ground.until_sql("select waits_for = 'gpu:1' from jobs where id = $1", first)
        await ground.one("update jobs set payload = '{}' where id = $1", first)
        later = await ground.add("stage.asks", copies=3)
        await ground.until(await ground.add("stage.other"), "finished")
        assert begun == [first]
        await ground.until(later, "finished")
        await ground.until(first, "finished")
    assert len(begun) == 5

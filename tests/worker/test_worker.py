"""A worker as a whole: pools edited while it runs, commands, the way out, faults, being woken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mediamill.engine.claim import Claimer
from mediamill.engine.flight_log import FlightLog
from mediamill.engine.model import Command
from mediamill.engine.pools import list_pools
from mediamill.engine.workers import disable_worker, enable_worker, register_worker
from mediamill.worker import lane as lanes
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker
from tests.conftest import wait_until
from tests.worker.working import Ground, ground

__all__ = ["ground"]


# -- pools


@pytest.mark.spec("E16")
async def test_concurrency_follows_the_pool_up_and_down_while_jobs_run(ground: Ground) -> None:
    await ground.add(wait=True, copies=12)
    async with ground.working() as worker:
        await ground.until_running(1)
        await ground.pool(concurrency=3)
        await ground.until_so_many_begun(3)
        await ground.pool(concurrency=1)
        await ground.until_in_force(worker, concurrency=1)
        ground.stage.release(*ground.stage.begun)
        await ground.until_sql("select count(*) = 3 from finished_jobs")
        await ground.until_running(1)
        await ground.pool(concurrency=4)
        await ground.until_running(4)


@pytest.mark.spec("E16")
async def test_a_pool_that_shrinks_and_grows_again_in_one_breath_keeps_its_slots(ground: Ground) -> None:
    await ground.pool(concurrency=3)
    await ground.add(wait=True, copies=9)
    async with ground.working():
        await ground.until_so_many_begun(3)
        await ground.pool(concurrency=1)
        await ground.pool(concurrency=3)
        await ground.pool(timeout_seconds=59)
        ground.stage.release(*ground.stage.begun)
        await ground.until_sql("select count(*) = 3 from finished_jobs")
        await ground.until_running(3)


@pytest.mark.spec("E10", "E16")
async def test_a_new_time_limit_holds_for_what_starts_after_it(ground: Ground) -> None:
    async with ground.working() as worker:
        old = await ground.add(wait=True)
        await ground.until_begun(old)
        await ground.pool(timeout_seconds=1)
        await ground.until_in_force(worker, timeout_seconds=1)
        ground.stage.release(old)
        await ground.until(old, "finished")
        new = await ground.add(hang=9, max_attempts=1)
        await ground.until(new, "dead")
    assert ground.stage.interrupted == [new]


@pytest.mark.spec("E16")
async def test_a_new_pool_is_served_and_a_dropped_one_finishes_what_runs(ground: Ground) -> None:
    async with ground.working() as worker:
        await ground.pool("new", matches=["stage.other"])
        running, waiting = await ground.add("stage.other", wait=True), await ground.add("stage.other")
        await ground.until_begun(running)
        assert await ground.one("select pool from jobs where id = $1", running) == "new"
        await ground.pool("default", drop=["new"])
        await ground.until(waiting, "finished")  # moved to the catch-all
        assert await ground.state(running) == "running"
        ground.stage.release(running)
        await ground.until(running, "finished")
        assert await ground.one("select worker_id from finished_jobs where id = $1", running) == worker.id


@pytest.mark.spec("E16")
async def test_a_worker_serves_the_pools_it_was_told_to_and_says_which_is_not_there(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    await ground.pool("mine", matches=["stage.other"])
    async with ground.working(pools=("mine", "mnie")):
        mine, other = await ground.add("stage.other"), await ground.add("stage.work")
        await ground.until(mine, "finished")
        assert await ground.state(other) == "queued"
    assert "there is no pool named mnie" in caplog.text


@pytest.mark.spec("E16", "E22")
async def test_what_runs_in_a_dropped_pool_is_finished_before_the_worker_leaves(ground: Ground) -> None:
    await ground.pool("short", matches=["stage.other"])
    async with ground.working() as worker:
        running = await ground.add("stage.other", wait=True)
        await ground.until_begun(running)
        marker = await ground.add("stage.other")
        await ground.pool("default", drop=["short"])
        await ground.until(marker, "finished")
        worker.stop()
        ground.stage.release(running)
        await ground.until(running, "finished")


@pytest.mark.spec("E16")
async def test_an_edit_whose_notification_was_lost_is_in_force_with_the_next_heartbeat(
    ground: Ground,
) -> None:
    await ground.add(wait=True, copies=3)
    async with ground.working():
        await ground.until_running(1)
        await ground.one(
            "update pools set concurrency = 2 where name = 'default' returning 1"
        )  # tells nobody
        await ground.until_running(2)


@pytest.mark.spec("E16")
async def test_the_depth_of_each_pool_is_logged_with_every_poll(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.1)
    caplog.set_level(logging.DEBUG, "mediamill.worker.lane")
    async with ground.working():
        await ground.add(wait=True, copies=4)

        async def told() -> bool:
            return caplog.messages.count("pool default: 3 waiting") > 1

        await wait_until(told)


# -- commands


@pytest.mark.spec("E21", "E22")
async def test_a_paused_worker_finishes_its_job_and_claims_no_more_until_it_resumes(ground: Ground) -> None:
    async with ground.working() as worker:
        current = await ground.add(wait=True)
        await ground.until_begun(current)
        await ground.tell(worker, Command.PAUSE)
        await ground.until_sql("select state = 'paused' from workers where id = $1", worker.id)
        next_ = await ground.add()
        ground.stage.release(current)
        await ground.until(current, "finished")
        await ground.pool("new", matches=["stage.other"])  # new pools are not served either
        other = await ground.add("stage.other")
        beat = await ground.one("select heartbeat_at from workers where id = $1", worker.id)
        await ground.until_sql(
            "select heartbeat_at > $2 and state = 'paused' from workers where id = $1", worker.id, beat
        )
        assert [await ground.state(id_) for id_ in (next_, other)] == ["queued", "queued"]
        await ground.tell(worker, Command.RESUME)
        await ground.until(next_, "finished")
        await ground.until(other, "finished")


@pytest.mark.spec("E22")
async def test_jobs_claimed_ahead_go_back_when_the_worker_pauses(ground: Ground) -> None:
    await ground.pool(concurrency=2)
    await ground.add(copies=900, seconds=0.02)
    async with ground.working() as worker:
        await ground.until_sql("select count(*) > 60 from finished_jobs")
        await ground.tell(worker, Command.PAUSE)
        await ground.until_sql("select state = 'paused' from workers where id = $1", worker.id)
        await ground.until_running(0)
        assert await ground.one("select count(*) > 0 and max(attempts) = 0 from jobs"), "nothing was left"
        await ground.one("update jobs set payload = '{}'")
        await ground.tell(worker, Command.RESUME)
        await ground.until_sql("select count(*) = 900 from finished_jobs")
    assert await ground.one("select max(attempts) from finished_jobs") == 1
    assert len(ground.stage.begun) == 900


@pytest.mark.spec("E14")
async def test_what_was_claimed_ahead_goes_to_others_when_a_long_job_takes_the_slot(ground: Ground) -> None:
    await ground.pool(timeout_seconds=600)
    await ground.add(copies=300, seconds=0.002)
    long = await ground.add(wait=True)
    last = await ground.add(copies=20)
    async with ground.working():
        await ground.until_begun(long)
        assert last not in ground.stage.begun
        async with ground.working("b"):  # it may end the last before the first of the claimed come back
            await ground.until_sql("select count(*) = 320 from finished_jobs")
        assert await ground.state(long) == "running"
        assert await ground.one("select max(attempts) from finished_jobs") == 1


@pytest.mark.spec("E21")
async def test_a_disabled_worker_gets_no_jobs_until_it_is_enabled(ground: Ground) -> None:
    async with ground.working() as worker:
        async with ground.database.connection() as connection:
            await disable_worker(connection, worker.id)
        job = await ground.add()
        await ground.tell(worker, Command.RESUME)  # does not undo it
        await ground.until_sql("select command is null from workers where id = $1", worker.id)
        beat = await ground.one("select heartbeat_at from workers where id = $1", worker.id)
        await ground.until_sql("select heartbeat_at > $2 from workers where id = $1", worker.id, beat)
        assert await ground.state(job) == "queued"
        async with ground.database.connection() as connection:
            await enable_worker(connection, worker.id)
        await ground.until(job, "finished")


@pytest.mark.spec("E22")
async def test_shutdown_finishes_what_runs_and_leaves_the_rest(ground: Ground) -> None:
    async with ground.working() as worker:
        current = await ground.add(wait=True)
        await ground.until_begun(current)
        next_ = await ground.add()
        await ground.tell(worker, Command.SHUTDOWN)

        async def leaving() -> bool:
            return worker.is_leaving

        await wait_until(leaving)
        ground.stage.release(current)
        await ground.until_sql("select state = 'offline' from workers where id = $1", worker.id)
    assert await ground.state(current) == "finished"
    assert await ground.state(next_) == "queued"


@pytest.mark.spec("E22", "E24")
async def test_forensic_dump_writes_the_flight_log_and_the_worker_goes_on(ground: Ground) -> None:
    flight = FlightLog()
    logger = logging.getLogger("mediamill")
    logger.addHandler(flight)
    logger.setLevel(logging.DEBUG)
    try:
        async with ground.working(flight=flight) as worker:
            await ground.tell(worker, Command.FORENSIC_DUMP)

            async def written() -> list[Path]:
                return _forensics(ground, worker)

            await wait_until(written)
            (dump,) = _forensics(ground, worker)
            assert "is ready, pools: default" in dump.read_text()

            async def home() -> bool:
                return bool(await ground.one("select true from flight_dumps where name = $1", dump.name))

            await wait_until(home)
            after = await ground.add()
            await ground.until(after, "finished")
    finally:
        logger.removeHandler(flight)
        logger.setLevel(logging.NOTSET)


def _forensics(ground: Ground, worker: Worker) -> list[Path]:
    return list((ground.folder / "logs" / "forensics").glob(f"{worker.id}_*.log"))


@pytest.mark.spec("E22")
async def test_told_twice_it_stops_at_once_and_hands_everything_back(ground: Ground) -> None:
    await ground.pool("children", matches=["stage.child"], processor="scripted")
    async with ground.working() as worker:
        inline, child = await ground.add(wait=True), await ground.add("stage.child", do="hang")
        await ground.until_begun(inline)
        await ground.until_sql("select step = 'hanging' from jobs where id = $1", child)
        worker.stop()
        worker.stop()
        await ground.until_sql("select state = 'offline' from workers where id = $1", worker.id)
        async with ground.database.connection() as connection:
            left = [
                dict(row)
                for row in await connection.fetch("select state, attempts, lease_expires_at from jobs")
            ]
            assert left == [{"state": "queued", "attempts": 0, "lease_expires_at": None}] * 2
            other = Claimer(await register_worker(connection, name="b"), "b", ground.engine.kinds)
            for pool in await list_pools(connection):
                assert len(await other.claim_jobs(connection, pool, 5)) == 1


# -- faults


@pytest.mark.spec("E24")
async def test_a_fault_nobody_foresaw_ends_the_worker_with_its_flight_log_and_hands_jobs_back(
    ground: Ground,
) -> None:
    flight = FlightLog()
    plan = WorkerPlan(name="faulty", data_folder=ground.folder, flight=flight)
    worker = Worker(LocalHome(ground.database, ground.engine, plan), ground.engine, plan)
    running = asyncio.create_task(worker.run())
    await ground.pool(concurrency=2)
    held = await ground.add(wait=True)
    await ground.until_begun(held)
    await ground.one("alter table pools rename column retry to retry_was")
    await ground.one("alter table held_owners rename to held_owners_was")
    await ground.one("select pg_notify('mediamill_jobs', 'default')")
    with pytest.raises(asyncpg.UndefinedTableError):
        await asyncio.wait_for(running, 60)
    (dump,) = _forensics(ground, worker)
    assert await ground.one("select name from flight_dumps") == dump.name


# -- being woken


@pytest.mark.spec("E30")
async def test_a_notification_wakes_an_idle_worker_long_before_its_poll(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalHome, "poll_seconds", 3600.0)
    async with ground.working():
        for _ in range(3):
            job = await ground.add()
            await ground.until(job, "finished")


@pytest.mark.spec("E30")
async def test_the_poll_finds_work_that_nobody_announced(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalHome, "poll_seconds", 0.2)
    insert = (
        "insert into jobs (kind, pool, owner, priority, payload, max_attempts, state) "
        "values ('stage.work', 'default', 'o', 1, '{}', 3, 'queued') returning id"
    )
    async with ground.working():
        for _ in range(3):
            await ground.until(int(await ground.one(insert)), "finished")


@pytest.mark.spec("E9", "E30")
async def test_a_worker_whose_listening_session_is_cut_again_and_again_still_works(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalHome, "poll_seconds", 0.5)
    cuts = 0

    async def cut_forever() -> None:
        nonlocal cuts
        sql = (
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where application_name = 'worker cut' and datname = current_database()"
        )
        while True:
            cuts += await ground.one(sql)
            await asyncio.sleep(0.05)

    async with ground.working("cut"):
        cutting = asyncio.create_task(cut_forever())
        jobs = [await ground.add(seconds=0.2) for _ in range(8)]
        for job in jobs:
            await ground.until(job, "finished")
        while cuts <= 3:  # a busy machine takes its time to connect again
            await ground.until(await ground.add(), "finished")
        cutting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await cutting
    assert await ground.one("select max(attempts) from finished_jobs") == 1


@pytest.mark.spec("E21")
async def test_a_heartbeat_tells_state_job_and_figures(ground: Ground) -> None:
    async with ground.working() as worker:
        job = await ground.add(wait=True)
        await ground.until_sql(
            "select state = 'busy' and current_job_id = $2 from workers where id = $1", worker.id, job
        )
        ground.stage.release(job)
        await ground.until_sql(
            "select state = 'idle' and current_job_id is null and stats ->> 'completed' = '1' "
            "from workers where id = $1",
            worker.id,
        )
        row: dict[str, Any] = await ground.row(
            "select type, hostname, metadata from workers where id = $1", worker.id
        )
    assert row["type"] == "local"
    assert row["hostname"]

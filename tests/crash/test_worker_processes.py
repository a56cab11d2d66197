"""Workers as processes: signals, kill -9, faults, and what becomes of their jobs."""

from __future__ import annotations

import signal
import time

import asyncpg
import pytest

from mediamill.engine.claim import Claimer
from mediamill.engine.kinds import Kinds
from mediamill.engine.pools import list_pools
from mediamill.engine.workers import register_worker, take_session_lock
from tests.crash.processes import Mill, mill

__all__ = ["mill"]


@pytest.mark.spec("E22")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_worker_finish_what_runs(mill: Mill, number: signal.Signals) -> None:
    worker = await mill.started("worker", "--name", "a")
    await mill.enqueue("chaos.settled", range(1), seconds=2)
    await mill.until("select exists (select from jobs where state = 'running')")
    worker.send(number)
    await worker.until_said("finishes what runs")
    await mill.enqueue("chaos.settled", range(1, 2))
    assert await worker.until_gone() == 0
    assert await mill.one("select attempts from finished_jobs") == 1
    assert await mill.one("select state from jobs") == "queued"
    assert await mill.one("select state from workers") == "offline"
    mill.assert_no_traceback()


@pytest.mark.spec("E22")
async def test_a_second_signal_stops_the_worker_at_once_and_hands_its_jobs_back(mill: Mill) -> None:
    worker = await mill.started("worker")
    await mill.enqueue("chaos.settled", range(1), seconds=600)
    await mill.add("scripted.run", do="hang")
    await mill.until("select count(*) = 2 from jobs where state = 'running'")
    await mill.until("select exists (select from jobs where step = 'hanging')")
    worker.send(signal.SIGTERM)
    await worker.until_said("finishes what runs")
    worker.send(signal.SIGTERM)
    await worker.until_gone()  # the limit is a fraction of what the jobs would take
    assert await mill.one("select count(*) from jobs where state = 'queued' and attempts = 0") == 2
    mill.assert_no_traceback()


@pytest.mark.spec("E9", "E17")
async def test_jobs_of_a_killed_worker_run_again_soon_on_another(
    mill: Mill, capsys: pytest.CaptureFixture[str]
) -> None:
    doomed = await mill.started("worker", "--name", "doomed")
    await mill.enqueue("chaos.settled", range(1), seconds=600)  # it runs when its worker is killed
    await mill.until("select exists (select from jobs where state = 'running' and worker_name = 'doomed')")
    await mill.hurry()
    await mill.started("worker", "--name", "heir")
    await mill.enqueue("chaos.settled", range(1, 40), seconds=1)
    doomed.kill()
    killed_at = time.monotonic()
    again = "attempts = 2 and worker_name = 'heir'"
    await mill.until(
        f"select exists (select from jobs where {again}) or exists (select from finished_jobs where {again})"
    )
    seconds = time.monotonic() - killed_at
    await mill.until_all_once(40)
    with capsys.disabled():
        print(f"\n  jobs of a killed worker ran again after {seconds:.1f} s")
    assert seconds < 60
    assert await mill.one("select max(attempts) from finished_jobs") == 2
    assert await mill.one("select state from workers where name = 'doomed'") == "offline"


@pytest.mark.spec("E9", "E21")
async def test_a_worker_that_is_stopped_but_keeps_its_session_goes_offline_and_its_job_runs_elsewhere(
    mill: Mill,
) -> None:
    mill.settings["MEDIAMILL_SWEEP_SECONDS"] = "0.2"
    stopped = await mill.started("worker", "--name", "stopped")
    await mill.enqueue("chaos.settled", range(1), seconds=600)
    await mill.until("select exists (select from jobs where state = 'running' and worker_name = 'stopped')")
    await mill.until("select state = 'busy' from workers where name = 'stopped'")
    await mill.hurry()
    await mill.started("worker", "--name", "heir")
    stopped.send(signal.SIGSTOP)
    silent = "update workers set heartbeat_at = now() - interval '301 seconds' where name = 'stopped' returning state"
    await mill.until(f"with moved as ({silent}) select state = 'offline' from moved")
    assert await mill.one("select session_lost_at is null from workers where name = 'stopped'")
    assert await mill.one("select state from jobs") == "running"  # its lease has not ended
    await mill.one("update jobs set lease_expires_at = now()")
    await mill.until_all_once(1)
    assert await mill.one("select worker_name from finished_jobs") == "heir"
    stopped.send(signal.SIGCONT)
    await mill.until("select state in ('idle', 'busy') from workers where name = 'stopped'")
    mill.assert_no_traceback()


@pytest.mark.spec("E9", "E17")
async def test_a_living_worker_of_another_machine_is_left_alone(mill: Mill) -> None:
    mill.settings["MEDIAMILL_SESSION_GRACE_SECONDS"] = "1"
    await mill.enqueue("chaos.settled", range(2))
    elsewhere = await asyncpg.connect(mill.url)
    for name in ("living", "dead"):
        id_ = await register_worker(elsewhere, name=name)
        await elsewhere.execute(
            "update workers set process = 'another machine/1/1', session_lost_at = null where id = $1", id_
        )
        claimer = Claimer(id_, name, Kinds())
        pool = next(pool for pool in await list_pools(elsewhere) if pool.name == "default")
        assert len(await claimer.claim_jobs(elsewhere, pool, 1)) == 1
        if name == "living":
            await take_session_lock(elsewhere, id_)
    await mill.started("worker", "--name", "here")
    # Nothing is known of a process elsewhere but its session: the one without goes, after the grace period.
    await mill.until("select exists (select from chaos_deliveries where number = 1)")
    living = await mill.one(
        "select row_to_json(j)::jsonb ->> 'worker_name' from jobs j where state = 'running'"
    )
    assert living == "living"
    await elsewhere.close()
    await mill.until_all_once(2)


@pytest.mark.spec("E24")
async def test_a_fault_ends_the_process_with_an_exit_code_and_the_flight_log(mill: Mill) -> None:
    worker = await mill.started("worker")
    await mill.one("alter table held_owners rename to held_owners_was")
    await mill.one("select pg_notify('mediamill_jobs', 'default')")
    assert await worker.until_gone() == 1
    (dump,) = (mill.folder / "data" / "logs" / "forensics").glob("*.log")
    text = dump.read_text()
    assert "is ready, pools" in text
    assert "UndefinedTableError" in text
    assert await mill.one("select name from flight_dumps") == dump.name

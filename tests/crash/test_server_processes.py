"""`mediamill up` and its workers: who starts whom again, who leaves when the other dies, what is delivered once."""

from __future__ import annotations

import signal

import asyncpg
import psutil
import pytest

from tests.conftest import wait_until
from tests.crash.processes import Mill, Process, command_of, mill, until_dead

__all__ = ["mill"]


async def _worker_of(up: Process) -> psutil.Process:
    found: list[psutil.Process] = []

    async def there() -> bool:
        found[:] = [child for child in up.children() if "worker" in command_of(child)]
        return len(found) == 1

    await wait_until(there)
    return found[0]


@pytest.mark.spec("E22", "E23")
async def test_a_worker_that_dies_is_started_again_and_its_job_runs_again(mill: Mill) -> None:
    up = await mill.started("up", "--workers", "1")
    first = await _worker_of(up)
    await mill.enqueue("chaos.settled", range(1), seconds=600)  # it runs when its worker is killed
    await mill.until("select exists (select from jobs where state = 'running')")
    await mill.hurry()
    first.kill()
    await mill.until_all_once(1)
    assert (await _worker_of(up)).pid != first.pid
    up.send(signal.SIGTERM)
    assert await up.until_gone() == 0
    assert await mill.one("select count(*) from workers where state <> 'offline'") == 0
    mill.assert_no_traceback()


@pytest.mark.spec("E22", "E23")
async def test_a_worker_that_was_told_to_shut_down_is_not_started_again(mill: Mill) -> None:
    up = await mill.started("up", "--workers", "1")
    worker = await _worker_of(up)
    await mill.until("select count(*) = 1 from workers where state = 'idle'")
    code, said = await mill.say("workers", "shutdown", "1", "--json")
    assert code == 0, said
    await until_dead(worker.pid)
    await mill.until("select state = 'offline' from workers")
    up.send(signal.SIGTERM)
    assert await up.until_gone() == 0
    assert await mill.one("select count(*) from workers") == 1


@pytest.mark.spec("E22", "E23")
async def test_workers_leave_in_good_order_when_the_server_is_killed(mill: Mill) -> None:
    up = await mill.started("up", "--workers", "1")
    worker = await _worker_of(up)
    await mill.enqueue("chaos.settled", range(1), seconds=2)
    await mill.until("select exists (select from jobs where state = 'running')")
    up.kill()
    await until_dead(worker.pid)
    await mill.until_all_once(1)
    assert await mill.one("select state from workers") == "offline"
    assert await mill.one("select attempts from finished_jobs") == 1


@pytest.mark.spec("E11")
async def test_a_server_killed_between_result_and_delivery_delivers_once_after_its_restart(
    mill: Mill,
) -> None:
    await mill.started("worker")
    await mill.enqueue("chaos.delivered", range(20))
    await mill.until("select count(*) = 20 from jobs where state = 'completed'")
    blocker = await asyncpg.connect(mill.url)
    blocking = blocker.transaction()
    await blocking.start()
    await blocker.execute("lock table chaos_deliveries in share mode")
    up = await mill.started("up", "--workers", "0")
    stuck = "select count(*) from pg_stat_activity where query like '%chaos_deliveries%' and wait_event_type = 'Lock'"
    await mill.until(f"select ({stuck} and datname = current_database()) = 1")
    up.kill()
    await blocking.rollback()
    await blocker.close()
    await mill.until(f"select ({stuck} and datname = current_database()) = 0")
    assert await mill.one("select count(*) from chaos_deliveries") == 0
    assert await mill.one("select count(*) from jobs where state = 'completed' and result is not null") == 20
    await mill.started("up", "--workers", "0")
    await mill.until_all_once(20)

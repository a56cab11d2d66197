"""Redis is killed with -9 and started again, empty, while real processes work: every job is done once."""

from __future__ import annotations

import signal

import pytest

from tests.crash.processes import Mill, mill
from tests.dispatch.redis_server import RedisServer, redis_server

__all__ = ["mill", "redis_server"]

ROUNDS, JOBS = 6, 60


@pytest.mark.timeout(300)
@pytest.mark.spec("E8", "E9", "E30-redis")
@pytest.mark.parametrize("mode", ["redis", "hybrid"])
async def test_redis_killed_and_restarted_under_load_loses_nothing_and_doubles_nothing(
    mill: Mill, redis_server: RedisServer, mode: str
) -> None:
    mill.settings |= {"MEDIAMILL_QUEUE_MODE": mode, "MEDIAMILL_REDIS_URL": redis_server.url}
    await mill.started("up", "--workers", 0)
    for name in ("a", "b"):
        await mill.started("worker", "--name", name)
    for number in range(ROUNDS):
        done = JOBS * number
        await mill.enqueue("chaos.settled", range(done, done + JOBS), seconds=0.02)
        await mill.until("select count(*) > $1 from chaos_deliveries", done)
        redis_server.kill()
        if number % 2:  # some come while it is away
            await mill.until("select count(*) >= $1 from chaos_deliveries", done + JOBS)
        await redis_server.started()
    await mill.until_all_once(ROUNDS * JOBS)
    mill.assert_no_traceback()


@pytest.mark.timeout(300)
@pytest.mark.spec("E9", "E30-redis")
async def test_workers_and_redis_killed_together_lose_nothing(mill: Mill, redis_server: RedisServer) -> None:
    mill.settings |= {"MEDIAMILL_QUEUE_MODE": "redis", "MEDIAMILL_REDIS_URL": redis_server.url}
    doomed = await mill.started("worker", "--name", "doomed")  # it relays, too
    await mill.started("worker", "--name", "heir")
    await mill.enqueue("chaos.settled", range(100), seconds=0.05)
    await mill.until("select exists (select from jobs where state = 'running' and worker_name = 'doomed')")
    doomed.kill()
    redis_server.kill()
    await redis_server.started()
    await mill.enqueue("chaos.settled", range(100, 150), seconds=0.05)
    await mill.until_all_once(150)
    mill.assert_no_traceback()


@pytest.mark.timeout(300)
@pytest.mark.spec("E22", "E30-redis")
async def test_a_worker_leaves_in_good_order_while_redis_hangs(mill: Mill, redis_server: RedisServer) -> None:
    mill.settings |= {"MEDIAMILL_QUEUE_MODE": "hybrid", "MEDIAMILL_REDIS_URL": redis_server.url}
    worker = await mill.started("worker")
    redis_server.hang()
    try:
        await mill.enqueue("chaos.settled", range(5))
        await mill.until_all_once(5)
        worker.send(signal.SIGTERM)
        assert await worker.until_gone() == 0
    finally:
        redis_server.go_on()
    mill.assert_no_traceback()

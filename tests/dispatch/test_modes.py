"""Each way of waking, with real workers whose poll never comes: what they claim, they were told of."""

from __future__ import annotations

import asyncio

import pytest

from mediamill.dispatch.choose import Dispatch
from tests.conftest import wait_until
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.dispatch.working import listens_for_jobs, until_deaf, until_flowing, until_idle, woken_by
from tests.worker.working import Ground, ground

__all__ = ["ground", "redis_server"]


@pytest.mark.spec("E30")
async def test_the_database_alone_wakes_a_worker(ground: Ground) -> None:
    async with woken_by(ground, Dispatch()):
        await ground.until(await ground.add(), "finished")
        await ground.until(await ground.add(), "finished")


@pytest.mark.spec("E30-redis")
@pytest.mark.parametrize("mode", ["redis", "hybrid"])
async def test_redis_wakes_a_worker_that_does_not_listen_to_the_database(
    ground: Ground, redis_server: RedisServer, mode: str
) -> None:
    dispatch = Dispatch(mode, redis_server.url)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        await until_idle(worker)
        for _ in range(5):
            await ground.until(await ground.add(), "finished")
        assert dispatch.link.counts["hints_heard"] > 0
        await until_deaf(worker)


@pytest.mark.spec("E30-redis")
async def test_one_hint_wakes_as_many_workers_as_a_burst_needs(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatches = [Dispatch("redis", redis_server.url) for _ in range(4)]
    async with (
        woken_by(ground, dispatches[0], "a") as a,
        woken_by(ground, dispatches[1], "b") as b,
        woken_by(ground, dispatches[2], "c") as c,
        woken_by(ground, dispatches[3], "d") as d,
    ):
        await until_flowing(*dispatches)
        for worker in (a, b, c, d):
            await until_idle(worker)
        await ground.add(wait=True, copies=4)  # one transaction, one notification
        await ground.until_so_many_begun(4)
        assert await ground.one("select count(distinct worker_name) from jobs where state = 'running'") == 4
        ground.stage.release(*ground.stage.begun)
        await ground.until_sql("select count(*) = 4 from finished_jobs")


@pytest.mark.spec("E30-redis")
async def test_a_worker_hears_only_of_its_own_pools(ground: Ground, redis_server: RedisServer) -> None:
    await ground.pool("other", matches=["stage.other"])
    ours, theirs = Dispatch("redis", redis_server.url), Dispatch("redis", redis_server.url)
    async with (
        woken_by(ground, ours, "a", ("default",)) as a,
        woken_by(ground, theirs, "b", ("other",)) as b,
    ):
        await until_flowing(ours, theirs)
        await until_idle(a)
        await until_idle(b, "other")
        before = ours.link.counts["hints_heard"]
        for _ in range(3):
            await ground.until(await ground.add("stage.other"), "finished")
        assert ours.link.counts["hints_heard"] == before


@pytest.mark.spec("E30-redis")
async def test_a_busy_worker_leaves_hints_to_those_who_have_time(
    ground: Ground, redis_server: RedisServer
) -> None:
    busy, free = Dispatch("redis", redis_server.url), Dispatch("redis", redis_server.url)
    async with woken_by(ground, busy, "busy") as first:
        await until_flowing(busy)
        await until_idle(first)
        await ground.add(wait=True)
        await ground.until_so_many_begun(1)
        async with woken_by(ground, free, "free") as second:
            await until_idle(second)
            for _ in range(5):
                await ground.until(await ground.add(), "finished")
        ground.stage.release(*ground.stage.begun)


@pytest.mark.spec("E30-redis")
async def test_a_job_that_is_due_soon_is_not_forgotten(ground: Ground, redis_server: RedisServer) -> None:
    dispatch = Dispatch("redis", redis_server.url)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        await until_idle(worker)
        id_ = await ground.one(
            "insert into jobs (kind, pool, owner, priority, max_attempts, state, payload, run_after) values "
            "('stage.work', 'default', 'o', 1, 3, 'scheduled', '{}', now() + interval '1 second') returning id"
        )
        await ground.one("select pg_notify('mediamill_jobs', 'default')")
        await ground.until(id_, "finished")


@pytest.mark.spec("E30-redis")
async def test_when_the_one_who_relays_is_gone_another_does(
    ground: Ground, redis_server: RedisServer
) -> None:
    first, second = Dispatch("redis", redis_server.url), Dispatch("redis", redis_server.url)
    relaying = asyncio.create_task(first.run(ground.database))
    await until_flowing(first)
    async with woken_by(ground, second) as worker:
        await until_idle(worker)
        relaying.cancel()
        await asyncio.gather(relaying, return_exceptions=True)
        await ground.until(await ground.add(), "finished")
        assert second.link.counts["hints_published"] > 0
    await first.close()


@pytest.mark.spec("E30-redis")
async def test_hybrid_listens_to_the_database_while_redis_is_away_and_no_longer_when_it_is_back(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatch = Dispatch("hybrid", redis_server.url)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        redis_server.kill()

        async def away() -> bool:
            return not dispatch.link.up.is_set()

        await wait_until(away)
        for _ in range(3):
            await ground.until(await ground.add(), "finished")
        assert listens_for_jobs(worker)
        await redis_server.started()
        await until_flowing(dispatch)
        await until_idle(worker)
        await until_deaf(worker)
        await ground.until(await ground.add(), "finished")
    assert dispatch.link.breaker.opened >= 1

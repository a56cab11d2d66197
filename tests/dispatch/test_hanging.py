"""A Redis that takes connections and never answers stalls nobody."""

from __future__ import annotations

import pytest

from mediamill.dispatch.choose import Dispatch
from tests.conftest import wait_until
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.dispatch.working import PatientHome, until_flowing, until_idle, woken_by
from tests.worker.working import Ground, ground

__all__ = ["ground", "redis_server"]


async def until_away(dispatch: Dispatch) -> None:
    async def away() -> bool:
        return not dispatch.link.up.is_set()

    await wait_until(away)


@pytest.mark.spec("E30-redis")
async def test_workers_go_on_by_the_database_while_redis_hangs_and_by_redis_when_it_goes_on(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatch = Dispatch("hybrid", redis_server.url)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        await until_idle(worker)
        redis_server.hang()
        try:
            await ground.add(copies=50)  # enqueue does not know of Redis
            await ground.until_sql("select count(*) = 50 from finished_jobs")
            await until_away(dispatch)
            assert dispatch.link.facts()["error"] == "it does not answer in time"
            await ground.until(await ground.add(), "finished")
        finally:
            redis_server.go_on()
        await until_flowing(dispatch)
        await ground.until(await ground.add(), "finished")


@pytest.mark.spec("E30-redis")
async def test_without_a_fallback_the_poll_goes_on_while_redis_hangs(
    ground: Ground, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientHome, "poll_seconds", 0.2)
    dispatch = Dispatch("redis", redis_server.url)
    async with woken_by(ground, dispatch):
        await until_flowing(dispatch)
        redis_server.hang()
        try:
            await ground.add(copies=20)
            await ground.until_sql("select count(*) = 20 from finished_jobs")
        finally:
            redis_server.go_on()


@pytest.mark.spec("E30-redis")
async def test_a_redis_that_is_away_from_the_start_is_no_obstacle(
    ground: Ground, redis_server: RedisServer
) -> None:
    redis_server.kill()
    dispatch = Dispatch("hybrid", redis_server.url)
    async with woken_by(ground, dispatch):
        await until_away(dispatch)
        await ground.until(await ground.add(), "finished")
        await redis_server.started()
        await until_flowing(dispatch)
        await ground.until(await ground.add(), "finished")

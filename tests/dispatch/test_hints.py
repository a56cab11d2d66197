"""A hint is only a hint: lost, doubled, stale or held by the dead, it does no harm."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.dispatch.choose import Dispatch
from mediamill.dispatch.link import name_of
from mediamill.dispatch.streams import GROUP, MOST_HINTS, HintStreams
from mediamill.engine.model import Priority
from tests.conftest import wait_until
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.dispatch.working import PatientHome, until_flowing, until_idle, woken_by
from tests.worker.working import Ground, ground

__all__ = ["ground", "redis_server"]


async def key_of(ground: Ground, priority: Priority = Priority.NORMAL) -> str:
    return HintStreams(await name_of(ground.database)).key("default", priority)


async def insert_untold(ground: Ground) -> int:
    """A job of which nobody is told."""
    return int(
        await ground.one(
            "insert into jobs (kind, pool, owner, priority, max_attempts, state, payload) "
            "values ('stage.work', 'default', 'o', 1, 3, 'queued', '{}') returning id"
        )
    )


async def until_settled(redis_server: RedisServer, key: str) -> None:
    """Nothing is left in the stream, neither unread nor taken."""

    async def settled() -> bool:
        client: Any = redis_server.client
        return bool(client.xlen(key) == 0 and client.xpending(key, GROUP)["pending"] == 0)

    await wait_until(settled)


@pytest.mark.spec("E30-redis")
async def test_a_job_whose_hint_was_lost_is_found_by_the_poll(
    ground: Ground, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PatientHome, "poll_seconds", 0.2)
    async with woken_by(ground, Dispatch("redis", redis_server.url)):
        redis_server.kill()
        for _ in range(3):
            await ground.until(await ground.add(), "finished")


@pytest.mark.spec("E30-redis")
async def test_doubled_hints_run_a_job_once_and_are_all_cleared_away(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatch, key = Dispatch("redis", redis_server.url), await key_of(ground)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        await until_idle(worker)
        id_ = await insert_untold(ground)
        for _ in range(50):
            redis_server.client.xadd(key, {"pool": "default"})
        await ground.until(id_, "finished")
        await until_settled(redis_server, key)
    assert ground.stage.begun == [id_]
    assert await ground.one("select attempts from finished_jobs where id = $1", id_) == 1


@pytest.mark.spec("E30-redis")
async def test_hints_of_jobs_that_are_finished_change_nothing(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatch = Dispatch("redis", redis_server.url)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        id_ = await ground.add()
        await ground.until(id_, "finished")
        await until_idle(worker)
        for priority in Priority:
            key = await key_of(ground, priority)
            redis_server.client.xadd(key, {"pool": "default", "anything": "else"})
            await until_settled(redis_server, key)
    assert ground.stage.begun == [id_]


@pytest.mark.spec("E30-redis")
async def test_a_hint_that_a_dead_worker_had_taken_is_reclaimed(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatch, key = Dispatch("redis", redis_server.url), await key_of(ground)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        await until_idle(worker)
        with redis_server.client.pipeline(transaction=True) as pipe:  # at once, so that nobody else reads it
            pipe.xadd(key, {"pool": "default"})
            pipe.xreadgroup(GROUP, "dead", {key: ">"})
            assert pipe.execute()[1]
        await ground.until(await insert_untold(ground), "finished")
        await until_settled(redis_server, key)
        assert dispatch.link.counts["hints_reclaimed"] == 1


@pytest.mark.spec("E30-redis")
async def test_a_hint_goes_to_the_stream_of_its_priority_and_streams_stay_short(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatch = Dispatch("redis", redis_server.url)
    async with woken_by(ground, dispatch, pools=("none",)):  # it relays, and serves nothing
        await until_flowing(dispatch)
        await ground.one(
            "insert into jobs (kind, pool, owner, priority, max_attempts, state, payload) "
            "values ('stage.work', 'default', 'o', 0, 3, 'queued', '{}')"
        )
        urgent = await key_of(ground, Priority.HIGH)

        async def many() -> bool:
            for _ in range(20):
                await ground.one("select pg_notify('mediamill_jobs', 'default')")
            return dispatch.link.counts["hints_published"] > 3 * MOST_HINTS

        await wait_until(many)
        assert 0 < redis_server.client.xlen(urgent) <= 2 * MOST_HINTS
        assert redis_server.client.xlen(await key_of(ground)) == 0
        assert redis_server.client.ttl(urgent) > 0


@pytest.mark.spec("E30-redis")
async def test_a_redis_that_lost_everything_is_set_up_again(
    ground: Ground, redis_server: RedisServer
) -> None:
    dispatch = Dispatch("redis", redis_server.url)
    async with woken_by(ground, dispatch) as worker:
        await until_flowing(dispatch)
        await until_idle(worker)
        redis_server.client.flushall()
        for _ in range(3):
            await ground.until(await ground.add(), "finished")


@pytest.mark.spec("E30-redis")
async def test_two_databases_on_one_redis_do_not_hear_each_other(
    ground: Ground, redis_server: RedisServer, server_url: str
) -> None:
    from tests.conftest import fresh_url, open_database

    async with fresh_url(server_url) as url, open_database(url) as other:
        assert await name_of(other) != await name_of(ground.database)

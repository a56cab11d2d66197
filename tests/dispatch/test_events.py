"""Live events by Pub/Sub: every server hears of them, and reads them from the database with its ids."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mediamill.api import event_hub
from mediamill.api.event_hub import Client, EventHub
from mediamill.db.connection import Database
from tests.api.serving import serve
from tests.conftest import wait_until
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.dispatch.working import running, until_flowing

__all__ = ["redis_server"]


async def tell(database: Database, subject: str) -> int:
    async with database.connection() as connection:
        return int(
            await connection.fetchval(
                "insert into events (topic, subject, data) values ('test', $1, '{}') returning id", subject
            )
        )


async def next_event(client: Client) -> tuple[str, int]:
    async with asyncio.timeout(60):
        told = await client.queue.get()
    assert told is not None
    return told[1].subject, told[1].id


@pytest.mark.spec("E30-redis", "E31")
@pytest.mark.parametrize("mode", ["redis", "hybrid"])
async def test_every_server_hears_of_an_event_by_redis_and_has_the_id_of_the_database(
    database: Database, redis_server: RedisServer, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "POLL_SECONDS", 3600)
    async with (
        running(database, mode, redis_server.url) as one,
        running(database, mode, redis_server.url) as other,
    ):
        await until_flowing(one, other)
        hubs = [EventHub(database, one), EventHub(database, other)]
        clients = [await hub.join() for hub in hubs]

        async def subscribed() -> bool:
            return (
                sum(number for _, number in redis_server.client.pubsub_numsub(*_channels(redis_server))) >= 4
            )

        await wait_until(subscribed)
        for number in range(3):
            id_ = await tell(database, f"subject {number}")
            for client in clients:
                assert await next_event(client) == (f"subject {number}", id_)
        for hub in hubs:
            hub.close()


def _channels(redis_server: RedisServer) -> list[str]:
    return [str(channel) for channel in redis_server.client.pubsub_channels("mediamill:*")]


@pytest.mark.spec("E30-redis", "E31")
async def test_events_come_from_the_database_while_redis_is_away(
    database: Database, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "POLL_SECONDS", 3600)
    async with running(database, "hybrid", redis_server.url) as dispatch:
        await until_flowing(dispatch)
        hub = EventHub(database, dispatch)
        client = await hub.join()
        redis_server.kill()

        async def away() -> bool:
            return not dispatch.link.up.is_set()

        await wait_until(away)
        for number in range(3):
            id_ = await tell(database, f"subject {number}")
            assert await next_event(client) == (f"subject {number}", id_)
        hub.close()


@pytest.mark.spec("E30-redis", "E33")
async def test_health_and_metrics_show_redis_and_its_breaker(
    database: Database, redis_server: RedisServer, tmp_path: Path
) -> None:
    async with serve(database, tmp_path, queue_mode="hybrid", redis_url=redis_server.url) as served:
        dispatch = served.app.state.deps.dispatch
        task = asyncio.create_task(dispatch.run(database))

        async def well() -> bool:
            health = (await served.client.get("/health")).json()
            return (health["status"], health["redis"], health["breaker"]) == ("ok", "ok", "closed")

        async def relayed() -> bool:
            deep = (await served.client.get("/api/health")).json()["dispatch"]
            return (deep["mode"], deep["relayed"]) == ("hybrid", True)

        await wait_until(well)
        await wait_until(relayed)
        opened = dispatch.link.breaker.opened
        redis_server.kill()

        async def open_() -> bool:
            return bool((await served.client.get("/health")).json()["breaker"] != "closed")

        await wait_until(open_)
        answer = await served.client.get("/health")
        assert (answer.status_code, answer.json()["redis"]) == (200, "down")
        metrics = (await served.client.get("/metrics")).text
        assert "mediamill_redis_up 0.0" in metrics
        assert 'mediamill_redis_breaker{state="closed"} 0.0' in metrics
        assert f"mediamill_redis_opened_total {opened + 1}.0" in metrics
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await dispatch.close()


@pytest.mark.spec("E33")
async def test_without_redis_health_does_not_speak_of_it(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path) as served:
        assert "redis" not in (await served.client.get("/health")).json()
        assert "redis" not in (await served.client.get("/metrics")).text
        assert (await served.client.get("/api/health")).json()["dispatch"] == {"mode": "database"}

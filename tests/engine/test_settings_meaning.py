"""Settings keep their meaning: what is set is what the engine, the workers, the alerts and Redis go by."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis

from mediamill.cli.worker import Gpu, make_plan
from mediamill.dispatch.choose import Dispatch
from mediamill.engine.alerts import raise_alert
from mediamill.engine.kinds import Kinds
from mediamill.engine.pools import set_pools
from mediamill.engine.recovery import sweep
from mediamill.engine.recovery.silent_workers import mark_silent
from mediamill.engine.recovery.sweep import run_chore, sweep_forever
from mediamill.engine.rules import Engine
from mediamill.settings import Settings
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker
from tests.conftest import wait_until
from tests.dispatch.redis_server import RedisServer, redis_server
from tests.engine.conftest import Bench

__all__ = ["redis_server"]

DEFAULTS = {
    "heartbeat_seconds": 30,
    "offline_after_seconds": 300,
    "sweep_seconds": 60,
    "janitor_seconds": 3600,
    "placeholder_keep_hours": 3,
    "staged_keep_hours": 4,
    "alert_rate_limit_seconds": 300,
    "alert_timeout_seconds": 10,
    "queue_mode": "database",
    "redis_pool_size": 10,
    "video_resume": True,
    "video_clean_partial": True,
}


@pytest.mark.spec("V16", "E21", "E32", "E34")
def test_the_defaults_are_those_that_are_promised() -> None:
    settings = Settings()
    assert {name: getattr(settings, name) for name in DEFAULTS} == DEFAULTS


def engine_set(monkeypatch: pytest.MonkeyPatch, **settings: float) -> Engine:
    """The engine of a process with these settings in its environment."""
    for name, value in settings.items():
        monkeypatch.setenv(f"MEDIAMILL_{name.upper()}", str(value))
    return replace(Engine.from_settings(Settings(), Kinds()), startup_grace_seconds=0)


@pytest.mark.spec("V16", "E21")
@pytest.mark.parametrize("name", ["heartbeat_seconds", "worker_heartbeat_seconds"])
async def test_a_worker_beats_as_often_as_is_set(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("MEDIAMILL_DATA", str(tmp_path))
    engine = engine_set(monkeypatch, **{name: 0.2})
    plan = make_plan(Settings(), "default", Gpu.NO)
    worker = Worker(LocalHome(bench.database, engine, plan), engine, plan)
    working, beats = asyncio.create_task(worker.run()), set()

    async def often() -> bool:
        beats.add(await bench.one("select heartbeat_at from workers"))
        return len(beats) > 5

    try:
        await wait_until(often, 20)  # less than one ordinary interval
    finally:
        worker.stop()
        await working


@pytest.mark.spec("V16", "E21")
async def test_a_worker_is_offline_after_the_silence_that_is_set(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = engine_set(monkeypatch, offline_after_seconds=7)
    for name, seconds in (("heard", 5), ("silent", 8)):
        await bench.worker(name)
        silence = "update workers set heartbeat_at = now() - make_interval(secs => $2) where name = $1"
        await bench.run(silence, name, seconds)
    assert await run_chore(bench.database, engine, mark_silent) == 1
    assert await bench.one("select name from workers where state = 'offline'") == "silent"


@pytest.mark.spec("V16", "E8", "E34")
@pytest.mark.parametrize("due", ["sweep", "janitor"])
async def test_the_chores_run_as_often_as_is_set(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, due: str
) -> None:
    monkeypatch.setattr(sweep, "SESSIONS_SECONDS", 0.05)
    engine = engine_set(monkeypatch, sweep_seconds=500, janitor_seconds=700)
    for chore, seconds in (("sweep", 500), ("janitor", 700)):
        ago = seconds + (10 if chore == due else -400)
        turn = "insert into counters values ($1, (extract(epoch from now() - make_interval(secs => $2)) * 1e6)::bigint)"
        await bench.run(turn, f"{chore}_turn", ago)
    turns = "select array_agg(name) from counters where value > (extract(epoch from now() - interval '99 s') * 1e6)"
    sweeping = asyncio.create_task(sweep_forever(bench.database, engine))

    async def had_its_turn() -> bool:
        return bool(await bench.one(turns))

    async def looked_again() -> bool:
        return bool(await bench.one("select session_lost_at is not null from workers"))

    try:
        await wait_until(had_its_turn)
        await bench.worker()  # without a session, which the next round notes
        await wait_until(looked_again)
    finally:
        sweeping.cancel()
    assert await bench.one(turns) == [f"{due}_turn"]


@pytest.mark.spec("V16", "E32")
async def test_alerts_of_a_type_are_as_far_apart_as_is_set(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = replace(engine_set(monkeypatch, alert_rate_limit_seconds=7), alerts_on=True)
    for seconds, goes_out in ((0, True), (5, False), (8, True)):
        await bench.run("update alert_limits set last_at = now() - make_interval(secs => $1)", seconds)
        async with bench.database.transaction() as connection:
            assert await raise_alert(connection, engine, "stale_job_recovered", {}) is goes_out


@pytest.mark.spec("V16", "E30")
async def test_queue_mode_and_redis_are_what_dispatch_goes_by(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_REDIS_URL", redis_server.url)
    monkeypatch.setenv("MEDIAMILL_REDIS_POOL_SIZE", "4")
    for mode, by_redis in (("redis", True), ("hybrid", True), ("database", False)):
        monkeypatch.setenv("MEDIAMILL_QUEUE_MODE", mode)
        assert Dispatch.of(Settings()).by_redis is by_redis
    dispatch = Dispatch.of(Settings())
    pool: Any = dispatch.link.client.connection_pool
    for _ in range(4):
        await (await pool.get_connection()).send_command("PING")
    with pytest.raises(redis.ConnectionError, match="No connection available"):
        await pool.get_connection()
    await dispatch.close()


@pytest.mark.spec("V16", "E16")
async def test_claim_duration_stale_timeout_and_attempts_are_set_by_pool(bench: Bench) -> None:
    changes = {"name": "default", "lease_seconds": 77, "stale_seconds": 88, "max_attempts": 9}
    async with bench.database.transaction() as connection:
        pools = await set_pools(connection, [changes], ())
    pool = next(pool for pool in pools if pool.name == "default")
    assert (pool.lease_seconds, pool.stale_seconds, pool.max_attempts) == (77, 88, 9)
    id_ = await bench.enqueue()
    await bench.claim()
    lease = "select extract(epoch from lease_expires_at - claimed_at)::float8, max_attempts from jobs where id = $1"
    async with bench.database.connection() as connection:
        row = await connection.fetchrow(lease, id_)
    assert row is not None
    assert tuple(row) == (77, 9)

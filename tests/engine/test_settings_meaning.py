"""Settings keep their meaning: what is set is what the engine, the workers, the alerts and Redis go by."""

from __future__ import annotations

import pytest

from mediamill.dispatch.choose import Dispatch
from mediamill.engine.kinds import Kinds
from mediamill.engine.pools import set_pools
from mediamill.engine.rules import Engine
from mediamill.settings import Settings
from tests.engine.conftest import Bench

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


@pytest.mark.spec("V16", "E21")
@pytest.mark.parametrize(
    "name",
    [
        "heartbeat_seconds",
        "offline_after_seconds",
        "sweep_seconds",
        "janitor_seconds",
        "alert_rate_limit_seconds",
    ],
)
def test_what_is_set_is_what_the_engine_goes_by(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"MEDIAMILL_{name.upper()}", "123.5")
    assert getattr(Engine.from_settings(Settings(), Kinds()), name) == 123.5


@pytest.mark.spec("V16", "E30")
def test_queue_mode_and_redis_are_what_dispatch_goes_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIAMILL_REDIS_URL", "redis://127.0.0.1:9/3")
    monkeypatch.setenv("MEDIAMILL_REDIS_POOL_SIZE", "17")
    for mode in ("redis", "hybrid", "database"):
        monkeypatch.setenv("MEDIAMILL_QUEUE_MODE", mode)
        assert Dispatch.of(Settings()).mode == mode


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

"""A pooler in transaction mode before PostgreSQL 16: all goes through it but what needs sessions."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bench.machines.postgres_server import PostgresServer
from mediamill.db.connection import Database, PoolerInBetweenError
from mediamill.db.migrate import upgrade
from mediamill.staging.move import StillRunningError, check_nobody_runs
from tests.conftest import run_sql
from tests.crash.processes import Mill
from tests.pooler.pooler import OURS, SIZE, Pooler, pooler, postgres16

__all__ = ["pooler", "postgres16"]

SAMPLES = Path(__file__).parents[2] / "samples"
# Sessions past the pooler end with their process, in a moment, and so does what they had under way.
NOBODY_RUNS = """select not exists (select from pg_stat_activity where application_name ~ '^(mediamill|worker) '
    and (state <> 'idle' or application_name not in ('mediamill server', 'mediamill command')))"""


@pytest.fixture
async def mill(postgres16: PostgresServer, pooler: Pooler, tmp_path: Path) -> AsyncIterator[Mill]:
    """Every process comes through the pooler, and knows the server behind it; the test looks past it."""
    await run_sql(postgres16.socket_url, "drop schema public cascade", "create schema public")
    mill = Mill(tmp_path, postgres16.socket_url)
    mill.settings |= {
        "MEDIAMILL_DATABASE_URL": pooler.url,
        "MEDIAMILL_DATABASE_DIRECT_URL": postgres16.socket_url,
    }
    yield mill
    mill.close()


@pytest.mark.parametrize("ignored", ["", OURS])
async def test_a_pooler_without_the_way_around_it_is_refused_with_the_fix(
    pooler: Pooler, mill: Mill, ignored: str
) -> None:
    await pooler.start(ignored=ignored)
    del mill.settings["MEDIAMILL_DATABASE_DIRECT_URL"]
    code, said = await mill.say("check", "--json")
    [fault] = [each for each in json.loads(said)["findings"] if each["status"] == "fault"]
    assert code == 1
    assert "behind a pooler" in fault["message"]
    assert "MEDIAMILL_DATABASE_DIRECT_URL" in fault["fix"]


async def test_a_pooler_in_session_mode_is_as_good_as_the_database(pooler: Pooler) -> None:
    await pooler.start("session", ignored=OURS)
    database = await Database.open(pooler.url)
    await database.close()


async def test_the_direct_address_may_not_be_a_pooler_either(pooler: Pooler) -> None:
    await pooler.start(ignored=OURS)
    with pytest.raises(PoolerInBetweenError):
        await Database.open(pooler.url, pooler_url=pooler.url)


async def test_both_ways_must_lead_to_the_same_database(pooler: Pooler, mill: Mill, server_url: str) -> None:
    await pooler.start()
    code, said = await mill.say("check")
    assert code == 0, said
    assert "PostgreSQL 16" in said
    assert "through a pooler" in said
    mill.settings["MEDIAMILL_DATABASE_DIRECT_URL"] = server_url
    code, said = await mill.say("check")
    assert code == 1
    assert "lead to different databases" in said


@pytest.mark.timeout(300)
@pytest.mark.spec("E8", "E9", "E17", "E23")
async def test_jobs_media_and_a_worker_killed_with_9_through_a_pooler(
    pooler: Pooler, postgres16: PostgresServer, mill: Mill
) -> None:
    await pooler.start()
    await upgrade(postgres16.socket_url)
    await mill.started("up", "--workers", 0)
    doomed = await mill.started("worker", "--name", "doomed")
    await mill.started("worker", "--name", "heir")
    await mill.enqueue("chaos.settled", range(200), seconds=0.2)
    await mill.until("select exists (select from jobs where state = 'running' and worker_name = 'doomed')")
    through = "('mediamill server', 'mediamill worker', 'mediamill command')"
    ours = "select count(*) from pg_stat_activity where application_name"
    assert await mill.one(f"{ours} in {through}") <= SIZE
    # As docs/how-to/many-machines.md counts them: three for a worker, ten at most for the server.
    assert await mill.one(f"{ours} ~ '^(worker |mediamill claims|mediamill finishes)'") <= 2 * 3
    assert await mill.one(f"{ours} ~ '^mediamill ' and application_name not in {through}") <= 2 * 2 + 10
    doomed.kill()
    await mill.until("select count(*) > 40 from chaos_deliveries")
    pooler.kill()
    await pooler.start()
    await mill.until_all_once(200)
    photo = shutil.copy(SAMPLES / "photo.jpg", mill.folder / "photo.jpg")
    code, said = await mill.say("process", photo)
    assert code == 0, said
    assert await mill.one("select attempts from finished_jobs where kind = 'media.process'") == 1
    mill.assert_no_traceback()


async def test_sessions_that_the_pooler_keeps_do_not_hold_up_a_move_and_a_server_that_runs_does(
    pooler: Pooler, postgres16: PostgresServer, mill: Mill
) -> None:
    await pooler.start()
    direct = postgres16.socket_url
    await upgrade(direct)
    server = await mill.started("up", "--workers", 0)
    database = await Database.open(direct, pooler_url=pooler.url, name="mediamill command")
    with pytest.raises(StillRunningError, match="mediamill deliveries"):
        await check_nobody_runs(database)
    server.kill()
    await mill.until(NOBODY_RUNS)
    gone = await Database.open(direct, pooler_url=pooler.url, name="mediamill server")
    async with gone.transaction() as one, gone.transaction() as two:
        await one.execute("select 1")
        await two.execute("select 1")
    await gone.close()
    await check_nobody_runs(database)
    assert await mill.one("select count(*) from pg_stat_activity where application_name = 'mediamill server'")
    await database.close()

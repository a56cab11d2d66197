"""Scans as jobs: asked for once, run by a worker, asked for again by the clock."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import Moved
from mediamill.errors import GiveUpError, NotNowError, RetryLaterError
from mediamill.libraries.rescan import request_due_scans
from mediamill.libraries.scan_job import request_scan, scan_kinds
from mediamill.libraries.scan_model import LibraryPausedError
from tests.engine.waiting import until_blocked
from tests.libraries.scan_ground import Tree


@dataclass
class Run:
    """What a handler gets of a job."""

    payload: Any
    steps: list[str]
    job: Any = None

    async def report(
        self, step: str | None = None, percent: float | None = None, parts: Any = None, checkpoint: Any = None
    ) -> None:
        self.steps.append(step or "")


@pytest.fixture
async def tree(database: Database, tmp_path: Path) -> Tree:
    return await Tree.grow(database, tmp_path)


@pytest.fixture
def enqueuer(tree: Tree) -> Enqueuer:
    return Enqueuer(Kinds(scan_kinds(tree.settings, tree.database)))


async def ask(tree: Tree, enqueuer: Enqueuer) -> int | None:
    async with tree.database.transaction() as connection:
        return await request_scan(connection, enqueuer, tree.slug)


async def work(tree: Tree, payload: Any = None) -> Any:
    (kind,) = scan_kinds(tree.settings, tree.database)
    assert kind.handler is not None
    return await kind.handler(Run(payload or {"slug": tree.slug}, []))


@pytest.mark.spec("L1")
async def test_a_scan_is_asked_for_once_while_one_waits(tree: Tree, enqueuer: Enqueuer) -> None:
    job = await ask(tree, enqueuer)
    assert job is not None
    assert (await tree.library())["scan_status"] == "scan_req"
    assert await ask(tree, enqueuer) is None
    row = await tree.database.pool.fetchrow(
        "select kind, pool, owner, payload::text from jobs where id = $1", job
    )
    assert row is not None
    number = (await tree.library())["number"]
    assert (row["kind"], row["pool"], row["owner"]) == ("library.scan", "library_scans", f"library:{number}")
    await tree.sql("delete from jobs")  # purged: it must not be waited for
    assert await ask(tree, enqueuer) is not None


async def test_of_two_that_ask_at_once_only_one_makes_a_job(tree: Tree, enqueuer: Enqueuer) -> None:
    """As two servers do whose clocks say that a scan is due."""
    async with tree.database.transaction() as connection:
        assert await request_scan(connection, enqueuer, tree.slug) is not None
        second = asyncio.create_task(ask(tree, enqueuer))
        await until_blocked(tree.database)
    assert await second is None
    assert await tree.database.pool.fetchval("select count(*) from jobs") == 1


@pytest.mark.spec("L1")
async def test_a_job_scans_and_the_library_is_idle_again(tree: Tree, enqueuer: Enqueuer) -> None:
    tree.write("a.jpg")
    await ask(tree, enqueuer)
    told = await work(tree)
    assert told["new"] == 1
    assert (await tree.library())["scan_status"] == "idle"


async def test_a_folder_that_is_away_is_tried_again_and_an_empty_one_is_not(
    tree: Tree, enqueuer: Enqueuer, tmp_path: Path
) -> None:
    tree.write("a.jpg")
    await work(tree)
    (tree.root / "a.jpg").unlink()
    with pytest.raises(GiveUpError):
        await work(tree)
    tree.root.rmdir()
    with pytest.raises(RetryLaterError):
        await work(tree)
    assert (await tree.library())["scan_status"] == "idle"


@pytest.mark.spec("L3")
async def test_a_scan_that_was_killed_is_asked_for_again_by_the_clock_and_goes_on(
    tree: Tree, enqueuer: Enqueuer
) -> None:
    """Whoever ran it, a worker or a command: nobody else would ever end it."""
    tree.write("a/one.jpg", "b/two.jpg")
    scanning = "update libraries set scan_status = 'scanning', scan_at = 'a', scan_counts = '{\"newest\": 0}'"
    await tree.sql(f"{scanning}, scan_started_at = now(), scan_beat_at = now()")
    assert await request_due_scans(tree.database, enqueuer) == 0, "it is alive"
    with pytest.raises(NotNowError):
        await work(tree)
    await tree.sql("update libraries set scan_beat_at = now() - interval '2 minutes'")
    assert await request_due_scans(tree.database, enqueuer) == 1
    assert await request_due_scans(tree.database, enqueuer) == 0
    assert (await work(tree))["files"] == 1, "all but what it had passed"
    assert (await tree.library())["scan_status"] == "idle"


async def test_a_job_that_was_given_up_leaves_its_reason(tree: Tree, enqueuer: Enqueuer) -> None:
    await ask(tree, enqueuer)
    (kind,) = scan_kinds(tree.settings, tree.database)
    number = (await tree.library())["number"]
    assert kind.on_failed is not None
    async with tree.database.transaction() as connection:
        moved = Moved(1, kind.name, f"library:{number}", str(number), 3, {}, error="the worker died")
        await kind.on_failed(connection, [moved])
    library = await tree.library()
    assert (library["scan_status"], library["scan_error"]) == ("idle", "the worker died")


async def test_a_process_without_a_database_leaves_it_to_others(tree: Tree) -> None:
    (kind,) = scan_kinds(tree.settings, None)
    assert kind.handler is not None
    with pytest.raises(RetryLaterError):
        await kind.handler(Run({"slug": tree.slug}, []))


async def test_a_paused_library_is_not_asked_for(tree: Tree, enqueuer: Enqueuer) -> None:
    await tree.sql("update libraries set is_active = false")
    with pytest.raises(LibraryPausedError):
        await ask(tree, enqueuer)


@pytest.mark.spec("L3")
async def test_a_library_is_scanned_again_when_it_is_due(tree: Tree, enqueuer: Enqueuer) -> None:
    async def due() -> int:
        return await request_due_scans(tree.database, enqueuer)

    assert await due() == 0  # nobody wants it scanned by itself
    await tree.sql("update libraries set rescan_seconds = 60")
    assert await due() == 1
    assert await due() == 0
    await tree.sql("delete from jobs")
    await work(tree)
    assert await due() == 0
    await tree.sql("update libraries set scanned_at = now() - interval '61 s', scan_started_at = now()")
    assert await due() == 0  # the last one failed, a moment ago
    await tree.sql("update libraries set scan_started_at = now() - interval '61 s'")
    assert await due() == 1
    await tree.sql("delete from jobs")
    await tree.sql(
        "update libraries set scan_status = 'scanning', scan_beat_at = now() - interval '2 min', "
        "scan_started_at = now() - interval '1 hour'"
    )
    assert await due() == 1  # somebody died over it
    await tree.sql("update libraries set is_active = false")
    await tree.sql("delete from jobs")
    assert await due() == 0


async def test_a_library_that_is_paused_in_the_moment_when_it_is_due_does_not_keep_others_waiting(
    tree: Tree, enqueuer: Enqueuer, tmp_path: Path
) -> None:
    await Tree.grow(tree.database, tmp_path, "Others")
    await tree.sql("update libraries set rescan_seconds = 60")
    async with tree.database.transaction() as connection:
        await connection.execute("update libraries set is_active = false where slug = $1", tree.slug)
        asking = asyncio.create_task(request_due_scans(tree.database, enqueuer))
        await until_blocked(tree.database)
    assert await asking == 1

"""A scanning process is killed with -9, between batches and within one; the next scan makes it good."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.libraries.scan_model import ScanBusyError
from tests.conftest import wait_until
from tests.libraries.scan_ground import Tree

CONTENT = """
select a.rel_path, a.type, a.mtime_ns, a.size, a.inode, a.shown_at, a.status, f.rel_path as folder,
    a.vanished_at is not null as vanished
from assets a left join library_folders f on f.id = a.folder
where a.library = (select number from libraries where slug = $1) and a.vanished_at is null order by 1
"""
FOLDERS = """
select f.rel_path, f.digest, f.is_mount, p.rel_path as parent
from library_folders f left join library_folders p on p.id = f.parent
where f.library = (select number from libraries where slug = $1) order by 1
"""


@pytest.fixture
async def tree(database: Database, tmp_path: Path) -> Tree:
    tree = await Tree.grow(database, tmp_path)
    tree.write(*(f"{number % 9}/{number % 4}/{number}.jpg" for number in range(150)))
    return tree


@contextmanager
def scanning(tree: Tree) -> Iterator[subprocess.Popen[str]]:
    """A process that scans; killed at the end."""
    words = [sys.executable, "-m", "tests.crash.scan_program", tree.database.url, tree.slug]
    process = subprocess.Popen(
        [*words, str(tree.settings.data_folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)


def let_write(process: subprocess.Popen[str], batches: int) -> None:
    """So many are written; the process waits."""
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(batches):
        assert process.stdout.readline()
        if number < batches - 1:
            process.stdin.write("\n")
            process.stdin.flush()


async def let_time_pass(tree: Tree) -> None:
    await tree.sql("update libraries set scan_beat_at = scan_beat_at - interval '61 seconds'")


async def contents(tree: Tree) -> tuple[list[Any], list[Any]]:
    pool = tree.database.pool
    found = [await pool.fetch(statement, tree.slug) for statement in (CONTENT, FOLDERS)]
    return [tuple(row) for row in found[0]], [tuple(row) for row in found[1]]


async def fresh_contents(tree: Tree) -> tuple[list[Any], list[Any]]:
    """Of a library that never knew anything else."""
    await tree.sql(
        "insert into libraries (slug, name, absolute_path) values ('fresh', 'Fresh', $1)", str(tree.root)
    )
    fresh = Tree(tree.database, tree.settings, tree.root, "fresh")
    await fresh.scan()
    return await contents(fresh)


@pytest.mark.spec("L3")
@pytest.mark.parametrize("batches", [1, 4, 15])
async def test_a_first_scan_that_was_killed_between_batches_ends_as_one_that_was_not(
    tree: Tree, batches: int
) -> None:
    with scanning(tree) as process:
        let_write(process, batches)
        with pytest.raises(ScanBusyError):
            await tree.scan()
    left = await tree.library()
    assert left["scan_status"] == "scanning"
    before = await tree.assets()
    await let_time_pass(tree)
    counts = await tree.scan()
    assert (counts.new, counts.files, counts.changed, counts.renamed) == (150, 150, 0, 0)
    after = await tree.assets()
    assert {path: after[path]["id"] for path in before} == {path: row["id"] for path, row in before.items()}
    assert await contents(tree) == await fresh_contents(tree)


@pytest.mark.spec("L3")
@pytest.mark.parametrize("table", ["assets", "library_folders"])
async def test_a_scan_that_was_killed_within_a_batch_has_written_none_of_it(tree: Tree, table: str) -> None:
    pool = tree.database.pool
    with scanning(tree) as process:
        let_write(process, 3)
        written = len(await tree.assets())
        async with tree.database.transaction() as connection:
            await connection.execute(f"lock table {table} in share mode")
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            waits = f"select 1 from pg_locks where relation = '{table}'::regclass and not granted"
            await wait_until(lambda: pool.fetchrow(waits))
            process.kill()
            process.wait(60)
    await wait_until(lambda: _is_alone(tree))
    assert len(await tree.assets()) == written
    await let_time_pass(tree)
    assert (await tree.scan()).new == 150
    assert await contents(tree) == await fresh_contents(tree)


async def _is_alone(tree: Tree) -> bool:
    """The backend of the killed process has noticed."""
    held = "select 1 from pg_locks where relation = 'assets'::regclass and mode = 'RowExclusiveLock'"
    return await tree.database.pool.fetchrow(held) is None


@pytest.mark.spec("L3")
@pytest.mark.parametrize("batches", [1, 6, 12])
async def test_a_scan_of_a_tree_that_was_turned_over_is_killed_and_made_good(
    tree: Tree, batches: int
) -> None:
    await tree.scan()
    ids = {row["inode"]: row["id"] for row in (await tree.assets()).values()}
    (tree.root / "8").rename(tree.root / "00")
    (tree.root / "0").rename(tree.root / "99")
    shutil.rmtree(tree.root / "3")
    tree.write("1/1/1.jpg", size=77)
    tree.write("5/new.jpg", "n/new.jpg")
    with scanning(tree) as process:
        let_write(process, batches)
    await let_time_pass(tree)
    counts = await tree.scan()
    assert counts.new == 2
    assert counts.changed == 1
    moved = {path.stat().st_ino for name in ("00", "99") for path in (tree.root / name).rglob("*.jpg")}
    assert counts.renamed == len(moved)
    after = {row["inode"]: row["id"] for row in (await tree.assets()).values() if not row["vanished_at"]}
    assert {inode: after[inode] for inode in moved} == {inode: ids[inode] for inode in moved}
    assert await contents(tree) == await fresh_contents(tree)

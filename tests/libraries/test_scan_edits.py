"""Whatever happens to a tree, and wherever scans are cut off: in the end the library is as the tree is."""

from __future__ import annotations

import itertools
import os
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mediamill.db.connection import Database
from mediamill.libraries import scan as scan_module
from mediamill.libraries.scan_model import ScanCounts
from tests.libraries.scan_ground import Tree

FOLDERS = ("", "a", "a/b", "a b", "a/b/c", "é", "z-", "0", "z-/y")
NAMES = ("1.jpg", "2.jpg", "3.mp4", "4.JPG.jpg", os.fsdecode(b"\xff.jpg"), "new\nline.jpg")
EDITS = st.tuples(
    st.sampled_from(
        ["write", "write", "write", "touch", "delete", "drop", "move", "move folder", "scan", "cut"]
    ),
    st.sampled_from(FOLDERS),
    st.sampled_from(NAMES),
    st.sampled_from(FOLDERS),
    st.sampled_from(NAMES),
)
_numbers = itertools.count(1)


class CutOffError(Exception):
    """As if the process had been killed here."""


def edit(tree: Tree, what: str, one: Path, other: Path) -> None:
    if what == "write":
        one.parent.mkdir(parents=True, exist_ok=True)
        one.write_bytes(os.urandom(next(_numbers) % 50))
    elif what == "touch" and one.exists():
        os.utime(one, ns=(1, 10**18 + next(_numbers)))
    elif what == "delete":
        one.unlink(missing_ok=True)
    elif what == "drop" and one.parent != tree.root:
        shutil.rmtree(one.parent, ignore_errors=True)
    elif what == "move" and one.exists():
        other.parent.mkdir(parents=True, exist_ok=True)
        one.rename(other)
    elif what == "move folder" and one.parent != tree.root and one.parent.exists():
        if other.parent.exists() or one.parent in other.parents:
            return
        other.parent.parent.mkdir(parents=True, exist_ok=True)
        one.parent.rename(other.parent)


SILENCE = """
create or replace function say_nothing() returns trigger language plpgsql as 'begin return null; end';
create trigger silence before update on libraries for each row
    when (new.scan_status = 'idle' and new.scanned_at is not distinct from old.scanned_at)
    execute function say_nothing()
"""


async def scan_and_die(tree: Tree, after: int) -> None:
    """A scan that writes so many batches and then is no more; the database hears nothing of its end."""
    left = itertools.count(after, -1)

    def die(_: ScanCounts) -> None:
        if next(left) <= 0:
            raise CutOffError

    await tree.sql(SILENCE)
    with suppress(CutOffError):
        await tree.scan(on_progress=die, accept_empty=True)
    await tree.sql("drop trigger silence on libraries")
    await tree.sql(
        "update libraries set scan_beat_at = now() - interval '2 minutes' where slug = $1", tree.slug
    )


@pytest.mark.spec("L3")
@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # to shrink a failure would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(edits=st.lists(EDITS, min_size=5, max_size=40))
async def test_after_any_edits_and_scans_the_library_is_as_the_tree_is(
    database: Database, tmp_path: Path, edits: list[tuple[str, ...]]
) -> None:
    tree = await Tree.grow(database, tmp_path, f"Tree {next(_numbers)}")
    before, scan_module.BATCH_FOLDERS = scan_module.BATCH_FOLDERS, 2
    try:
        for what, folder, name, other_folder, other_name in edits:
            if what == "scan":
                if (await tree.library())["scan_status"] == "scanning":
                    await tree.scan(accept_empty=True)  # goes on: what it has passed is for the next one
                await tree.scan(accept_empty=True)
                assert await tree.known() == tree.there()
            elif what == "cut":
                await scan_and_die(tree, len(name) % 3)
            else:
                edit(tree, what, tree.root / folder / name, tree.root / other_folder / other_name)
        await tree.scan(accept_empty=True)  # goes on with one that was cut off
        await tree.scan(accept_empty=True)
        assert await tree.known() == tree.there()
        versions = await tree.versions()
        await tree.scan(accept_empty=True)
        assert await tree.versions() == versions
    finally:
        scan_module.BATCH_FOLDERS = before


@pytest.mark.spec("L3")
@pytest.mark.parametrize("batches", range(0, 12, 2))
async def test_a_scan_that_was_cut_off_goes_on_and_does_nothing_twice(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    monkeypatch.setattr(scan_module, "BATCH_FOLDERS", 3)
    tree, chance = await Tree.grow(database, tmp_path), random.Random(batches)
    tree.write(*(f"{chance.choice('abc')}/{number % 7}/{number}.jpg" for number in range(60)))
    await scan_and_die(tree, batches)
    library, before = await tree.library(), await tree.assets()
    assert library["scan_status"] == "scanning"
    counts = await tree.scan()
    assert (counts.new, counts.files) == (60, 60)
    assert await tree.known() == tree.there()
    after = await tree.assets()
    assert {path: after[path]["id"] for path in before} == {path: row["id"] for path, row in before.items()}


@pytest.mark.spec("L3")
async def test_what_moved_across_the_place_where_a_scan_was_cut_off_keeps_its_row(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan_module, "BATCH_FOLDERS", 1)
    tree = await Tree.grow(database, tmp_path)
    tree.write("a/first.jpg", "b/stays.jpg", "c/stays.jpg", "z/last.jpg", "z/stays.jpg", "a/stays.jpg")
    await tree.scan()
    ids = {row["inode"]: row["id"] for row in (await tree.assets()).values()}
    (tree.root / "a/first.jpg").rename(tree.root / "z/was-first.jpg")
    (tree.root / "z/last.jpg").rename(tree.root / "a/was-last.jpg")
    await scan_and_die(tree, 1)
    assert (await tree.library())["scan_at"] is not None
    counts = await tree.scan()
    assert (counts.renamed, counts.new, counts.vanished) == (2, 0, 0)
    assert {row["inode"]: row["id"] for row in (await tree.assets()).values()} == ids

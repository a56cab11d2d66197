"""A scan holds the tree against what is known: new, changed, vanished, back, renamed; and writes nothing else."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asyncpg import DeadlockDetectedError

from mediamill.db.connection import Database
from mediamill.engine.model import Moved
from mediamill.libraries import scan as scan_module
from mediamill.libraries.jobs import give_up
from mediamill.libraries.look import show_library
from mediamill.libraries.model import IMAGE, UnknownLibraryError
from mediamill.libraries.scan_model import (
    LibraryPausedError,
    ScanBusyError,
    ScanCounts,
    ScanLostError,
)
from mediamill.libraries.scan_state import TRIES, again_if_deadlocked
from mediamill.libraries.walk import Listing, walk
from mediamill.media.errors import MissingMediaError
from mediamill.processors.library.source import open_file
from mediamill.settings import Settings
from tests.libraries.scan_ground import ODD_NAMES, Tree, counted

DONE = (
    "update assets set status = 'completed', output = '7-1', tags = '[{\"label\": \"dog\"}]', job_id = null"
)


@pytest.fixture
async def tree(database: Database, tmp_path: Path) -> Tree:
    return await Tree.grow(database, tmp_path)


@pytest.mark.spec("L3")
async def test_a_first_scan_finds_everything_and_all_of_it_waits(tree: Tree) -> None:
    tree.write("a.jpg", "b/c.mp4", "b/d/e.jpg", "b/notes.txt", size=5)
    counts = await tree.scan()
    assert counted(counts) == {"new": 3}
    assert (counts.folders, counts.files, counts.others) == (3, 3, 1)
    assert await tree.known() == tree.there()
    assets, folders = await tree.assets(), await tree.folders()
    assert {row["status"] for row in assets.values()} == {"pending"}
    assert {path: row["type"] for path, row in assets.items()} == {
        "a.jpg": "image",
        "b/c.mp4": "video",
        "b/d/e.jpg": "image",
    }
    for row in assets.values():
        assert abs(row["shown_at"].timestamp() * 1e9 - row["mtime_ns"]) < 2000
        assert row["folder"] == folders[os.path.dirname(row["rel_path"])]["id"]  # noqa: PTH120 - text, no path
    assert folders["b/d"]["parent"] == folders["b"]["id"]
    assert folders["b"]["parent"] == folders[""]["id"]
    library = await tree.library()
    assert (library["scan_status"], library["scan_at"], library["scan_error"]) == ("idle", None, None)
    assert library["scanned_at"] is not None


async def test_what_is_told_of_a_scan_is_counts_and_nothing_else(tree: Tree) -> None:
    tree.write("a.jpg")
    counts = await tree.scan()
    async with tree.database.connection() as connection:
        assert (await show_library(connection, tree.slug))["scan_counts"] == counts.as_dict()


@pytest.mark.spec("L3")
async def test_a_scan_of_an_unchanged_tree_writes_no_row_of_assets_or_folders(tree: Tree) -> None:
    tree.write(*(f"{folder}/{name}.jpg" for folder in range(20) for name in range(10)))
    await tree.scan()
    before = await tree.versions()
    counts = await tree.scan()
    assert counted(counts) == {}
    assert counts.unchanged == counts.files == 200
    assert await tree.versions() == before


@pytest.mark.spec("L3")
async def test_only_what_differs_is_written(tree: Tree) -> None:
    tree.write("a/same.jpg", "a/changed.jpg", "a/gone.jpg", "b/same.jpg")
    await tree.scan()
    await tree.sql(DONE)
    before = {version[0]: version for version in await tree.versions()}
    ids = {path: row["id"] for path, row in (await tree.assets()).items()}
    tree.write("a/changed.jpg", size=9)
    tree.write("a/new.jpg")
    (tree.root / "a/gone.jpg").unlink()
    counts = await tree.scan()
    assert counted(counts) == {"new": 1, "changed": 1, "vanished": 1}
    assets = await tree.assets()
    assert (assets["a/changed.jpg"]["status"], assets["a/changed.jpg"]["size"]) == ("pending", 9)
    assert assets["a/changed.jpg"]["output"] == "7-1"  # shown until there is a newer one
    assert assets["a/gone.jpg"]["vanished_at"] is not None
    assert assets["a/same.jpg"]["status"] == "completed"
    after = {version[0]: version for version in await tree.versions()}
    for path in ("a/same.jpg", "b/same.jpg"):
        assert after[ids[path]] == before[ids[path]]
    assert await tree.known() == tree.there()


@pytest.mark.spec("L3")
async def test_a_file_of_another_time_alone_has_changed_and_its_job_counts_no_more(tree: Tree) -> None:
    tree.write("a.jpg")
    await tree.scan()
    await tree.sql("update assets set status = 'extracting', job_id = 77, retry_count = 3, error = 'so'")
    tree.stamp("a.jpg", 10**18)
    assert counted(await tree.scan()) == {"changed": 1}
    row = (await tree.assets())["a.jpg"]
    assert (row["status"], row["job_id"], row["retry_count"], row["error"]) == ("pending", None, 0, None)


@pytest.mark.spec("L3")
async def test_what_comes_back_unchanged_needs_no_work(tree: Tree, tmp_path: Path) -> None:
    tree.write("a/b/one.jpg", "a/two.jpg", "keep.jpg")
    await tree.scan()
    await tree.sql(DONE)
    (tree.root / "a").rename(tmp_path / "aside")
    assert counted(await tree.scan()) == {"vanished": 2}
    assert set(await tree.folders()) == {""}
    (tmp_path / "aside").rename(tree.root / "a")
    assert counted(await tree.scan()) == {"back": 2}
    assets, folders = await tree.assets(), await tree.folders()
    assert {row["status"] for row in assets.values()} == {"completed"}
    assert assets["a/b/one.jpg"]["folder"] == folders["a/b"]["id"]
    assert await tree.known() == tree.there()
    assert counted(await tree.scan()) == {}


@pytest.mark.spec("L3")
async def test_one_that_failed_while_it_was_away_is_tried_again_when_it_is_back(
    tree: Tree, tmp_path: Path
) -> None:
    tree.write("a.jpg", "keep.jpg")
    await tree.scan()
    await tree.sql("update assets set status = 'extracting', job_id = 5 where rel_path = 'a.jpg'")
    (tree.root / "a.jpg").rename(tmp_path / "aside.jpg")
    await tree.scan()
    gone = (await tree.assets())["a.jpg"]
    assert (gone["status"], gone["job_id"]) == ("pending", None)
    await tree.sql("update assets set status = 'poisoned', retry_count = 6 where rel_path = 'a.jpg'")
    (tmp_path / "aside.jpg").rename(tree.root / "a.jpg")
    assert counted(await tree.scan()) == {"back": 1}
    back = (await tree.assets())["a.jpg"]
    assert (back["status"], back["retry_count"]) == ("pending", 0)


@pytest.mark.spec("L3")
async def test_a_file_that_a_job_did_not_find_is_tried_again_when_a_scan_finds_it(tree: Tree) -> None:
    """A disk inside the library was away for a while: nothing about its folders is other than before."""
    tree.write("a.jpg", "b.jpg")
    await tree.scan()
    missing = _missing(tree.root / "nothing")
    await tree.sql("update assets set status = 'failed', error = 'x', error_code = 'proxy_failed'")
    await tree.sql("update assets set job_id = 5, status = 'pending' where rel_path = 'a.jpg'")
    id_ = (await tree.assets())["a.jpg"]["id"]
    async with tree.database.transaction() as connection:
        moved = Moved(5, IMAGE, "library:1", str(id_), 1, {}, error=missing, reason="permanent")
        await give_up(connection, [moved])
    assert (await tree.assets())["a.jpg"]["status"] == "failed"
    assert counted(await tree.scan()) == {}
    found = await tree.assets()
    assert (found["a.jpg"]["status"], found["a.jpg"]["error"]) == ("pending", None)
    assert found["b.jpg"]["status"] == "failed"


async def test_what_a_job_did_not_find_is_not_tried_again_while_a_disk_may_be_away(
    tree: Tree, tmp_path: Path
) -> None:
    tree.write("disk/a.jpg", "b.jpg")
    await tree.scan()
    await tree.sql("update library_folders set is_mount = true where rel_path = 'disk'")
    await tree.sql(
        "update assets set status = 'failed', error_code = 'file_gone' where rel_path = 'disk/a.jpg'"
    )
    (tree.root / "disk" / "a.jpg").rename(tmp_path / "aside.jpg")
    assert (await tree.scan()).left_alone == 1
    assert (await tree.assets())["disk/a.jpg"]["status"] == "failed"
    (tmp_path / "aside.jpg").rename(tree.root / "disk" / "a.jpg")
    assert (await tree.scan()).left_alone == 0
    assert (await tree.assets())["disk/a.jpg"]["status"] == "pending"


def _missing(path: Path) -> str:
    with pytest.raises(MissingMediaError) as missing, open_file(path):
        pass
    return str(missing.value)


@pytest.mark.spec("L3")
@pytest.mark.parametrize(("old", "new"), [("a/x.jpg", "b/y.jpg"), ("b/x.jpg", "a/y.jpg"), ("x.jpg", "y.jpg")])
async def test_a_renamed_file_keeps_its_row_its_tags_and_its_proxies(tree: Tree, old: str, new: str) -> None:
    tree.write(old, "a/other.jpg", "b/other.jpg")
    await tree.scan()
    await tree.sql(DONE + ", search_vector = findable('a dog runs', tags, rel_path, 'stop')")
    before = (await tree.assets())[old]
    (tree.root / old).rename(tree.root / new)
    assert counted(await tree.scan()) == {"renamed": 1}
    assets, folders = await tree.assets(), await tree.folders()
    assert old not in assets
    row = assets[new]
    assert (row["id"], row["status"], row["output"]) == (before["id"], "completed", "7-1")
    assert row["folder"] == folders[os.path.dirname(new)]["id"]  # noqa: PTH120 - text, no path
    words = row["search_vector"]
    assert "'y'" in words
    assert "'x'" not in words
    assert all(word in words for word in ("'dog'", "'run'", "'stop'"))
    assert await tree.known() == tree.there()
    assert counted(await tree.scan()) == {}


@pytest.mark.spec("L3")
async def test_a_renamed_folder_keeps_all_rows_in_it(tree: Tree) -> None:
    tree.write(*(f"m/{number}/{name}.jpg" for number in range(5) for name in range(4)))
    await tree.scan()
    before = {row["inode"]: row["id"] for row in (await tree.assets()).values()}
    for name in ("z", "b"):  # after, and before
        next(tree.root.iterdir()).rename(tree.root / name)
        assert counted(await tree.scan()) == {"renamed": 20}
        assert {row["inode"]: row["id"] for row in (await tree.assets()).values()} == before
        assert await tree.known() == tree.there()


@pytest.mark.spec("L3")
async def test_what_could_be_either_of_two_files_is_not_taken_for_a_renamed_one(tree: Tree) -> None:
    tree.write("a/x.jpg", "a/stays.jpg")
    await tree.scan()
    (tree.root / "b").mkdir()
    for name in ("one.jpg", "two.jpg"):
        os.link(tree.root / "a/x.jpg", tree.root / "b" / name)
    (tree.root / "a/x.jpg").unlink()
    assert counted(await tree.scan()) == {"new": 2, "vanished": 1}


@pytest.mark.spec("L3")
async def test_names_of_any_bytes_go_into_the_database_and_are_known_again(tree: Tree) -> None:
    tree.write(*(b"odd/" + name for name in ODD_NAMES), *(name + b"/in.jpg" for name in ODD_NAMES))
    counts = await tree.scan()
    assert counted(counts) == {"new": 2 * len(ODD_NAMES)}
    assert await tree.known() == tree.there()
    before = await tree.versions()
    assert counted(await tree.scan()) == {}
    assert await tree.versions() == before
    tree.write(*(b"odd/" + name for name in ODD_NAMES), size=3)
    assert counted(await tree.scan()) == {"changed": len(ODD_NAMES)}


@pytest.mark.spec("L3")
async def test_the_longest_paths_fit_the_database_and_longer_ones_are_told(tree: Tree) -> None:
    chance = os.urandom(4000).hex()
    deep = "/".join(chance[number * 200 : number * 200 + 200] for number in range(15))
    tree.write("/".join(deep.split("/")[:11]) + "/fits.jpg", deep + "/too-long.jpg")
    counts = await tree.scan()
    assert counted(counts) == {"new": 1}
    assert counts.too_long == 1
    assert any("too long" in text for text in counts.warnings)


@pytest.mark.spec("L3")
async def test_times_and_numbers_of_strange_file_systems_go_into_the_database(tree: Tree) -> None:
    tree.write("early.jpg", "late.jpg")
    tree.stamp("early.jpg", -(10**18))
    try:
        os.utime(tree.root / "late.jpg", (2**34, 2**34))
    except OverflowError:
        pytest.skip("this system has no such times")
    assert counted(await tree.scan()) == {"new": 2}
    assert counted(await tree.scan()) == {}


async def test_the_data_folder_inside_a_library_is_no_part_of_it(tree: Tree) -> None:
    tree.settings = Settings(data=tree.root / "data")
    tree.write("own.jpg", "data/libraries/000/preview.jpg")
    assert counted(await tree.scan()) == {"new": 1}


@pytest.mark.spec("L3")
async def test_two_scans_at_once_are_one_scan(tree: Tree) -> None:
    tree.write(*(f"{number}.jpg" for number in range(50)))
    told = await asyncio.gather(*(tree.scan() for _ in range(4)), return_exceptions=True)
    done = [one for one in told if isinstance(one, ScanCounts)]
    assert done
    assert all(isinstance(one, ScanCounts | ScanBusyError) for one in told)
    assert sum(one.new for one in done) == 50
    assert await tree.known() == tree.there()


@pytest.mark.spec("L3")
async def test_a_scan_that_was_taken_over_writes_no_more(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_module, "BATCH_FILES", 5)
    monkeypatch.setattr(scan_module, "BEAT_SECONDS", 3600)  # it is silent
    tree.write(*(f"{folder:03}/{name}.jpg" for folder in range(20) for name in range(5)))
    halfway, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow_walk(*given: Any) -> Iterator[Listing]:
        for number, listing in enumerate(walk(*given)):
            if number == 10:
                loop.call_soon_threadsafe(halfway.set)
                assert go_on.wait(60)
            yield listing

    monkeypatch.setattr(scan_module, "walk", slow_walk)
    slow = asyncio.create_task(tree.scan())
    await halfway.wait()
    monkeypatch.setattr(scan_module, "walk", walk)
    await tree.sql("update libraries set scan_beat_at = now() - interval '61 seconds'")
    other = await tree.scan()
    go_on.set()
    with pytest.raises(ScanLostError):
        await slow
    assert other.new == 100
    assert await tree.known() == tree.there()
    assert (await tree.library())["scan_status"] == "idle"


@pytest.mark.spec("L3")
async def test_a_live_scan_is_not_disturbed_and_the_refusal_says_since_when(tree: Tree) -> None:
    await tree.sql(
        "update libraries set scan_status = 'scanning', scan_beat_at = now(), scan_started_at = '2024-05-06 07:08Z'"
    )
    with pytest.raises(ScanBusyError, match="since 2024-05-06"):
        await tree.scan()


async def test_a_library_that_is_paused_or_in_the_trash_is_not_scanned(tree: Tree) -> None:
    await tree.sql("update libraries set is_active = false")
    with pytest.raises(LibraryPausedError):
        await tree.scan()
    await tree.sql("update libraries set deleted_at = now()")
    with pytest.raises(UnknownLibraryError):
        await tree.scan()


async def test_a_scan_that_is_stopped_leaves_the_library_free(tree: Tree) -> None:
    tree.write("a.jpg")
    started = asyncio.Event()
    scanning = asyncio.create_task(tree.scan(on_progress=lambda _: started.set()))
    await started.wait()
    scanning.cancel()
    await asyncio.gather(scanning, return_exceptions=True)
    assert (await tree.library())["scan_status"] == "idle"
    await tree.scan()
    assert await tree.known() == tree.there()


async def test_scans_are_told_of_as_events(tree: Tree) -> None:
    tree.write("a.jpg")
    await tree.scan()
    rows = await tree.database.pool.fetch(
        "select data ->> 'scan_status' as status from events where topic = 'library.changed' order by id"
    )
    assert [row["status"] for row in rows][-2:] == ["scanning", "idle"]


@pytest.mark.spec("L3")
async def test_another_librarys_rows_are_left_alone(tree: Tree, tmp_path: Path) -> None:
    other = await Tree.grow(tree.database, tmp_path, "Other")
    tree.write("a/one.jpg", "b.jpg")
    other.write("a/one.jpg", "b.jpg")
    await tree.scan()
    await other.scan()
    shutil.rmtree(tree.root / "a")
    assert counted(await tree.scan()) == {"vanished": 1}
    assert await other.known() == other.there()


async def test_a_transaction_that_was_locked_crosswise_is_tried_again_and_not_for_ever() -> None:
    tries = 0

    async def write(lost: int) -> None:
        nonlocal tries
        tries += 1
        if tries <= lost:
            raise DeadlockDetectedError

    await again_if_deadlocked(lambda: write(TRIES - 1))
    assert tries == TRIES
    tries = 0
    with pytest.raises(DeadlockDetectedError):
        await again_if_deadlocked(lambda: write(TRIES))
    assert tries == TRIES

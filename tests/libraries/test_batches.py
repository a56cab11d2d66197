"""However many there are, and wherever one batch ends and the next begins: all are dealt with, each once."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.libraries.collect import Collected, collect_garbage, forget_vanished
from mediamill.libraries.erase import Erased, empty_trash
from mediamill.libraries.invalidate import invalidate_scenes
from mediamill.libraries.retag import let_go_of_outdated_jobs
from tests.libraries.played import Ground, ground
from tests.libraries.scan_ground import Tree, counted

__all__ = ["ground"]


@pytest.mark.spec("L15")
async def test_a_library_is_erased_slice_by_slice(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediamill.libraries.erase.BATCH", 3)
    monkeypatch.setattr("mediamill.libraries.erase.SLICE", 2)
    await ground.library("Others", images=1)
    await ground.library(images=4, videos=3)
    await ground.complete()
    await ground.remove()
    told: list[tuple[int, int, int]] = []
    erased = await empty_trash(
        ground.database,
        on_progress=lambda so_far: told.append((so_far.assets, so_far.moments, so_far.libraries)),
    )
    assert erased == Erased(libraries=1, assets=7, moments=6)
    assert [assets for assets, _, _ in told] == [3, 6, 7, 7]
    assert told[-1] == (7, 6, 1)
    assert await ground.counts("libraries", "assets", "video_scenes", "library_folders") == [1, 1, 0, 1]


@pytest.mark.spec("L16")
async def test_garbage_of_any_amount_goes(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediamill.libraries.collect.BATCH", 2)
    monkeypatch.setattr("mediamill.libraries.collect.VANISHED_BATCH", 2)
    await ground.library(images=5)
    await ground.complete()
    for job in range(5):
        ground.make_folder(7, f"{job + 900}-1")
    await ground.run("update assets set vanished_at = now() - interval '31 days' where id < 5")
    assert await collect_garbage(ground.database, ground.data, 0) == Collected(looked_at=10, folders=5)
    assert await forget_vanished(ground.database, 30) == 4
    assert await collect_garbage(ground.database, ground.data, 0) == Collected(looked_at=5, folders=4)


@pytest.mark.spec("L8")
async def test_videos_of_other_rules_are_all_cut_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.libraries.invalidate.BATCH", 2)
    await ground.library(videos=5)
    await ground.complete()
    await ground.run("update assets set segmentation_version = 'scenes-0'")
    assert await invalidate_scenes(ground.database) == 5
    assert await ground.counts("video_scenes") == [0]
    assert await ground.one("select array_agg(distinct status) from assets") == ["pending"]


@pytest.mark.spec("L10")
async def test_nothing_to_let_go_of_is_nothing(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.feed()
    assert await let_go_of_outdated_jobs(ground.database) == 0
    await ground.run("update libraries set absolute_path = '/elsewhere'")
    assert await let_go_of_outdated_jobs(ground.database) == 2
    assert await ground.one("select count(*) from jobs") == 0
    assert await ground.one("select bool_and(status = 'pending' and job_id is null) from assets")


@pytest.mark.spec("L3")
@pytest.mark.parametrize("files", [1, 1000])
async def test_a_scan_that_writes_often_finds_the_same(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int
) -> None:
    monkeypatch.setattr("mediamill.libraries.scan.BATCH_FILES", files)
    monkeypatch.setattr("mediamill.libraries.scan.BATCH_FOLDERS", 2)
    monkeypatch.setattr("mediamill.libraries.known_folders.PAGE", 2)
    monkeypatch.setattr("mediamill.libraries.renames.AT_ONCE", 1)
    tree = await Tree.grow(database, tmp_path)
    tree.write("a.jpg", *(f"{folder}/{n}.jpg" for folder in ("a", "b/c", "d", "e", "f") for n in range(2)))
    assert counted(await tree.scan()) == {"new": 11}
    assert counted(await tree.scan()) == {}
    for folder in ("b", "d", "e"):
        (tree.root / folder).rename(tree.root / f"moved-{folder}")
    (tree.root / "a.jpg").unlink()
    (tree.root / "f" / "0.jpg").unlink()
    (tree.root / "f" / "1.jpg").unlink()
    (tree.root / "f").rmdir()
    tree.write("z.jpg", size=7)
    counts = await tree.scan()
    assert counted(counts) == {"new": 1, "vanished": 3, "renamed": 6}
    assert (counts.unchanged, counts.files, counts.folders) == (2, 9, 6)
    assert await tree.known() == tree.there()
    assert set(await tree.folders()) == {"", "a", "moved-b", "moved-b/c", "moved-d", "moved-e"}


@pytest.mark.spec("L3")
async def test_whoever_waits_for_a_scan_sees_how_far_it_has_come(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mediamill.libraries.scan.BATCH_FOLDERS", 1)
    monkeypatch.setattr("mediamill.libraries.scan.TELL_SECONDS", 0.0)
    tree = await Tree.grow(database, tmp_path)
    tree.write("a/1.jpg", "b/2.jpg", "c/3.jpg")
    told: list[tuple[int, int]] = []
    await tree.scan(on_progress=lambda counts: told.append((counts.folders, counts.files)))
    assert told == sorted(told)
    assert len(set(told)) > 2
    assert told[-1] == (4, 3)

"""What lies in the data folder: counted by folder, within a time, and what counts against the quota."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from mediamill.staging import usage
from mediamill.staging.usage import FOLDERS, Place, Usage, UsageDesk, disk_room, measure_usage
from mediamill.storage.count import Area, BucketCount

AT = datetime(2026, 11, 18, tzinfo=UTC)


def put(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


def counted(found: Usage) -> dict[str, tuple[int, int, bool]]:
    return {place.name: (place.bytes, place.files, place.complete) for place in found.places}


def test_each_folder_is_counted_with_all_below_it_the_largest_first_and_the_rest_last(tmp_path: Path) -> None:
    put(tmp_path / "videos/1/2/a", 10)
    put(tmp_path / "videos/b", 5)
    put(tmp_path / "kept/001/1/c", 100)
    put(tmp_path / "pending_media/d", 20)
    put(tmp_path / "odd.txt", 1000)
    put(tmp_path / "unheard of/e", 7)
    (tmp_path / "videos/link").symlink_to(tmp_path / "odd.txt")
    (tmp_path / "link").symlink_to(tmp_path / "odd.txt")
    (tmp_path / "kept/folder").symlink_to(tmp_path / "videos")
    found = measure_usage(tmp_path)
    assert list(counted(found).items()) == [
        ("kept", (100, 1, True)),
        ("pending_media", (20, 1, True)),
        ("videos", (15, 2, True)),
        ("rest", (1000, 1, True)),
    ]
    assert found.places[0].words == FOLDERS["kept"]
    assert found.waiting_bytes == 20
    assert found.folder == str(tmp_path)
    assert found.total_bytes >= found.free_bytes > 0
    assert found.as_dict()["places"][3]["name"] == "rest"


def test_these_folders_are_known() -> None:
    assert set(FOLDERS) == {
        *("pending_media", "failed_media", "uploads", "videos", "libraries", "intake", "derivatives", "kept"),
        *("cache", "scratch", "logs", "postgres", "agents", "whatsapp", "tools"),
    }


def test_when_the_time_is_over_what_was_not_counted_says_so(tmp_path: Path) -> None:
    put(tmp_path / "videos/a", 10)
    found = measure_usage(tmp_path, -1.0)
    assert counted(found) == {"videos": (0, 0, False), "rest": (0, 0, True)}


def test_what_cannot_be_looked_at_takes_up_nothing(tmp_path: Path) -> None:
    assert usage._entries(tmp_path / "nowhere") == []
    put(tmp_path / "a", 5)
    (entry,) = usage._entries(tmp_path)
    Path(entry.path).unlink()
    assert usage._size(entry) == 0
    free, total = disk_room(tmp_path / "not" / "there" / "yet")
    assert 0 < free <= total


def test_media_that_wait_count_against_the_quota_wherever_they_lie() -> None:
    here = tuple(
        Place(name, "", size, 1, True)
        for name, size in (("pending_media", 1), ("failed_media", 2), ("kept", 4))
    )
    found = Usage("/", here, 0, 0, AT)
    assert found.waiting_bytes == 3
    assert found.bucket is None
    areas = (Area("pending_media", 1, 1, 10), Area("failed_media", 1, 1, 20), Area("videos", 1, 1, 40))
    assert replace(found, bucket=BucketCount("b", areas=areas)).waiting_bytes == 33


async def test_a_count_is_good_for_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(usage, "time", SimpleNamespace(monotonic=lambda: now[0]))
    put(tmp_path / "kept/a", 10)
    desk = UsageDesk(tmp_path)
    assert (await desk.usage()).places[0].bytes == 10
    put(tmp_path / "kept/a", 20)
    now[0] += 60
    first = await desk.usage()
    assert (first.places[0].bytes, first.bucket) == (10, None)
    now[0] += 0.5
    assert (await desk.usage()).places[0].bytes == 20

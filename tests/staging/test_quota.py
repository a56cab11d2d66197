"""Room for media that wait: counted, reserved, measured now and then."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mediamill.staging import failed_folder, quota, staging_folder
from mediamill.staging.quota import GIGABYTE, StagingRoom, StorageFullError, StorageUnknownError, limit_bytes


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often the folders were looked at."""
    counted: list[int] = []
    measure = quota._size_of

    def count(*args: object) -> int:
        counted.append(1)
        return measure(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(quota, "_size_of", count)
    return counted


def put(folder: Path, name: str, size: int) -> Path:
    folder.mkdir(exist_ok=True)
    with (folder / name).open("wb") as file:
        os.truncate(file.fileno(), size)
    return folder / name


@pytest.mark.spec("C21")
@pytest.mark.parametrize(("quota_gb", "limit"), [(25, 23), (3, 1), (2.5, 1), (0.1, 1), (100, 98)])
def test_writing_stops_two_gigabytes_below_the_quota_but_never_below_one(quota_gb: float, limit: int) -> None:
    assert limit_bytes(quota_gb) == limit * GIGABYTE


@pytest.mark.spec("C21")
async def test_the_folders_are_not_walked_for_every_message(tmp_path: Path, looks: list[int]) -> None:
    room = StagingRoom(tmp_path)
    for number in range(200):
        async with room.reserve(f"g-{number}", 10, 10_000) as reservation:
            reservation.kept_bytes = 10
    assert (len(looks), room.used_bytes) == (1, 2_000)


@pytest.mark.spec("C21")
async def test_promised_room_is_taken_until_it_is_given_back(tmp_path: Path) -> None:
    room = StagingRoom(tmp_path)
    async with room.reserve("a", 600, 1_000):
        with pytest.raises(StorageFullError):
            async with room.reserve("b", 500, 1_000):
                raise AssertionError
        async with room.reserve("c", 400, 1_000):
            assert room.used_bytes == 1_000
    assert room.used_bytes == 0


@pytest.mark.spec("C21")
async def test_waiting_and_failed_media_count_together(tmp_path: Path) -> None:
    put(staging_folder(tmp_path), "a", 300)
    put(failed_folder(tmp_path), "b", 200)
    room = StagingRoom(tmp_path)
    await room.measure()
    assert room.used_bytes == 500


@pytest.mark.spec("C21")
async def test_a_no_is_only_said_after_another_look(
    tmp_path: Path, looks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "MEASURE_AGAIN_SECONDS", 0.0)
    done = put(staging_folder(tmp_path), "done", 900)
    room = StagingRoom(tmp_path)
    await room.measure()
    done.unlink()  # a worker is through with it
    async with room.reserve("next", 900, 1_000):
        assert len(looks) == 2


@pytest.mark.spec("C21")
async def test_a_file_being_written_counts_by_its_reservation_only(tmp_path: Path) -> None:
    room = StagingRoom(tmp_path)
    async with room.reserve("g", 800, 1_000) as reservation:
        part = put(staging_folder(tmp_path), "g.part", 500)
        await room.measure()
        assert room.used_bytes == 800
        part.rename(part.with_suffix(""))
        reservation.kept_bytes = 800
    assert room.used_bytes == 800
    other = put(staging_folder(tmp_path), "other.part", 50)  # of a bridge: nobody else counts it here
    await room.measure()
    assert room.used_bytes == 500 + 50
    other.unlink()


@pytest.mark.spec("C21")
async def test_what_cannot_be_measured_is_refused_until_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quota, "MEASURE_AGAIN_SECONDS", 0.0)
    failed_folder(tmp_path).write_text("no folder")
    room = StagingRoom(tmp_path)
    with pytest.raises(StorageUnknownError):
        async with room.reserve("g", 1, 1_000):
            raise AssertionError
    assert room.used_bytes is None
    failed_folder(tmp_path).unlink()
    async with room.reserve("g", 1, 1_000):
        assert room.used_bytes == 1


async def test_those_who_ask_at_the_same_time_share_one_look(tmp_path: Path, looks: list[int]) -> None:
    room = StagingRoom(tmp_path)
    await asyncio.gather(*(room.measure() for _ in range(20)))
    assert len(looks) <= 2

"""Where room ends, to the byte and to the second; and the codes that those who send go by."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mediamill.db.connection import Database
from mediamill.errors import MediamillError
from mediamill.staging import derivatives, quota, staging_folder
from mediamill.staging.derivatives import home_of, keep_files, sweep_derivatives
from mediamill.staging.inputs import end_input, fetch_input, find_input
from mediamill.staging.kept import NewKept, keep_file, list_kept, sweep_kept
from mediamill.staging.put import put_chunks
from mediamill.staging.quota import StagingRoom
from mediamill.staging.received import Received, check_hash, derivative_name, receive
from mediamill.storage.deletions import hold_deletions
from tests.staging.keeping import DATA, JOB, claim, new


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for piece in given:
        yield piece


def put(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        os.truncate(file.fileno(), size)
    return path


@pytest.mark.spec("C21")
async def test_the_last_byte_of_the_room_can_be_promised_and_the_next_cannot(tmp_path: Path) -> None:
    put(staging_folder(tmp_path) / "there", 300)
    room = StagingRoom(tmp_path)
    async with room.reserve("a", 100, 1_000) as reservation:
        await reservation.grow(600)
        await reservation.grow(0)
        await reservation.grow(-5)
        assert (reservation.bytes, room.used_bytes) == (700, 1_000)
        with pytest.raises(MediamillError, match="take up 1000 bytes, and no more than 1000 may be") as full:
            await reservation.grow(1)
        assert (full.value.code, "media_storage_quota_gb" in (full.value.fix or "")) == ("storage_full", True)
        reservation.kept_bytes = 650
    assert room.used_bytes == 950
    async with room.reserve("b", 50, 1_000):
        pass
    assert room.used_bytes == 950, "what vanished takes up nothing"


@pytest.mark.spec("C21")
async def test_the_folders_are_looked_at_after_a_minute_and_for_a_no_after_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(quota, "time", SimpleNamespace(monotonic=lambda: now[0]))
    room = StagingRoom(tmp_path)

    async def fits(size: int) -> bool:
        try:
            async with room.reserve("g", size, 1_000):
                return True
        except MediamillError:
            return False

    assert await fits(1_000)
    there = put(staging_folder(tmp_path) / "there", 900)
    now[0] += 60
    assert await fits(1_000), "it is not looked for yet"
    now[0] += 0.1
    assert not await fits(1_000)
    there.unlink()
    now[0] += 1
    assert not await fits(1_000)
    now[0] += 0.1
    assert await fits(1_000)


@pytest.mark.spec("C21")
async def test_what_lies_elsewhere_counts_and_a_database_that_does_not_answer_leaves_no_room(
    tmp_path: Path,
) -> None:
    says: list[int | Exception] = [400, *[ConnectionResetError("cut off")] * 2, 500]

    async def elsewhere() -> int:
        said = says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    put(staging_folder(tmp_path) / "there", 7)
    put(staging_folder(tmp_path) / "link's end", 0)
    (staging_folder(tmp_path) / "link").symlink_to(staging_folder(tmp_path) / "there")
    (staging_folder(tmp_path) / "folder").mkdir()
    room = StagingRoom(tmp_path, elsewhere)
    assert room.used_bytes is None
    await room.measure()
    assert room.used_bytes == 407
    await room.measure()
    assert room.used_bytes is None
    with pytest.raises(MediamillError) as unknown:
        async with room.reserve("g", 1, 1_000):
            raise AssertionError
    assert (unknown.value.code, bool(unknown.value.fix)) == ("storage_unknown", True)
    await room.measure()
    assert room.used_bytes == 507


@pytest.mark.spec("C21")
async def test_a_file_that_ends_while_the_folders_are_looked_at_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = StagingRoom(tmp_path)
    await room.measure()
    looking, go_on = asyncio.Event(), asyncio.Event()

    async def elsewhere() -> int:
        looking.set()
        await go_on.wait()
        return 0

    room._elsewhere = elsewhere
    async with room.reserve("before", 100, 1_000) as reservation:
        reservation.kept_bytes = 100
    measuring = asyncio.create_task(room.measure())
    await looking.wait()
    async with room.reserve("meanwhile", 30, 1_000) as reservation:
        reservation.kept_bytes = 30
    go_on.set()
    await measuring
    assert room.used_bytes == 30, "the one before was not there to be seen, the other may not have been"


async def test_whoever_sends_too_much_or_nothing_is_told_so_by_a_code(tmp_path: Path) -> None:
    came = Received(tmp_path / "x", 1, "ab" * 32)

    async def stage(*given: bytes, **more: Any) -> None:
        limits = {"quota_bytes": 10_000, "limit_bytes": 10, **more}
        await put_chunks(tmp_path, "g", pieces(*given), StagingRoom(tmp_path), **limits)

    async def take(*given: bytes) -> None:
        async with receive(tmp_path / "part", pieces(*given), limit_bytes=10):
            pass

    async def do(verb: Callable[[], object]) -> None:
        verb()

    refused: dict[str, tuple[Callable[[], Awaitable[None]], str, str]] = {
        "too large": (lambda: stage(bytes(11)), "upload_too_large", "MEDIAMILL_UPLOAD_LIMIT_BYTES"),
        "announced too large": (
            lambda: stage(b"x", announced_bytes=11),
            "upload_too_large",
            "may have 10 bytes",
        ),
        "empty": (lambda: stage(), "empty_upload", "the bytes of the file as the body"),
        "too large for a worker": (
            lambda: take(bytes(11)),
            "file_too_large",
            "MEDIAMILL_WORKER_FILE_LIMIT_BYTES",
        ),
        "other bytes": (lambda: do(lambda: check_hash(came, "00")), "hash_mismatch", "send it again"),
        "a bad name": (lambda: do(lambda: derivative_name(JOB, "../a")), "bad_file_name", "'../a'"),
        "a bad reference": (
            lambda: do(lambda: find_input(tmp_path, {"file": 7})),
            "bad_file_reference",
            "must be",
        ),
    }
    found = {}
    for name, (call, _, words) in refused.items():
        with pytest.raises(MediamillError) as error:
            await call()
        said = f"{error.value.message}: {error.value.fix}"
        found[name] = (error.value.code, words if words in said else said)
    assert found == {name: (code, words) for name, (_, code, words) in refused.items()}
    await stage(bytes(10), announced_bytes=10)
    assert (staging_folder(tmp_path) / "g").stat().st_mode & 0o777 == 0o600


async def test_a_staged_file_that_ended_goes_wherever_it_is_unless_a_backup_is_made(
    database: Database, tmp_path: Path
) -> None:
    def there() -> list[str]:
        return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*_media/*"))

    for folder in ("pending_media", "failed_media"):
        for guid in ("g", "h"):
            put(tmp_path / folder / guid, 1)
    with hold_deletions(tmp_path):
        await end_input(database, tmp_path, {"file": {"staged": "g"}}, keep=False)
    assert len(there()) == 4
    await end_input(database, tmp_path, {"file": {"staged": "g"}}, keep=False)
    assert there() == ["failed_media/h", "pending_media/h"]
    for other in ({}, {"file": {"staged": "../h"}}, {"file": {"path": str(tmp_path / "pending_media/h")}}):
        await end_input(database, tmp_path, other, keep=False)
    assert there() == ["failed_media/h", "pending_media/h"]
    await end_input(database, tmp_path, {"file": {"staged": "h"}}, keep=True)
    assert there() == ["failed_media/h"]


async def test_however_many_folders_are_left_they_go_batch_by_batch(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derivatives, "BATCH", 2)
    monkeypatch.setattr("mediamill.staging.kept.BATCH", 2)
    scratch = tmp_path / "scratch"
    for number in range(5):
        scratch.mkdir(exist_ok=True)
        (scratch / "a").write_bytes(DATA)
        lost = replace(JOB, id=1_000 * number)
        await keep_files(database, tmp_path, lost, scratch, {"a": "a"})
        os.utime(tmp_path / str(home_of(lost)), (0, 0))
        kept = tmp_path / f"kept/000/{1_000 * (number + 1)}"
        kept.mkdir(parents=True)
        os.utime(kept, (0, 0))
    strange = tmp_path / "derivatives/000/strange"
    strange.mkdir()
    os.utime(strange, (0, 0))
    assert await sweep_derivatives(database, tmp_path) == 5
    with hold_deletions(tmp_path):
        assert await sweep_kept(database, tmp_path) == 0
    assert await sweep_kept(database, tmp_path) == 5
    assert [path.name for path in (tmp_path / "derivatives/000").iterdir()] == ["strange"]


async def test_a_file_that_is_kept_again_takes_the_place_of_the_first(
    database: Database, tmp_path: Path
) -> None:
    (job,) = await claim(database, 1)
    await keep_file(database, tmp_path, job, new(tmp_path, job, facts={"at": 1}), 60)
    other: NewKept = new(tmp_path, job, facts={"at": 2})
    other.path.write_bytes(b"other content")
    other = replace(other, bytes=13, sha256="00" * 32)
    await keep_file(database, tmp_path, job, other, 60)
    async with database.connection() as connection:
        (one,) = await list_kept(connection, tmp_path, job.id)
        assert (one.bytes, one.sha256, dict(one.facts)) == (13, "00" * 32, {"at": 2})
        assert json.loads(await connection.fetchval("select facts::text from kept_files")) == {"at": 2}
    age = tmp_path / "kept" / f"{job.id % 1000:03}" / str(job.id)
    os.utime(age, (0, 0))
    assert await sweep_kept(database, tmp_path) == 0, "its job may still be tried"


async def test_a_staged_file_is_whole_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        synced.append((path.name, os.fstat(descriptor).st_size if path.is_file() else 0))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    await put_chunks(
        tmp_path, "g", pieces(b"x" * 1_000), StagingRoom(tmp_path), quota_bytes=10_000, limit_bytes=10_000
    )
    assert synced == [("g.part", 1_000), ("pending_media", 0)]


async def test_a_file_of_this_machine_is_fetched_from_where_it_lies(
    database: Database, tmp_path: Path
) -> None:
    stored = put(tmp_path / "kept/001/1/a.mp4", 1)
    staged = put(staging_folder(tmp_path) / "g", 1)
    elsewhere = put(tmp_path / "elsewhere/b", 1)
    for file, path in (
        ({"stored": "kept/001/1/a.mp4"}, stored),
        ({"data": "kept/001/1/a.mp4"}, stored),
        ({"data": "kept/001/1", "files": ["a.mp4"]}, stored.parent),
        ({"staged": "g"}, staged),
        ({"staged": "gone"}, staging_folder(tmp_path) / "gone"),
        ({"path": str(elsewhere)}, elsewhere),
        ({"root": str(elsewhere.parent), "inside": "b"}, elsewhere),
    ):
        assert await fetch_input(database, tmp_path, {"file": file}) == path
    assert await fetch_input(database, tmp_path, {}) is None
    for bad in ({"stored": "kept/001/1/none"}, {"data": "kept/001/1", "files": ["../a"]}, {"staged": "../g"}):
        with pytest.raises(MediamillError):
            await fetch_input(database, tmp_path, {"file": bad})

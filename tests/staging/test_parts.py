"""Parts of uploads in the data folder, and the words by which programs know what staging refuses."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import pytest

from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.staging import append as append_file
from mediamill.staging import failed, inputs, kept, move, put, quota, received, resumable
from mediamill.staging.append import check_room, new_hash
from mediamill.staging.choose_parts import parts_of
from mediamill.staging.failed import _beyond_room, put_aside
from mediamill.staging.file_names import FIRST, shown, to_bytes, to_text
from mediamill.staging.parts import FolderParts
from mediamill.staging.quota import StagingRoom, StorageFullError
from mediamill.staging.resumable import PartFacts, PartMissingError, UploadLockedError


async def chunks(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def test_a_part_gathers_is_known_by_its_content_and_becomes_a_stored_file(
    tmp_path: Path, database: Database
) -> None:
    parts, upload_id = parts_of(database, Settings(data=tmp_path)), uuid4()
    assert isinstance(parts, FolderParts)
    assert await parts.facts(upload_id, "videos/1/source") is None
    with pytest.raises(PartMissingError):
        async with parts.hold(upload_id, "videos/1/source"):
            pass
    await parts.create(upload_id)
    async with parts.hold(upload_id, "videos/1/source") as part:
        with pytest.raises(UploadLockedError):
            async with parts.hold(upload_id, "videos/1/source"):
                pass
        part.check_room(1)
        with pytest.raises(StorageFullError):
            part.check_room(1 << 60)
        assert await part.append(chunks(b"%PDF-1.4\n"), offset=0, length=9, checksum=None) == 9
        assert part.size == 9
        assert (await part.sniff()).mime_type == "application/pdf"
        facts = await parts.facts(upload_id, "videos/1/source")
        assert isinstance(facts, PartFacts)
        assert facts.size == 9
        await part.move("videos/1/source")
    assert (tmp_path / "videos" / "1").stat().st_mode & 0o777 == 0o700
    async with database.connection() as connection:
        assert not await parts.has_moved(connection, "videos/1/source")
    stored = await parts.sniff_stored("videos/1/source")
    assert stored is not None
    assert stored.mime_type == "application/pdf"
    assert await parts.sniff_stored("videos/2/source") is None
    assert await parts.facts(upload_id, "videos/1/source") is None
    await parts.create(upload_id)
    async with parts.hold(upload_id, "x") as part:
        await part.delete()
    assert await parts.facts(upload_id, "x") is None


def test_a_checksum_of_twenty_bytes_is_of_sha1_and_any_other_of_sha256() -> None:
    assert new_hash(hashlib.sha1(b"").digest()).name == "sha1"
    assert [new_hash(given).name for given in (None, b"1" * 32, b"1" * 21)] == ["sha256"] * 3


def test_a_quarter_of_a_gigabyte_stays_free_beside_an_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Facts:
        f_bavail, f_frsize = 70, 4 * 1024**2

    monkeypatch.setattr(os, "statvfs", lambda _: Facts)
    check_room(tmp_path, 24 * 1024**2)
    with pytest.raises(StorageFullError, match=f"and {24 * 1024**2} fit on the disk"):
        check_room(tmp_path, 24 * 1024**2 + 1)
    Facts.f_bavail = 0
    with pytest.raises(StorageFullError, match="and 0 fit on the disk"):
        check_room(tmp_path, 0)


def test_programs_know_a_refusal_of_staging_by_its_code() -> None:
    modules = (inputs, kept, move, put, quota, received, resumable)
    errors = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    found = {
        one.code for one in errors if one.__module__.startswith("mediamill.staging") and hasattr(one, "code")
    }
    assert found == {
        *("bad_file_reference", "stored_file_away", "library_away", "bad_file_name", "bad_kept_file"),
        *("cannot_keep", "still_running", "no_bucket", "upload_too_large", "empty_upload", "storage_full"),
        *("storage_unknown", "file_too_large", "hash_mismatch", "bad_result_files", "unknown_upload"),
        *(
            "odd_upload",
            "upload_locked",
            "offset_mismatch",
            "beyond_length",
            "checksum_mismatch",
            "disk_failed",
        ),
    }


def test_failed_media_may_take_up_two_gigabytes_and_the_oldest_go_first(tmp_path: Path) -> None:
    assert failed.MOST_BYTES == 2 * 1024**3
    paths = []
    for number in range(4):
        paths.append(tmp_path / f"f{number}")
        paths[-1].write_bytes(bytes(10))
        os.utime(paths[-1], ns=(number, number))
    assert _beyond_room(tmp_path, 40) == []
    assert _beyond_room(tmp_path, 39) == paths[:1]
    assert _beyond_room(tmp_path, 15) == paths[:3]


def test_what_is_put_aside_counts_from_now_on_and_what_is_gone_is_no_fault(tmp_path: Path) -> None:
    staged = tmp_path / "pending_media/g"
    staged.parent.mkdir()
    staged.write_bytes(b"a")
    os.utime(staged, (0, 0))
    put_aside(tmp_path, "g")
    aside = tmp_path / "failed_media/g"
    assert aside.stat().st_mtime > 1_000_000
    assert aside.parent.stat().st_mode & 0o777 == 0o700
    os.utime(aside, (0, 0))
    put_aside(tmp_path, "g")
    assert (aside.read_bytes(), aside.stat().st_mtime > 1_000_000) == (b"a", True)
    put_aside(tmp_path, "nothing")


@pytest.mark.parametrize("seconds", [60.5, 1.5])
async def test_a_count_of_the_room_is_trusted_for_a_minute_and_a_no_for_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    now = [1000.0]
    monkeypatch.setattr(quota, "time", SimpleNamespace(monotonic=lambda: now[0]))
    room, folder = StagingRoom(tmp_path), tmp_path / "pending_media"
    folder.mkdir()
    (folder / "a").write_bytes(bytes(80))
    await room.take(10, 100)
    assert room.used_bytes == 90
    (folder / "a").unlink()
    now[0] += seconds - 1
    if seconds > 60:
        await room.take(5, 100)
        assert room.used_bytes == 95, "the count is still trusted"
        now[0] += 1
        await room.take(5, 100)
        assert room.used_bytes == 20
    else:
        with pytest.raises(StorageFullError, match="take up 90 bytes, and no more than 100"):
            await room.take(11, 100)
        now[0] += 1
        await room.take(11, 100)
        assert room.used_bytes == 21


def test_links_and_folders_take_up_no_room_and_what_is_written_counts_as_promised(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10))
    (tmp_path / "b.part").write_bytes(bytes(20))
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert quota._size_of([tmp_path, tmp_path / "nowhere", tmp_path], {"b.part"}) == 20
    assert quota._size_of([tmp_path], ()) == 30


def test_a_byte_that_is_no_text_is_a_character_of_the_last_plane() -> None:
    assert FIRST == 0x10FF00
    assert to_text(b"a\xffb") == f"a{chr(0x10FFFF)}b"
    assert to_bytes(f"a{chr(0x10FF80)}b") == b"a\x80b"
    real = chr(0x10FF41)
    assert to_text(real.encode()) == "".join(chr(0x10FF00 + byte) for byte in real.encode())
    assert shown(f"a{chr(0x10FFFF)}\x1b\u202e") == "a\ufffd\\x1b\\u202e"


def upload(folder: Path) -> UUID:
    upload_id = uuid4()
    resumable._create(resumable.part_path(folder, upload_id))
    return upload_id


async def test_small_pieces_are_written_together_and_a_part_that_moves_is_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    writev = os.writev

    def count(descriptor: int, pieces: Any) -> int:
        written.append(len(pieces))
        return writev(descriptor, pieces)

    monkeypatch.setattr(os, "writev", count)
    upload_id = upload(tmp_path)
    with resumable.hold_part(tmp_path, upload_id) as part:
        size = await append_file.append(part, chunks(*[b"x"] * 2_500), offset=0, length=2_500)
    assert (size, written) == (2_500, [1_000, 1_000, 500])
    written.clear()
    with resumable.hold_part(tmp_path, upload_id) as part:
        half = bytes(1 << 19)
        await append_file.append(part, chunks(half, half, half), offset=2_500, length=10_000_000)
    assert written == [2, 1], "a megabyte at a time"

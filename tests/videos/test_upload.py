"""From a part file to a video: once, whatever breaks off where, and whoever else is at it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.errors import MediamillError
from mediamill.settings import Settings
from mediamill.staging.put import EmptyUploadError, UploadTooLargeError
from mediamill.staging.quota import StorageFullError
from mediamill.staging.resumable import (
    BeyondLengthError,
    ChecksumMismatchError,
    OffsetMismatchError,
    Part,
    PartMissingError,
    UploadLockedError,
    hold_part,
    part_path,
)
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from mediamill.videos import upload as upload_module
from mediamill.videos.jobs import video_kinds
from mediamill.videos.model import BadVideoFactsError, source_name
from mediamill.videos.trash import delete_video, erase_video, restore_video
from mediamill.videos.upload import NotAVideoError, Upload, Uploads
from mediamill.videos.upload_sweep import ORPHAN_SECONDS, finish_uploads
from tests.storage.s3_server import S3Server, bucket, s3_server

__all__ = ["bucket", "s3_server"]

FILM = b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom" + bytes(range(256)) * 800  # what its head says is enough here
NOTE = b"Dear diary, today I filmed nothing.\n" * 4000


async def chunks(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


class Bench:
    """Uploads on a fresh database and folder."""

    def __init__(self, database: Database, folder: Path, **settings: Any) -> None:
        self.folder, self.database = folder, database
        chosen = Settings.model_validate({"data": folder, **settings})
        self.storage = storage_of(chosen)
        self.uploads = Uploads(database, Enqueuer(Kinds(video_kinds(chosen))), chosen)

    async def rows(self, sql: str, *args: Any) -> list[Any]:
        async with self.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(sql, *args)]

    async def begin(self, content: bytes = FILM, **metadata: str) -> Upload:
        return await self.uploads.create(len(content), metadata)

    async def send(self, upload_id: UUID, content: bytes = FILM, offset: int = 0) -> Upload:
        return await self.uploads.append(upload_id, offset, chunks(content))

    def source(self, upload_id: UUID) -> Path:
        return self.folder / "videos" / str(upload_id) / "source"

    async def has_source(self, upload_id: UUID) -> bool:
        opened = await self.storage.open(self.database, f"videos/{upload_id}/source")
        if opened is not None:
            opened.close()
        return opened is not None

    async def content(self, upload_id: UUID) -> bytes:
        return (await self.storage.find(self.database, f"videos/{upload_id}/source")).read_bytes()

    async def parts(self) -> list[str]:
        if isinstance(self.storage, BucketStorage):
            rows = await self.rows(
                "select distinct substr(name, 9) from stored_pieces where name like 'uploads/%'"
            )
            return [name for (name,) in rows]
        return sorted(path.name for path in (self.folder / "uploads").glob("*"))

    async def assert_one_video(self, upload_id: UUID) -> None:
        assert await self.rows("select id, state from videos") == [(upload_id, "pending")]
        assert await self.rows("select subject_id from jobs") == [(str(upload_id),)]
        assert await self.rows("select count(*) from uploads where finished_at is not null") == [(1,)]
        assert await self.content(upload_id) == FILM
        assert await self.parts() == []

    async def assert_nothing(self) -> None:
        for table in ("videos", "jobs", "uploads"):
            assert await self.rows(f"select 1 from {table}") == []
        assert await self.parts() == []


@pytest.fixture
def bench(request: pytest.FixtureRequest, database: Database, tmp_path: Path) -> Bench:
    """Into the data folder; or, where a test asks for both, into a bucket."""
    if getattr(request, "param", "folder") == "folder":
        return Bench(database, tmp_path)
    server: S3Server = request.getfixturevalue("s3_server")
    given = server.settings(tmp_path, request.getfixturevalue("bucket")).model_dump()
    return Bench(database, tmp_path, **{name: given[name] for name in given if name.startswith("bucket")})


both = pytest.mark.parametrize("bench", ["folder", "bucket"], indirect=True)


@pytest.mark.spec("V1")
@both
async def test_an_upload_becomes_a_pending_video_with_its_job(bench: Bench) -> None:
    said = {"filename": "C:\\Films\\My_Film.mp4", "description": "sea\nand sky", "category": "trips"}
    begun = await bench.begin(FILM, **said)
    assert (begun.offset, begun.bytes, begun.finished) == (0, len(FILM), False)
    half = await bench.send(begun.id, FILM[:1000])
    assert (half.offset, half.finished) == (1000, False)
    done = await bench.send(begun.id, FILM[1000:], 1000)
    assert (done.id, done.offset, done.finished) == (begun.id, len(FILM), True)
    await bench.assert_one_video(begun.id)
    [(title, description, category, name, size, mime)] = await bench.rows(
        "select title, description, category, source_name, source_bytes, mime_type from videos"
    )
    assert (title, description, category) == ("My Film", "sea\nand sky", "trips")
    assert (name, size, mime) == ("My_Film.mp4", len(FILM), "video/mp4")
    [(payload,)] = await bench.rows("select payload from jobs")
    assert json.loads(payload)["file"] == {"data": f"videos/{begun.id}/source"}


@both
async def test_whoever_did_not_hear_the_end_can_ask_again(bench: Bench) -> None:
    begun = await bench.begin()
    await bench.send(begun.id)
    assert (await bench.uploads.show(begun.id)).finished
    assert (await bench.send(begun.id, b"", len(FILM))).finished
    with pytest.raises(OffsetMismatchError):
        await bench.send(begun.id)
    await bench.assert_one_video(begun.id)


@pytest.mark.spec("V1")
@both
async def test_the_same_fingerprint_goes_on_with_the_same_upload(bench: Bench) -> None:
    first = await bench.begin(fingerprint="f", title="first")
    await bench.send(first.id, FILM[:700])
    again = await bench.begin(fingerprint="f", title="second")
    assert (again.id, again.offset) == (first.id, 700)
    assert again.metadata["title"] == "second"
    assert (await bench.begin(FILM + b"more", fingerprint="f")).id != first.id  # another file
    assert (await bench.begin(fingerprint="g")).id != first.id
    assert (await bench.begin()).id != (await bench.begin()).id  # without one, always a new one


@pytest.mark.spec("V1")
@both
async def test_whoever_begins_again_without_having_heard_the_end_is_given_the_video(bench: Bench) -> None:
    first = await bench.begin(fingerprint="f", title="first")
    await bench.send(first.id)
    again = await bench.begin(fingerprint="f", title="second")
    assert (again.id, again.offset, again.finished) == (first.id, len(FILM), True)
    assert again.metadata["title"] == "first"  # as the video has it
    assert (await bench.begin(FILM + b"more", fingerprint="f")).id != first.id  # another file
    await bench.rows("delete from uploads where finished_at is null returning 1")
    assert await bench.rows("select title from videos") == [("first",)]
    assert await bench.rows("select count(*) from jobs") == [(1,)]


@pytest.mark.spec("V1")
@both
async def test_whoever_heard_the_end_and_begins_again_means_another_video(bench: Bench) -> None:
    first = await bench.begin(fingerprint="f")
    await bench.send(first.id)
    await bench.uploads.terminate(first.id)
    second = await bench.begin(fingerprint="f")
    assert (second.id == first.id, second.offset, second.finished) == (False, 0, False)
    await bench.uploads.terminate(first.id)  # said twice, of the same one
    assert (await bench.begin(fingerprint="f")).id == second.id
    await bench.send(second.id)
    assert await bench.rows("select count(*) from videos") == [(2,)]


async def test_a_video_in_the_trash_is_not_what_somebody_means_who_begins_again(bench: Bench) -> None:
    first = await bench.begin(fingerprint="f")
    await bench.send(first.id)
    async with bench.database.transaction() as connection:
        await delete_video(connection, first.id)
    second = await bench.begin(fingerprint="f")
    assert (second.id == first.id, second.finished) == (False, False)
    await bench.send(second.id)
    async with bench.database.transaction() as connection:
        await restore_video(connection, first.id)
    assert (await bench.begin(fingerprint="f")).id == second.id


async def test_nor_is_one_that_was_erased_or_whose_time_is_over(bench: Bench) -> None:
    erased = await bench.begin(fingerprint="f")
    await bench.send(erased.id)
    async with bench.database.transaction() as connection:
        await delete_video(connection, erased.id)
        await erase_video(connection, bench.uploads.settings.data_folder, erased.id)
    old = await bench.begin(fingerprint="f")
    assert old.id != erased.id
    await bench.send(old.id)
    await bench.rows("update uploads set expires_at = now() - interval '1 second' returning 1")
    assert (await bench.begin(fingerprint="f")).id not in (erased.id, old.id)


async def test_being_found_again_does_not_put_off_when_a_finished_upload_is_forgotten(bench: Bench) -> None:
    """Or whoever sends the same file every day, and never says that it heard, would get one video for ever."""
    first = await bench.begin(fingerprint="f")
    done = await bench.send(first.id)
    assert (await bench.begin(fingerprint="f")).expires_at == done.expires_at


async def test_two_that_begin_at_once_with_one_fingerprint_get_one_upload(bench: Bench) -> None:
    begun = await asyncio.gather(*(bench.begin(fingerprint="f", title=str(n)) for n in range(10)))
    assert len({upload.id for upload in begun}) == 1
    assert await bench.parts() == [str(begun[0].id)]


@pytest.mark.parametrize(
    ("length", "metadata", "error"),
    [
        (0, {}, EmptyUploadError),
        (10**6 + 1, {}, UploadTooLargeError),
        (5, {"title": "x" * 201}, BadVideoFactsError),
        (5, {"description": "x" * 10_001}, BadVideoFactsError),
    ],
)
async def test_what_cannot_be_is_refused_before_it_comes(
    database: Database, tmp_path: Path, length: int, metadata: dict[str, str], error: type[Exception]
) -> None:
    bench = Bench(database, tmp_path, video_upload_limit_bytes=10**6)
    with pytest.raises(error):
        await bench.uploads.create(length, metadata)
    await bench.assert_nothing()


async def test_what_would_not_fit_on_the_disk_is_refused(database: Database, tmp_path: Path) -> None:
    bench = Bench(database, tmp_path, video_upload_limit_bytes=2**62)
    with pytest.raises(StorageFullError):
        await bench.uploads.create(2**61, {"fingerprint": "f"})
    await bench.assert_nothing()


@both
async def test_more_than_was_announced_is_refused_unread(bench: Bench) -> None:
    begun = await bench.begin()
    with pytest.raises(BeyondLengthError):
        await bench.uploads.append(begun.id, 10, chunks(b"x"), announced_bytes=len(FILM))
    assert (await bench.uploads.show(begun.id)).offset == 0


@pytest.mark.spec("V1")
@both
async def test_what_is_no_video_is_refused_at_its_end_and_deleted(bench: Bench) -> None:
    begun = await bench.begin(b"%PDF-1.7 small")
    with pytest.raises(NotAVideoError, match="application/pdf"):
        await bench.send(begun.id, b"%PDF-1.7 small")
    await bench.assert_nothing()
    with pytest.raises(PartMissingError):
        await bench.uploads.show(begun.id)


@both
async def test_what_is_no_video_by_its_first_bytes_is_refused_at_once(bench: Bench) -> None:
    given = 0

    async def long_note() -> AsyncIterator[bytes]:
        nonlocal given
        for _ in range(100):
            given += 1
            yield NOTE

    begun = await bench.begin(NOTE * 100)
    with pytest.raises(NotAVideoError, match="text/plain"):
        await bench.uploads.append(begun.id, 0, long_note())
    assert given == 1
    await bench.assert_nothing()


@pytest.mark.spec("V1", "V4")
@both
async def test_sound_alone_is_refused_with_what_to_do(bench: Bench) -> None:
    voice = (Path(__file__).parents[2] / "samples" / "voice.ogg").read_bytes()
    begun = await bench.begin(voice)
    with pytest.raises(NotAVideoError, match="without moving pictures"):
        await bench.send(begun.id, voice)
    await bench.assert_nothing()


@both
async def test_an_upload_that_is_ended_leaves_nothing(bench: Bench) -> None:
    begun = await bench.begin()
    await bench.send(begun.id, FILM[:100])
    await bench.uploads.terminate(begun.id)
    await bench.assert_nothing()
    for verb in (bench.uploads.show, bench.uploads.terminate, bench.send):
        with pytest.raises(PartMissingError):
            await verb(begun.id)


@both
async def test_a_finished_upload_is_not_ended(bench: Bench) -> None:
    begun = await bench.begin(fingerprint="f")
    await bench.send(begun.id)
    told = await bench.uploads.terminate(begun.id)
    assert told is not None
    assert (told.id, told.finished) == (begun.id, True)
    await bench.assert_one_video(begun.id)
    assert (await bench.uploads.show(begun.id)).finished  # somebody else may have sent it, too


# Killed between two steps: what is on the disk and in the database is all that the next one knows.


async def leave_whole_part(bench: Bench) -> UUID:
    """Killed before the file was moved."""
    begun = await bench.begin(fingerprint="f")
    part_path(bench.folder, begun.id).write_bytes(FILM)
    return begun.id


async def leave_moved_part(bench: Bench) -> UUID:
    """Killed after it."""
    upload_id = await leave_whole_part(bench)
    with hold_part(bench.folder, upload_id) as part:
        await part.move(bench.source(upload_id))
    return upload_id


async def by_post(bench: Bench, upload_id: UUID) -> None:
    assert (await bench.begin(fingerprint="f")).id == upload_id


async def by_head(bench: Bench, upload_id: UUID) -> None:
    assert (await bench.uploads.show(upload_id)).finished


async def by_patch(bench: Bench, upload_id: UUID) -> None:
    assert (await bench.send(upload_id, b"", len(FILM))).finished


async def by_delete(bench: Bench, upload_id: UUID) -> None:
    told = await bench.uploads.terminate(upload_id)
    assert told is not None
    assert told.finished


async def by_sweep(bench: Bench, upload_id: UUID) -> None:
    await finish_uploads(bench.uploads)


@pytest.mark.spec("V1")
@pytest.mark.parametrize("left", [leave_whole_part, leave_moved_part])
@pytest.mark.parametrize("again", [by_post, by_head, by_patch, by_delete, by_sweep])
async def test_whoever_comes_next_completes_what_a_crash_left(bench: Bench, left: Any, again: Any) -> None:
    upload_id = await left(bench)
    await again(bench, upload_id)
    await bench.assert_one_video(upload_id)
    await finish_uploads(bench.uploads)
    await bench.assert_one_video(upload_id)


@pytest.mark.parametrize("left", [leave_whole_part, leave_moved_part])
async def test_many_who_complete_it_at_once_make_one_video(bench: Bench, left: Any) -> None:
    upload_id = await left(bench)
    verbs = (by_head, by_patch, by_sweep, by_head, by_delete, by_patch)

    async def anyhow(verb: Any) -> None:
        with suppress(AssertionError, MediamillError):  # somebody else was at it
            await verb(bench, upload_id)

    await asyncio.gather(*(anyhow(verb) for verb in verbs))
    await by_head(bench, upload_id)
    await bench.assert_one_video(upload_id)


@both
async def test_a_transaction_that_fails_is_made_up_for(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = await bench.begin()

    async def fail(*_: object) -> None:
        raise ConnectionResetError("the database went away")

    monkeypatch.setattr(upload_module, "add_video", fail)
    with pytest.raises(ConnectionResetError):
        await bench.send(begun.id)
    assert await bench.rows("select 1 from videos") == []
    monkeypatch.undo()
    await by_head(bench, begun.id)
    await bench.assert_one_video(begun.id)


async def test_a_disk_that_gets_full_at_the_end_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await bench.begin()

    async def full(*_: object) -> None:
        raise StorageFullError("the disk is full")

    monkeypatch.setattr(Part, "move", full)
    with pytest.raises(StorageFullError):
        await bench.send(begun.id)
    monkeypatch.undo()
    await by_head(bench, begun.id)
    await bench.assert_one_video(begun.id)


async def test_a_row_whose_file_is_gone_is_forgotten(bench: Bench) -> None:
    begun = await bench.begin(fingerprint="f")
    part_path(bench.folder, begun.id).unlink()
    fresh = await bench.begin(fingerprint="f")
    assert fresh.id != begun.id
    part_path(bench.folder, fresh.id).unlink()
    await finish_uploads(bench.uploads)
    await bench.assert_nothing()


# Expiry.


async def age(bench: Bench, upload_id: UUID, *, row: bool = True, file: bool = True) -> None:
    if row:
        await bench.rows("update uploads set expires_at = now() - interval '1 second' returning 1")
    if file and isinstance(bench.storage, BucketStorage):
        await bench.rows("update stored_pieces set noted_at = now() - interval '25 hours' returning 1")
    elif file:
        long_ago = time.time() - 25 * 3600
        os.utime(part_path(bench.folder, upload_id), (long_ago, long_ago))


@pytest.mark.spec("V1")
@both
async def test_an_upload_that_nobody_goes_on_with_is_deleted(bench: Bench) -> None:
    begun = await bench.begin()
    await bench.send(begun.id, FILM[:100])
    await finish_uploads(bench.uploads)
    assert await bench.parts() == [str(begun.id)]
    await age(bench, begun.id)
    await finish_uploads(bench.uploads)
    await bench.assert_nothing()


@pytest.mark.parametrize("aged", [{"file": False}, {"row": False}])
async def test_bytes_that_came_lately_keep_it_and_so_does_a_new_beginning(
    bench: Bench, aged: dict[str, bool]
) -> None:
    begun = await bench.begin()
    await bench.send(begun.id, FILM[:100])
    await age(bench, begun.id, **aged)
    await finish_uploads(bench.uploads)
    assert (await bench.send(begun.id, FILM[100:], 100)).finished


@both
async def test_going_on_puts_the_end_off(bench: Bench) -> None:
    begun = await bench.begin()
    await age(bench, begun.id)
    went_on = await bench.send(begun.id, FILM[:100])
    await finish_uploads(bench.uploads)
    assert went_on.expires_at >= begun.expires_at
    assert (await bench.uploads.show(begun.id)).offset == 100


async def test_an_upload_that_is_whole_is_finished_and_not_deleted_however_old(bench: Bench) -> None:
    upload_id = await leave_whole_part(bench)
    await age(bench, upload_id)
    await finish_uploads(bench.uploads)
    await bench.assert_one_video(upload_id)


async def test_an_upload_that_somebody_sends_does_not_expire(bench: Bench) -> None:
    begun = await bench.begin()
    sending, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield FILM[:100]
        sending.set()
        await go_on.wait()
        yield FILM[100:]

    sender = asyncio.create_task(bench.uploads.append(begun.id, 0, slowly()))
    await sending.wait()
    await age(bench, begun.id)
    await finish_uploads(bench.uploads)
    go_on.set()
    assert (await sender).finished
    await bench.assert_one_video(begun.id)


async def test_the_row_of_a_finished_upload_goes_after_a_while_and_the_video_stays(bench: Bench) -> None:
    begun = await bench.begin()
    await bench.send(begun.id)
    await age(bench, begun.id, file=False)
    await finish_uploads(bench.uploads)
    assert await bench.rows("select 1 from uploads") == []
    assert bench.source(begun.id).exists()
    assert await bench.rows("select count(*) from videos") == [(1,)]


async def test_files_that_no_row_names_are_deleted_and_what_is_not_ours_is_left(bench: Bench) -> None:
    begun = await bench.begin()
    folder = bench.folder / "uploads"
    old, new, odd = folder / str(uuid4()), folder / str(uuid4()), folder / "notes.txt"
    for path in (old, new, odd):
        path.write_bytes(b"x")
    long_ago = time.time() - ORPHAN_SECONDS - 1
    for path in (old, odd, folder / str(begun.id)):
        os.utime(path, (long_ago, long_ago))
    await finish_uploads(bench.uploads)
    assert await bench.parts() == sorted([str(begun.id), new.name, odd.name])


# Races.


async def test_two_chunks_at_once_are_not_mixed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_module, "LOCK_TRIES", 1)
    begun = await bench.begin()
    sending, go_on = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield FILM[:100]
        sending.set()
        await go_on.wait()
        yield FILM[100:]

    first = asyncio.create_task(bench.uploads.append(begun.id, 0, slowly()))
    await sending.wait()
    with pytest.raises(UploadLockedError):
        await bench.send(begun.id, b"y" * 100)
    with pytest.raises(UploadLockedError):
        await bench.uploads.terminate(begun.id)
    assert not (await bench.uploads.show(begun.id)).finished
    go_on.set()
    assert (await first).finished
    await bench.assert_one_video(begun.id)


@both
async def test_the_last_chunk_against_an_end_is_a_video_or_nothing(bench: Bench) -> None:
    for _ in range(15):
        begun = await bench.begin()
        await asyncio.gather(bench.send(begun.id), bench.uploads.terminate(begun.id), return_exceptions=True)
        there = await bench.rows("select 1 from videos where id = $1", begun.id)
        job = await bench.rows("select 1 from jobs where subject_id = $1", str(begun.id))
        assert await bench.has_source(begun.id) == bool(there) == bool(job)
        assert await bench.parts() == []


@pytest.mark.parametrize("bench", ["bucket"], indirect=True)
async def test_an_end_that_looked_before_the_last_byte_came_does_not_take_what_became_a_source(
    bench: Bench,
) -> None:
    begun, parts = await bench.begin(), bench.uploads._parts
    name = source_name(begun.id)
    async with parts.hold(begun.id, name) as ending, parts.hold(begun.id, name) as sending:
        await sending.append(chunks(FILM), offset=0, length=len(FILM), checksum=None)
        await sending.move(name)
        with pytest.raises(PartMissingError):
            await bench.uploads._drop(ending, begun.id)
    assert (await bench.uploads.show(begun.id)).finished
    await bench.assert_one_video(begun.id)


async def test_whoever_begins_again_while_the_last_byte_arrives_makes_no_second_upload(bench: Bench) -> None:
    for number in range(15):
        begun = await bench.begin(fingerprint=str(number))
        again = await asyncio.gather(
            bench.begin(fingerprint=str(number)),
            bench.send(begun.id),
            *(bench.begin(fingerprint=str(number)) for _ in range(3)),
        )
        assert {upload.id for upload in again} == {begun.id}
    assert await bench.rows("select count(*) from videos") == [(15,)]


async def test_many_who_begin_again_when_the_video_is_in_the_trash_begin_one_upload(bench: Bench) -> None:
    first = await bench.begin(fingerprint="f")
    await bench.send(first.id)
    async with bench.database.transaction() as connection:
        await delete_video(connection, first.id)
    begun = {upload.id for upload in await asyncio.gather(*(bench.begin(fingerprint="f") for _ in range(10)))}
    assert len(begun) == 1
    assert first.id not in begun


async def test_the_last_chunk_against_the_sweep_is_a_video_or_nothing(bench: Bench) -> None:
    for _ in range(15):
        begun = await bench.begin()
        await age(bench, begun.id)
        results = await asyncio.gather(
            bench.send(begun.id), finish_uploads(bench.uploads), return_exceptions=True
        )
        there = await bench.rows("select 1 from videos where id = $1", begun.id)
        assert bench.source(begun.id).exists() == bool(there) == isinstance(results[0], Upload)
        assert await bench.parts() == []


@both
async def test_a_chunk_with_a_checksum_counts_as_a_whole_or_not_at_all(bench: Bench) -> None:
    begun = await bench.begin()
    with pytest.raises(ChecksumMismatchError):
        await bench.uploads.append(begun.id, 0, chunks(FILM[:5000]), checksum=hashlib.sha256(b"x").digest())
    assert (await bench.uploads.show(begun.id)).offset == 0
    right = hashlib.sha256(FILM[:5000]).digest()
    assert (await bench.uploads.append(begun.id, 0, chunks(FILM[:5000]), checksum=right)).offset == 5000
    with pytest.raises(OffsetMismatchError):
        await bench.send(begun.id, FILM[100:], 100)
    await bench.send(begun.id, FILM[5000:], 5000)
    await bench.assert_one_video(begun.id)


@both
async def test_a_line_that_breaks_leaves_what_came(bench: Bench) -> None:
    begun = await bench.begin()

    async def broken() -> AsyncIterator[bytes]:
        yield FILM[:70_000]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await bench.uploads.append(begun.id, 0, broken())
    assert (await bench.uploads.show(begun.id)).offset == 70_000
    await bench.send(begun.id, FILM[70_000:], 70_000)
    await bench.assert_one_video(begun.id)


@pytest.mark.parametrize("bench", ["bucket"], indirect=True)
async def test_of_two_servers_that_take_the_same_chunk_one_keeps_it(bench: Bench) -> None:
    begun = await bench.begin()
    asked, again = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        asked.set()
        yield FILM[:50_000]
        await again.wait()

    sending = asyncio.create_task(bench.uploads.append(begun.id, 0, slow()))
    await asked.wait()
    other = Uploads(bench.database, bench.uploads.enqueuer, bench.uploads.settings)
    assert (await other.append(begun.id, 0, chunks(FILM[:60_000]))).offset == 60_000
    again.set()
    with pytest.raises(UploadLockedError):
        await sending
    assert (await bench.uploads.show(begun.id)).offset == 60_000
    await bench.send(begun.id, FILM[60_000:], 60_000)
    await bench.assert_one_video(begun.id)

"""Moving the files of an installation into a bucket and back: resumed, checked, and nothing deleted unless asked."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.staging import Target
from mediamill.staging.move import NoBucketError, StillRunningError, move_files
from mediamill.staging.moving import Moved
from mediamill.storage import bucket as bucket_file
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from mediamill.storage.folder import FolderStorage
from mediamill.storage.owner import OBJECT, NotOurBucketError
from tests.storage.putting import keys, local, put
from tests.storage.s3_server import S3Server

pytestmark = pytest.mark.spec("E23")

UPLOAD = str(uuid4())
FILES = {
    "pending_media/a-guid": b"a voice note",
    "failed_media/b-guid": b"a broken one",
    "videos/1/source": bytes(range(256)) * 20,
    "videos/1/7/master.m3u8": b"#EXTM3U",
    "videos/1/7/empty.vtt": b"",
    "libraries/001/1-2-3/preview.webp": b"a preview",
    "intake/files/00/abc": b"an invoice",
    "intake/outputs/001/1-2-3/page.webp": b"a page",
    "derivatives/001/1-x/audio.wav": b"sound",
    "kept/001/1/v0-1.m4s": b"a segment",
    f"uploads/{UPLOAD}": b"half of an upload",
}
NOT_STORED = {
    "whatsapp/bot/auth/creds.json": b"{}",
    "bridge_secret": b"secret",
    "logs/postgres.log": b"log",
    "kept/001/1/.part-1234": b"half a segment",
    "pending_media/c-guid.part": b"half a note",
    f"uploads/{uuid4()}": b"",
    "uploads/notes.txt": b"somebody else's",
    "intake/parts/x": b"half a file",
}


@pytest.fixture
def settings(s3_server: S3Server, bucket: str, tmp_path: Path) -> Settings:
    return s3_server.settings(tmp_path / "data", bucket)


@pytest.fixture
def storage(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> BucketStorage:
    monkeypatch.setattr(bucket_file, "PIECE_BYTES", 2000)  # the video is three objects
    found = storage_of(settings)
    assert isinstance(found, BucketStorage)
    return found


@pytest.fixture
def data(settings: Settings) -> Path:
    for name, content in {**FILES, **NOT_STORED}.items():
        path = settings.data_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return settings.data_folder


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "deletions.lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


async def in_bucket(storage: BucketStorage, database: Database) -> dict[str, bytes]:
    """Every file, as whoever reads by name gets it."""
    found = {}
    async for names in storage.names(database):
        for name, _ in names:
            file = await storage.open(database, name)
            assert file is not None
            found[name] = b"".join([chunk async for chunk in file.chunks(0, file.length)])
    return found


async def test_every_stored_file_is_moved_into_the_bucket_and_nothing_is_deleted(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    before = files_of(data)
    moved = await move_files(database, storage, Moved(Target.BUCKET))
    assert (moved.faults, moved.left_out) == ([], [])
    assert (moved.files, moved.copied_files, moved.deleted_files) == (len(FILES), len(FILES), 0)
    assert moved.bytes == moved.copied_bytes == sum(map(len, FILES.values()))
    assert await in_bucket(storage, database) == FILES
    assert files_of(data) == before


async def test_what_is_there_is_not_copied_again_and_what_differs_is(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    await move_files(database, storage, Moved(Target.BUCKET))
    there = await keys(storage)
    (data / "kept/001/1/v0-1.m4s").write_bytes(b"A SEGMENT")  # of the same size
    (data / "videos/1/source").write_bytes(b"another film")
    moved = await move_files(database, storage, Moved(Target.BUCKET))
    assert (moved.files, moved.copied_files, moved.copied_bytes) == (len(FILES), 2, 9 + 12)
    assert len(await keys(storage) - there) == 2
    assert (await in_bucket(storage, database))["videos/1/source"] == b"another film"


async def test_when_asked_files_are_deleted_here_and_media_that_wait_stay(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    moved = await move_files(database, storage, Moved(Target.BUCKET), delete=True)
    waiting = {name: FILES[name] for name in ("pending_media/a-guid", "failed_media/b-guid")}
    assert (moved.faults, moved.deleted_files) == ([], len(FILES) - len(waiting))
    assert files_of(data) == {**NOT_STORED, **waiting}
    assert await in_bucket(storage, database) == FILES
    assert not (data / "videos").exists(), "no empty folders are left for `mediamill check` to wonder about"


async def test_there_and_back_gives_the_same_files_and_twins_stay_one_file(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    twin = data / "libraries/001/4-5-6/preview.webp"
    twin.parent.mkdir()
    os.link(data / "libraries/001/1-2-3/preview.webp", twin)
    await move_files(database, storage, Moved(Target.BUCKET), delete=True)
    assert len(await keys(storage)) == len(FILES) + 2, "three for the video, none for the twin"
    back = await move_files(database, storage, Moved(Target.FOLDER), delete=True)
    assert (back.faults, back.files, back.deleted_files) == ([], len(FILES) + 1, len(FILES) + 1)
    assert back.copied_files == len(FILES) + 1 - 2, "media that wait had stayed"
    assert files_of(data) == {**FILES, **NOT_STORED, "libraries/001/4-5-6/preview.webp": b"a preview"}
    assert twin.stat().st_nlink == 2
    assert await in_bucket(storage, database) == {}
    again = await move_files(database, storage, Moved(Target.FOLDER))
    assert (again.files, again.copied_files) == (0, 0)


async def test_a_twin_whose_move_was_killed_in_the_middle_is_linked_by_the_next(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    first, twin = "libraries/001/1-2-3/preview.webp", data / "libraries/001/4-5-6/preview.webp"
    twin.parent.mkdir()
    os.link(data / first, twin)
    await move_files(database, storage, Moved(Target.BUCKET))
    file = await storage.open(database, first)
    assert file is not None
    twin.unlink()
    (data / "scratch").mkdir(exist_ok=True)
    os.link(data / first, data / "scratch" / f"move-{file.mark}")
    moved = await move_files(database, storage, Moved(Target.FOLDER))
    assert (moved.faults, moved.copied_files) == ([], 1)
    assert twin.samefile(data / first)
    assert list((data / "scratch").iterdir()) == []


async def test_objects_that_were_lost_in_the_bucket_are_found_and_sent_again(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    await move_files(database, storage, Moved(Target.BUCKET))
    lost = await storage.open(database, "videos/1/source")
    assert lost is not None
    await storage.objects.delete([lost.pieces[1].key])
    moved = await move_files(database, storage, Moved(Target.BUCKET), delete=True)
    assert (moved.faults, moved.copied_files) == ([], 1)
    assert await in_bucket(storage, database) == FILES


async def test_a_damaged_object_keeps_its_file_from_being_deleted(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    await move_files(database, storage, Moved(Target.BUCKET))
    damaged = await storage.open(database, "videos/1/source")
    assert damaged is not None
    await storage.objects.put(damaged.pieces[0].key, b"x" * damaged.pieces[0].length)
    moved = await move_files(database, storage, Moved(Target.BUCKET), delete=True)
    assert moved.faults == ["videos/1/source is not the same in the bucket, and stays"]
    assert (data / "videos/1/source").read_bytes() == FILES["videos/1/source"]
    (data / "videos/1/source").unlink()
    back = await move_files(database, storage, Moved(Target.FOLDER), delete=True)
    assert len(back.faults) == 2
    assert "is damaged" in back.faults[0]
    assert back.deleted_files == 0
    assert not (data / "videos/1/source").exists(), "half a file has no name"


async def test_an_upload_whose_sender_was_killed_within_a_checked_chunk_ends_before_it(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    (data / f"uploads/{UPLOAD}.unchecked").write_text("4")
    await move_files(database, storage, Moved(Target.BUCKET))
    assert (await in_bucket(storage, database))[f"uploads/{UPLOAD}"] == b"half"


async def test_links_are_not_followed_and_told(
    storage: BucketStorage, database: Database, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_bytes(b"not ours")
    (data / "videos/1/link").symlink_to(tmp_path / "elsewhere" / "secret")
    (data / "videos/2").symlink_to(tmp_path / "elsewhere")
    moved = await move_files(database, storage, Moved(Target.BUCKET), delete=True)
    assert moved.left_out == ["videos/1/link", "videos/2"]
    assert await in_bucket(storage, database) == FILES
    assert (tmp_path / "elsewhere" / "secret").exists()


@pytest.mark.parametrize("name", ["../outside", "videos/../../outside", "/outside", "videos//x", "alone"])
async def test_a_name_that_leaves_the_folder_is_not_followed_there(
    storage: BucketStorage, database: Database, data: Path, tmp_path: Path, name: str
) -> None:
    await put(storage, database, local(tmp_path, b"hostile"), name)
    moved = await move_files(database, storage, Moved(Target.FOLDER))
    assert len(moved.faults) >= 1
    assert "cannot be the name of a file" in moved.faults[0]
    assert not (tmp_path / "outside").exists()
    assert not (data / "alone").exists()


async def test_it_refuses_while_a_server_runs_and_says_who(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    server = await Database.open(database.url, connections=1, name="mediamill server")
    try:
        async with server.connection():
            with pytest.raises(StillRunningError) as caught:
                await move_files(database, storage, Moved(Target.BUCKET))
        assert "mediamill server" in caught.value.message
        assert "stop all servers and workers" in str(caught.value.fix)
        assert await in_bucket(storage, database) == {}
    finally:
        await server.close()


async def test_a_server_that_starts_meanwhile_keeps_every_file_from_being_deleted(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    before, up, over = files_of(data), threading.Event(), threading.Event()

    async def serve() -> None:
        server = await Database.open(database.url, connections=1, name="mediamill server")
        async with server.connection():
            up.set()
            await asyncio.to_thread(over.wait)
        await server.close()

    running = threading.Thread(target=lambda: asyncio.run(serve()))

    def start_server(_what: str, _moved: Moved) -> None:
        if not running.is_alive():
            running.start()
            up.wait(60)

    try:
        with pytest.raises(StillRunningError):
            await move_files(database, storage, Moved(Target.BUCKET, show=start_server), delete=True)
    finally:
        over.set()
        running.join()
    assert files_of(data) == before
    assert await in_bucket(storage, database) == FILES


async def test_it_refuses_without_a_bucket_and_into_the_bucket_of_another_database(
    storage: BucketStorage, database: Database, data: Path
) -> None:
    with pytest.raises(NoBucketError):
        await move_files(database, FolderStorage(data), Moved(Target.FOLDER))
    await storage.objects.put(OBJECT, b"another database")
    with pytest.raises(NotOurBucketError):
        await move_files(database, storage, Moved(Target.BUCKET))

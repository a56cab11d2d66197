"""What is in a bucket is counted by its rows, in the background, and told with the time of the count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.storage import count as count_file
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from mediamill.storage.count import Area, BucketCounter, count_bucket
from mediamill.storage.folder import FolderStorage
from tests.api.serving import serve
from tests.conftest import wait_until
from tests.storage.putting import drop, keys, local, put
from tests.storage.s3_server import S3Server

pytestmark = pytest.mark.spec("E23")


@pytest.fixture
def settings(s3_server: S3Server, bucket: str, tmp_path: Path) -> Settings:
    return s3_server.settings(tmp_path / "data", bucket)


@pytest.fixture
def storage(settings: Settings) -> BucketStorage:
    found = storage_of(settings)
    assert isinstance(found, BucketStorage)
    return found


async def fill(
    storage: BucketStorage, database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of three objects, one with a second name, one that waits, one that was deleted."""
    monkeypatch.setattr("mediamill.storage.bucket.PIECE_BYTES", 1000)
    await put(storage, database, local(folder, b"a film" * 400), "videos/1/source")
    monkeypatch.undo()
    await put(storage, database, local(folder, b"preview"), "libraries/001/1/preview.webp")
    await put(storage, database, local(folder, b"a voice note"), "pending_media/guid")
    await put(storage, database, local(folder, b"gone"), "videos/2/source")
    await drop(storage, database, "videos/2")
    async with database.transaction() as connection:
        await storage.link_files(connection, "libraries/001/1", "libraries/001/2", ["preview.webp"])


async def test_files_objects_and_bytes_are_counted_by_area_and_an_object_with_two_names_once(
    storage: BucketStorage, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(storage, database, tmp_path, monkeypatch)
    counted = await count_bucket(database, "mill")
    assert counted.areas == (
        Area("videos", files=1, objects=3, bytes=2400),
        Area("pending_media", files=1, objects=1, bytes=12),
        Area("libraries", files=2, objects=1, bytes=7),
    )
    assert (counted.files, counted.objects, counted.bytes, counted.garbage) == (4, 5, 2419, 1)
    assert len(await keys(storage)) == counted.objects + counted.garbage, "as the bucket itself has it"


async def test_a_count_that_takes_long_is_not_waited_for_and_is_shared(
    storage: BucketStorage, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(storage, database, local(tmp_path, b"a film"), "videos/1/source")
    monkeypatch.setattr(count_file, "WAIT_SECONDS", 0.01)
    counter = BucketCounter(database, storage)
    async with database.transaction() as connection:
        await connection.execute("lock table stored_pieces in access exclusive mode")
        told = [await counter.count() for _ in range(3)]
        assert [each and each.counted_at for each in told] == [None] * 3
        counting = await connection.fetchval(
            "select count(*) from pg_locks where relation = 'stored_pieces'::regclass and not granted"
        )
        assert counting <= 1, "they share one count"

    async def is_counted() -> bool:
        told = await counter.count()
        return told is not None and told.counted_at is not None and told.objects == 1

    await wait_until(is_counted)
    assert await BucketCounter(database, FolderStorage(storage.folder)).count() is None, "there is no bucket"


async def test_the_page_and_the_api_tell_what_is_in_the_bucket_and_when_it_was_counted(
    settings: Settings,
    storage: BucketStorage,
    database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await fill(storage, database, tmp_path, monkeypatch)
    given = {name: value for name in settings.model_fields_set if (value := getattr(settings, name))}
    given.pop("data")
    monkeypatch.setattr(count_file, "WAIT_SECONDS", 60)  # however slow this machine is
    async with serve(database, settings.data, pages=True, **given) as served:
        told = (await served.client.get("/api/storage")).json()
        page = (await served.client.get("/storage")).text
    areas = {area["name"]: (area["objects"], area["bytes"]) for area in told["bucket"]["areas"]}
    assert areas == {"videos": (3, 2400), "pending_media": (1, 12), "libraries": (1, 7)}
    at = datetime.fromisoformat(told["bucket"]["counted_at"])
    assert timedelta(0) <= datetime.now(UTC) - at < timedelta(minutes=2)
    assert told["bucket"]["name"] == settings.bucket
    assert 'id="area-videos"' in page
    assert "2.4 kB in 5 objects" in page
    assert "<dt>Media that wait</dt><dd>12 B</dd>" in page, "the quota counts what is in the bucket"
    assert f'datetime="{at.isoformat()}"' in page

"""Media of chats in a bucket: there with their job, put aside when it fails, counted, and swept."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.model import NewJob
from mediamill.staging import shared as shared_file
from mediamill.staging import staging_folder
from mediamill.staging.inputs import end_input, fetch_input
from mediamill.staging.quota import StagingRoom, StorageFullError
from mediamill.staging.shared import name_staged, send_staged, shared_bytes, sweep_shared
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from tests.storage.s3_server import S3Server, bucket, s3_server

__all__ = ["bucket", "s3_server"]

PAYLOAD = {"file": {"staged": "g-1"}}


class UndoneError(Exception):
    pass


@pytest.fixture
def storages(s3_server: S3Server, bucket: str, tmp_path: Path) -> list[BucketStorage]:
    """Of two machines."""
    found = [storage_of(s3_server.settings(tmp_path / name, bucket)) for name in ("north", "south")]
    return [one for one in found if isinstance(one, BucketStorage)]


def stage(storage: BucketStorage, data: bytes = b"meow") -> Path:
    path = staging_folder(storage.folder) / "g-1"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


async def share(database: Database, storage: BucketStorage) -> None:
    sent = await send_staged(storage, "g-1")
    async with database.transaction() as connection:
        await name_staged(connection, storage, "g-1", sent)


async def names(database: Database) -> list[str]:
    async with database.connection() as connection:
        return [row["name"] for row in await connection.fetch("select distinct name from stored_pieces")]


@pytest.mark.spec("C20", "E1")
async def test_it_is_shared_with_the_transaction_of_its_job_and_not_without(
    storages: list[BucketStorage], database: Database
) -> None:
    north, south = storages
    path = stage(north)
    sent = await send_staged(north, "g-1")
    with pytest.raises(UndoneError):  # noqa: PT012
        async with database.transaction() as connection:
            await name_staged(connection, north, "g-1", sent)
            raise UndoneError
    assert path.exists(), "without its job it stays where the chat came in"
    assert await names(database) == []
    await share(database, north)
    assert not path.exists()
    found = await fetch_input(database, south, PAYLOAD)
    assert found is not None
    assert found.read_bytes() == b"meow"


async def test_of_a_job_that_failed_it_is_put_aside_and_found_for_another_try(
    storages: list[BucketStorage], database: Database
) -> None:
    north, south = storages
    stage(north)
    await share(database, north)
    await end_input(database, south, PAYLOAD, keep=True)
    assert await names(database) == ["failed_media/g-1"]
    found = await fetch_input(database, north, PAYLOAD)
    assert found is not None
    assert found.read_bytes() == b"meow"
    await end_input(database, north, PAYLOAD, keep=False)
    assert await names(database) == []


async def test_what_is_put_aside_has_so_much_room_and_the_oldest_go_first(
    storages: list[BucketStorage], database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strangers sent them: in a folder they are bounded, too."""
    north, _ = storages
    monkeypatch.setattr(shared_file, "MOST_BYTES", 100)
    for guid, size in (("old", 40), ("middle", 40), ("new", 40)):
        path = staging_folder(north.folder) / guid
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
        sent = await send_staged(north, guid)
        async with database.transaction() as connection:
            await name_staged(connection, north, guid, sent)
        await end_input(database, north, {"file": {"staged": guid}}, keep=True)
    assert sorted(await names(database)) == ["failed_media/middle", "failed_media/new"]


async def test_what_no_job_names_is_dropped_when_it_is_old(
    storages: list[BucketStorage], database: Database
) -> None:
    north, _ = storages
    stage(north)
    await share(database, north)
    assert await sweep_shared(database, north, 60, 60) == 0
    async with database.transaction() as connection:
        kinds = Kinds([JobKind("test.media")])
        await Enqueuer(kinds).enqueue_job(connection, NewJob("test.media", subject_id="g-1"))
    assert await sweep_shared(database, north, -60, -60) == 0, "its job waits"
    async with database.connection() as connection:
        await connection.execute("delete from jobs")
    assert await sweep_shared(database, north, -60, -60) == 1
    assert await names(database) == []


@pytest.mark.spec("C20")
async def test_the_quota_counts_what_is_in_the_bucket(
    storages: list[BucketStorage], database: Database
) -> None:
    north, south = storages
    stage(north, b"x" * 1000)
    await share(database, north)
    room = StagingRoom(south.folder, shared_bytes(database, south))
    async with room.reserve("other", 500, 2000):
        assert room.used_bytes == 1500
    with pytest.raises(StorageFullError):
        async with room.reserve("more", 1500, 2000):
            raise AssertionError("there is no room")


def test_without_a_bucket_nothing_is_shared(tmp_path: Path, database: Database) -> None:
    assert shared_bytes(database, tmp_path) is None

"""Workers killed with -9 while they put their work into a bucket, and a bucket that is killed under them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from mediamill.client import AsyncClient
from mediamill.db.connection import Database
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from mediamill.storage.sweep import delete_garbage, delete_orphans
from tests.conftest import wait_until
from tests.crash.doomed_bucket import STEPS
from tests.crash.processes import Mill, Process
from tests.storage.s3_server import S3Server, bucket, own_s3_server, s3_server
from tests.stories.playing import whole_stream
from tests.stories.town import ADMIN, Town
from tests.ui.filming import make_clip

__all__ = ["bucket", "own_s3_server", "s3_server"]

QUICK = {
    "MEDIAMILL_VIDEO_CAPTIONS": "false",
    "MEDIAMILL_VIDEO_SEGMENT_SECONDS": "1",
    "MEDIAMILL_OFFLINE_AFTER_SECONDS": "3",
    "MEDIAMILL_STARTUP_GRACE_SECONDS": "0",
}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small enough to be encoded at once."""
    return make_clip(tmp_path_factory.mktemp("clip") / "harbour.mp4", 640, 360, seconds=4)


@pytest.fixture
def town(new_url: str, tmp_path: Path, s3_server: S3Server, bucket: str) -> Iterator[Town]:
    town = Town.of(tmp_path, new_url, s3_server, bucket, **QUICK)
    yield town
    town.close()


@pytest.fixture
async def database(new_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(new_url, connections=4)
    yield opened
    await opened.close()


class DoomedWorker(Process):
    """It kills itself at a step."""

    def __init__(self, mill: Mill, step: str) -> None:
        said = mill.folder / "said-doomed.txt"
        super().__init__((step, "worker"), mill.environment, said, module="tests.crash.doomed_bucket")
        mill.processes.append(self)


def read(path: Path) -> bytes:
    return path.read_bytes()


async def keys_of(storage: BucketStorage) -> set[str]:
    return {
        one.key for shard in range(256) async for some in storage.objects.list(f"{shard:02x}") for one in some
    }


@pytest.mark.timeout(600)
@pytest.mark.spec("V6", "V8", "E5", "E9", "E11")
@pytest.mark.parametrize("step", STEPS)
async def test_a_worker_killed_while_it_puts_its_work_loses_nothing_and_shows_nothing_half(
    town: Town, database: Database, s3_server: S3Server, bucket: str, clip: Path, step: str
) -> None:
    await town.serve("north")
    mill = town.machine("north")
    async with AsyncClient(town.urls["north"], ADMIN) as client:
        video = await client.upload_video(clip)
        doomed = DoomedWorker(town.machine("doomed"), step)
        assert await doomed.until_gone() == -9, doomed.said
        assert (await client.video(video.video_id)).state != "ready", "nothing half is shown"
        await town.work("mill")
        await client.wait_ready(video.video_id, timeout=300)
    assert await mill.one("select attempts from finished_jobs where kind = 'video.transcode'") == 2
    async with town.client("north") as north:
        told = (await north.get(f"/api/videos/{video.video_id}")).json()
        stream = await whole_stream(north, told)

        # Whatever the dead one left is found and deleted, and nothing else is.
        storage = storage_of(s3_server.settings(town.folder / "here", bucket, bucket_prefix=""))
        assert isinstance(storage, BucketStorage)
        orphans = await delete_orphans(database, storage, older_than_seconds=-60)
        if step == "when_an_object_is_there_and_has_no_name":
            assert orphans == 1
        await delete_garbage(database, storage, -60)
        async with database.connection() as connection:
            named = {row["key"] for row in await connection.fetch("select key from stored_pieces")}
        assert await keys_of(storage) == named
        assert await whole_stream(north, told) == stream
        assert (await north.get(f"/api/videos/{video.video_id}/source")).content == read(clip)


@pytest.mark.timeout(600)
@pytest.mark.spec("V6", "E7", "E33")
async def test_a_bucket_that_goes_away_and_comes_back_costs_no_attempt_and_no_file(
    new_url: str, tmp_path: Path, own_s3_server: S3Server, clip: Path
) -> None:
    server = own_s3_server
    town = Town.of(tmp_path, new_url, server, server.make_bucket(), **QUICK)
    try:
        await town.serve("north")
        mill = town.machine("north")
        async with AsyncClient(town.urls["north"], ADMIN) as client, town.client("north") as north:
            video = await client.upload_video(clip)
            server.kill()
            await town.work("mill")
            put_off = (
                "select state <> 'running' and error like '%bucket%' from jobs where kind = 'video.transcode'"
            )
            await mill.until(put_off)
            answer = await north.get(f"/api/videos/{video.video_id}/source")
            assert answer.status_code == 503, "a player is told to try again"
            await wait_until(lambda: _is_told(north, "away"))
            assert await mill.one("select count(*) from dead_jobs") == 0

            await asyncio.to_thread(server.restarted)
            await mill.one("update jobs set run_after = now()")  # it would be tried within a minute
            await mill.one("select pg_notify('mediamill_jobs', 'transcode')")
            await client.wait_ready(video.video_id, timeout=300)
            await wait_until(lambda: _is_told(north, "ok"))
            told = (await north.get(f"/api/videos/{video.video_id}")).json()
            assert await whole_stream(north, told)
            assert (await north.get(f"/api/videos/{video.video_id}/source")).content == read(clip)
        attempts = "select attempts from finished_jobs where kind = 'video.transcode'"
        assert await mill.one(attempts) == 1, "the tries without a bucket do not count"
        town.assert_no_traceback()
    finally:
        town.close()


async def _is_told(client: object, state: str) -> bool:
    answer = await client.get("/health")  # type: ignore[attr-defined]
    assert answer.status_code == 200, "no server would be better off"
    return bool(answer.json()["bucket"] == state)

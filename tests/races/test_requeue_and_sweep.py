"""A dead job is requeued while its file is swept: it comes back with its file, or it is refused and says why."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.engine.dead import FileGivenUpError, purge_dead, requeue_dead, retry_job
from mediamill.errors import ConflictError
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.failed import make_room
from mediamill.staging.inputs import end_input
from mediamill.staging.shared import sweep_shared
from mediamill.staging.sweep import sweep_failed, sweep_staging
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of
from tests.engine.conftest import Bench
from tests.races.conftest import ROUNDS
from tests.storage.s3_server import S3Server, bucket, s3_server

__all__ = ["bucket", "s3_server"]

pytestmark = pytest.mark.spec("E13", "E34")

KEEP_SECONDS = 60.0
Sweep = Callable[[Database, Path], Awaitable[object]]
SWEEPS: dict[str, Sweep] = {
    "it was kept for long enough": lambda database, data: sweep_failed(database, data, KEEP_SECONDS),
    "newer ones need its room": lambda database, data: make_room(database, data, 0),
}


async def die(bench: Bench, guid: str) -> int:
    """A job that failed for good."""
    id_ = await bench.enqueue(subject_id=guid, payload={"file": {"staged": guid}})
    (job,) = await bench.claim()
    await bench.fail(job, permanent=True)
    return id_


def put_aside(data: Path, guid: str, folder: Callable[[Path], Path] = failed_folder) -> Path:
    """Its file, old enough to be swept."""
    path = folder(data) / guid
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"media")
    os.utime(path, (1, 1))
    return path


async def requeue(bench: Bench, *ids: int) -> list[int]:
    async with bench.database.transaction() as connection:
        return await requeue_dead(connection, bench.engine, ids)


@pytest.mark.parametrize("why", SWEEPS)
async def test_the_file_of_a_job_that_is_being_requeued_stays(bench: Bench, tmp_path: Path, why: str) -> None:
    id_, path = await die(bench, "g"), put_aside(tmp_path, "g")
    async with bench.database.transaction() as connection:
        assert await requeue_dead(connection, bench.engine, [id_]) == [id_]
        await SWEEPS[why](bench.database, tmp_path)
        assert path.exists(), "its requeue is about to be committed"
    await SWEEPS[why](bench.database, tmp_path)
    assert path.exists(), "its job is in the queue"
    assert await bench.state(id_) == "queued"


@pytest.mark.parametrize("why", SWEEPS)
async def test_a_job_whose_file_is_deleted_stays_dead_and_the_refusal_says_why(
    bench: Bench, tmp_path: Path, why: str
) -> None:
    id_, path = await die(bench, "g"), put_aside(tmp_path, "g")
    await SWEEPS[why](bench.database, tmp_path)
    assert not path.exists()
    for verb in (requeue(bench, id_), _retry(bench, id_)):
        with pytest.raises(FileGivenUpError) as caught:
            await verb
        assert "is deleted" in caught.value.message
        assert "sent again" in str(caught.value.fix)
    assert await bench.state(id_) == "dead"


async def test_others_are_requeued_without_it(bench: Bench, tmp_path: Path) -> None:
    lost, other = await die(bench, "lost"), await die(bench, "other")
    put_aside(tmp_path, "lost")
    await sweep_failed(bench.database, tmp_path, KEEP_SECONDS)
    assert await requeue(bench, lost, other) == [other]
    assert await bench.state(lost) == "dead"


async def test_of_requeue_purge_and_sweep_at_once_no_job_comes_back_without_its_file(
    bench: Bench, tmp_path: Path
) -> None:
    async def sweep() -> int:
        return await sweep_failed(bench.database, tmp_path, KEEP_SECONDS)

    async def purge(id_: int) -> list[int]:
        async with bench.database.transaction() as connection:
            return await purge_dead(connection, [id_])

    for round_ in range(ROUNDS):
        id_, path = await die(bench, f"g{round_}"), put_aside(tmp_path, f"g{round_}")
        verbs = [sweep(), requeue(bench, id_), sweep()]
        more = [purge(id_)] if round_ % 3 == 0 else []
        outcomes = await asyncio.gather(*verbs, *more, return_exceptions=True)
        assert all(
            not isinstance(each, BaseException) or isinstance(each, ConflictError) for each in outcomes
        )
        if await bench.state(id_) == "queued":
            assert path.exists()
        await bench.run("delete from jobs")


async def test_what_the_sweep_has_in_its_hands_is_refused_for_the_moment(
    bench: Bench, tmp_path: Path
) -> None:
    id_ = await die(bench, "g")
    async with bench.database.transaction() as connection:
        await connection.execute("select from dead_jobs for update")
        with pytest.raises(ConflictError, match="just now"):
            await _retry(bench, id_)
    await _retry(bench, id_)
    assert await bench.state(id_) == "queued"


async def test_a_job_that_dies_during_the_sweep_is_not_taken_for_one_without_a_job(
    bench: Bench, tmp_path: Path
) -> None:
    """It waited so long in the queue that its file is old when it dies; whoever runs it puts the file aside then."""
    path = put_aside(tmp_path, "g", staging_folder)
    id_ = await bench.enqueue(subject_id="g", payload={"file": {"staged": "g"}})
    (job,) = await bench.claim()
    await sweep_staging(bench.database, tmp_path, KEEP_SECONDS)
    assert path.exists()
    await bench.fail(job, permanent=True)
    await end_input(bench.database, tmp_path, {"file": {"staged": "g"}}, keep=True)
    await sweep_staging(bench.database, tmp_path, KEEP_SECONDS)
    await sweep_failed(bench.database, tmp_path, KEEP_SECONDS)
    assert (failed_folder(tmp_path) / "g").exists()
    assert await requeue(bench, id_) == [id_]


async def test_a_result_that_was_only_not_delivered_needs_no_file(bench: Bench, tmp_path: Path) -> None:
    payload = {"file": {"staged": "g"}}
    id_ = await bench.enqueue("test.delivered", subject_id="g", payload=payload)
    await bench.finish(*await bench.claim(), result="1")
    await bench.run(
        "with gone as (delete from jobs returning *) insert into dead_jobs (id, kind, pool, owner, subject_id, "
        "priority, payload, attempts, max_attempts, token, created_at, reason, error, result) "
        "select id, kind, pool, owner, subject_id, priority, payload, attempts, max_attempts, token, created_at, "
        "'delivery_failed', 'no', result from gone"
    )
    path = put_aside(tmp_path, "g")
    await sweep_failed(bench.database, tmp_path, KEEP_SECONDS)
    assert not path.exists()
    assert await requeue(bench, id_) == [id_]
    assert await bench.state(id_) == "completed"


async def test_in_a_bucket_it_is_the_same(
    bench: Bench, s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    storage = storage_of(s3_server.settings(tmp_path, bucket))
    assert isinstance(storage, BucketStorage)
    back, lost = await die(bench, "back"), await die(bench, "lost")
    for guid in ("back", "lost"):
        sent = await storage.send(put_aside(tmp_path, guid, staging_folder))
        async with bench.database.transaction() as connection:
            await storage.give_name(connection, sent, f"failed_media/{guid}")
    async with bench.database.transaction() as connection:
        assert await requeue_dead(connection, bench.engine, [back]) == [back]
        await sweep_shared(bench.database, storage, -60, -60)
    assert await bench.one("select array_agg(name) from stored_pieces") == ["failed_media/back"]
    with pytest.raises(FileGivenUpError):
        await requeue(bench, lost)


async def test_a_copy_left_behind_beside_a_bucket_goes_and_its_job_can_be_requeued(
    bench: Bench, s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    storage = storage_of(s3_server.settings(tmp_path, bucket))
    id_, path = await die(bench, "g"), put_aside(tmp_path, "g", staging_folder)
    await sweep_staging(bench.database, storage, KEEP_SECONDS)
    assert not path.exists()
    assert await requeue(bench, id_) == [id_]


async def _retry(bench: Bench, id_: int) -> None:
    async with bench.database.transaction() as connection:
        await retry_job(connection, bench.engine, id_)

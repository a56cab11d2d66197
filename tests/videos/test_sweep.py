"""The janitor of videos, after a kill at any point: what is shown or may still be needed stays, the rest goes."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mediamill.engine.model import ClaimedJob, Moved
from mediamill.settings import Settings
from mediamill.videos.again import retranscode_video
from mediamill.videos.jobs import complete
from mediamill.videos.look import list_videos
from mediamill.videos.model import output_folder, video_folder
from mediamill.videos.playback import NoSuchFileError, find_file
from mediamill.videos.sweep import sweep_folders, sweep_videos
from mediamill.videos.trash import delete_video, empty_trash, erase_video
from tests.conftest import wait_until
from tests.videos.played import Ground, keep_stream, play_worker, result_of, stream_of

TWO_DAYS = 2 * 86_400


class KilledError(Exception):
    """As if the process had been killed here: nothing of its transaction stays."""


async def retranscode(ground: Ground, video_id: UUID, *qualities: str) -> None:
    async with ground.database.transaction() as connection:
        await retranscode_video(connection, ground.enqueuer, ground.settings, video_id, list(qualities))


async def sweep(ground: Ground) -> int:
    return await sweep_folders(ground.database, ground.data)


def make_old(folder: Path, seconds: float = TWO_DAYS) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def is_whole(ground: Ground, video_id: UUID, job: ClaimedJob, *qualities: str) -> bool:
    folder = ground.data / output_folder(video_id, job.id)
    return {path.name for path in folder.iterdir()} == stream_of(qualities or ("360p",)).keys()


@asynccontextmanager
async def publishing(ground: Ground, job: ClaimedJob) -> AsyncIterator[None]:
    """In the block the files are in their new place, and the transaction is not at its end."""
    payload = json.loads(job.payload_json)
    moved = Moved(job.id, job.kind, job.owner, job.subject_id, job.attempts, payload, result=result_of())
    async with ground.database.transaction() as connection:
        await complete(ground.settings, connection, [moved])
        yield


@pytest.mark.spec("V6", "V9")
async def test_what_is_shown_and_what_is_being_made_stays(ground: Ground) -> None:
    shown = await ground.add("Shown")
    job = await play_worker(ground, shown)
    await ground.add("Waiting")
    await retranscode(ground, shown, "360p")
    make_old(ground.data / video_folder(shown))
    assert await sweep(ground) == 0
    assert is_whole(ground, shown, job)


@pytest.mark.spec("V6", "V10", "V12")
async def test_the_stream_before_plays_on_for_those_who_watch_it_and_then_goes(ground: Ground) -> None:
    video_id = await ground.add()
    old = await play_worker(ground, video_id)
    await retranscode(ground, video_id, "360p")
    new = await play_worker(ground, video_id, salt="new")
    assert await sweep(ground) == 0
    async with ground.database.connection() as connection:
        found = await find_file(connection, video_id, old.id, "360p-00000.m4s")
    assert b"new" not in (ground.data / found.stored).read_bytes()
    folder = ground.data / output_folder(video_id, old.id)
    shutil.copytree(folder, ground.data / "copy")
    await ground.run("update videos set ready_at = ready_at - interval '61 minutes'")
    assert await sweep(ground) == 1
    assert not folder.exists()
    async with ground.database.connection() as connection:
        with pytest.raises(NoSuchFileError):
            await find_file(connection, video_id, old.id, "360p-00000.m4s")
    (ground.data / "copy").rename(folder)  # killed after the rows were deleted, before the folder was
    await ground.run("update videos set ready_at = now()")
    assert await sweep(ground) == 1
    assert not folder.exists()
    assert is_whole(ground, video_id, new)
    assert (ground.data / video_folder(video_id)).joinpath("source").exists()


@pytest.mark.spec("V6", "V8")
async def test_killed_between_the_rename_and_the_end_of_the_transaction(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    with pytest.raises(KilledError):
        async with publishing(ground, job):
            raise KilledError
    assert is_whole(ground, video_id, job)  # in its place, and nobody shows it
    assert await sweep(ground) == 0
    await ground.fail(job, "the worker is gone")
    assert await sweep(ground) == 0
    await ground.run("update jobs set run_after = now(), state = 'queued'")
    again = await play_worker(ground, video_id)
    assert again.id == job.id
    assert await sweep(ground) == 0
    assert is_whole(ground, video_id, job)


@pytest.mark.spec("V6")
async def test_the_stream_of_a_dead_job_is_left_until_its_dead_letter_goes(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    with pytest.raises(KilledError):
        async with publishing(ground, job):
            raise KilledError
    await ground.fail(job, "no more", permanent=True)
    assert await sweep(ground) == 0
    await ground.run("delete from dead_jobs")
    assert await sweep(ground) == 1
    assert [path.name for path in (ground.data / video_folder(video_id)).iterdir()] == ["source"]


@pytest.mark.spec("V8", "V9")
async def test_a_stream_that_is_just_being_published_is_left_alone(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    async with publishing(ground, job):
        assert await sweep(ground) == 0
    assert await sweep(ground) == 0
    assert is_whole(ground, video_id, job)


@pytest.mark.spec("V14")
async def test_killed_before_the_folder_of_an_erased_video_was_deleted(ground: Ground) -> None:
    video_id = await ground.ready()
    folder, copy = (ground.data / video_folder(video_id)), ground.data / "copy"
    shutil.copytree(folder, copy)
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
        await erase_video(connection, ground.data, video_id)

    async def gone() -> bool:
        return not folder.exists()

    await wait_until(gone)
    copy.rename(folder)
    make_old(folder, 3600)
    assert await sweep(ground) == 0  # young: it may be one that has just arrived
    make_old(folder)
    assert await sweep(ground) == 1
    assert await gone()


@pytest.mark.spec("V14")
async def test_killed_in_the_middle_of_deleting(ground: Ground) -> None:
    """Whatever is left of a folder is a folder that nobody names."""
    video_id = await ground.ready()
    orphan, left = (ground.data / video_folder(uuid4())), (ground.data / output_folder(video_id, 10**9))
    for folder in (orphan / "12", left):
        folder.mkdir(parents=True)
        (folder / "720p-00007.m4s").write_bytes(b"x")
    make_old(orphan)
    assert await sweep(ground) == 2
    assert not orphan.exists()
    assert not left.exists()
    assert await sweep(ground) == 0


@pytest.mark.spec("V1")
async def test_the_folder_of_an_upload_that_is_about_to_become_a_video_is_left(ground: Ground) -> None:
    upload_id = uuid4()
    folder = ground.data / video_folder(upload_id)
    folder.mkdir(parents=True)
    (folder / "source").write_bytes(b"all of it has come, and then the server was down for days")
    make_old(folder)
    await ground.run(
        "insert into uploads (id, purpose, name, bytes, expires_at) values ($1, 'video', 'a', 1, now())",
        upload_id,
    )
    assert await sweep(ground) == 0
    await ground.run("delete from uploads")
    assert await sweep(ground) == 1


async def test_what_is_not_ours_is_left_alone(ground: Ground, tmp_path: Path) -> None:
    video_id = await ground.ready()
    outside, root = tmp_path / "outside", ground.data / "videos"
    outside.mkdir()
    (outside / "precious").write_text("not ours")
    (root / str(uuid4())).symlink_to(outside)
    ((ground.data / video_folder(video_id)) / "777").symlink_to(outside)
    others = [root / "notes", root / str(uuid4()).upper(), root / "12"]
    others += [(ground.data / video_folder(video_id)) / name for name in ("007", "-5", "٣", "mine", "9" * 30)]
    for folder in others:
        folder.mkdir()
        make_old(folder)
    assert await sweep(ground) == 0
    assert (outside / "precious").exists()
    assert all(folder.is_dir() for folder in others)


async def test_without_any_video_there_is_nothing_to_do(ground: Ground) -> None:
    assert await sweep(ground) == 0


@pytest.mark.spec("V14")
@pytest.mark.parametrize(("keep_days", "left"), [(0, 3), (30, 2), (1, 1)])
async def test_the_trash_is_emptied_when_its_time_has_come(ground: Ground, keep_days: int, left: int) -> None:
    for age in (None, 3, 40):
        video_id = await ground.add(f"Deleted {age} days ago")
        if age is not None:
            await ground.run(
                "update videos set deleted_at = now() - make_interval(days => $2) where id = $1",
                video_id,
                age,
            )
    given = {"data": ground.data, "video_trash_keep_days": keep_days}
    await sweep_videos(ground.database, Settings.model_validate(given))
    assert await ground.one("select count(*) from videos") == left


@pytest.mark.spec("V14")
async def test_one_that_is_restored_while_the_trash_is_emptied_does_not_stop_it(ground: Ground) -> None:
    first, second = await ground.add("First"), await ground.add("Second")
    for number, video_id in enumerate((first, second)):
        await ground.run(
            "update videos set deleted_at = now() - make_interval(days => $2) where id = $1",
            video_id,
            9 - number,
        )
    # As the first one is looked at, somebody takes it out.
    await ground.run(
        "create function take_out() returns trigger language plpgsql as $$ begin return null; end $$"
    )
    await ground.run(
        "create trigger takes_out before delete on videos for each row "
        "when (old.title = 'First') execute function take_out()"
    )
    assert await empty_trash(ground.database, ground.data) == 1
    async with ground.database.connection() as connection:
        assert [video["id"] for video in await list_videos(connection, trash=True)] == [str(first)]

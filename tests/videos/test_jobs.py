"""A video moves only with its job: claimed, released, failed, completed; retried, retranscoded, deleted, erased."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mediamill.engine.model import Priority
from mediamill.engine.priority import NotWaitingError
from mediamill.engine.settle import Fate, hand_back
from mediamill.errors import ConflictError, InvalidError
from mediamill.media.hls import MASTER, read_master
from mediamill.processors.transcode.request import Request
from mediamill.staging.kept import kept_folder
from mediamill.videos.again import retranscode_video, retry_video
from mediamill.videos.edit import edit_video, set_video_priority
from mediamill.videos.look import list_videos, show_video
from mediamill.videos.model import UnknownVideoError, VideoBusyError, make_slug, output_folder, video_folder
from mediamill.videos.playback import find_file
from mediamill.videos.trash import delete_video, empty_trash, erase_video, restore_video
from tests.conftest import wait_until
from tests.videos.played import Ground, keep_stream, play_captions, play_worker, result_of, stream_of


async def until_gone(folder: Path) -> None:
    async def gone() -> bool:
        return not await asyncio.to_thread(folder.exists)

    await wait_until(gone, 30)


async def show(ground: Ground, video_id: UUID) -> dict[str, Any]:
    async with ground.database.connection() as connection:
        return await show_video(connection, video_id)


async def state(ground: Ground, video_id: UUID) -> str:
    return str((await show(ground, video_id))["state"])


async def again(ground: Ground, video_id: UUID, qualities: list[str] | None, **more: Any) -> int:
    async with ground.database.transaction() as connection:
        return await retranscode_video(
            connection, ground.enqueuer, ground.settings, video_id, qualities, **more
        )


async def retry(ground: Ground, video_id: UUID) -> list[str]:
    async with ground.database.transaction() as connection:
        return await retry_video(connection, ground.engine, ground.enqueuer, ground.settings, video_id)


async def playable(ground: Ground, video_id: UUID) -> list[str]:
    """The qualities that a player is offered, each with all its segments in place."""
    output = await ground.one("select output from videos where id = $1", video_id)
    qualities = []
    async with ground.database.connection() as connection:
        master = await find_file(connection, video_id, output, MASTER)
        for variant in read_master((ground.data / master.stored).read_text()).variants:
            quality = variant.playlist.removesuffix(".m3u8")
            segment = await find_file(connection, video_id, output, f"{quality}-00000.m4s")
            assert (ground.data / segment.stored).stat().st_size == segment.bytes
            qualities.append(quality)
    return qualities


async def captions(ground: Ground) -> str:
    return str(await ground.one("select captions from videos"))


@pytest.mark.spec("V1", "V2", "E1", "E6")
async def test_a_video_is_pending_with_its_job_then_processing_then_ready(ground: Ground) -> None:
    video_id = await ground.add()
    assert await state(ground, video_id) == "pending"
    (job,) = await ground.claim()
    assert await state(ground, video_id) == "processing"
    await keep_stream(ground, job, stream_of())
    await ground.finish(job, result_of())
    shown = await show(ground, video_id)
    assert (shown["state"], shown["duration_seconds"], shown["error"]) == ("ready", 10, None)


@pytest.mark.spec("V1", "E1")
async def test_a_video_whose_transaction_is_undone_has_no_job(ground: Ground) -> None:
    video_id = await ground.add()
    with pytest.raises(ConflictError):
        await ground.add(id=video_id)
    assert await ground.one("select count(*) from jobs") == 1


@pytest.mark.spec("V1")
async def test_slugs_are_made_from_titles_and_are_never_the_same(ground: Ground) -> None:
    ids = [await ground.add("Über den Wolken!") for _ in range(3)]
    slugs = {(await show(ground, id_))["slug"] for id_ in ids}
    assert len(slugs) == 3
    assert "uber-den-wolken" in slugs
    assert make_slug("東京") == "video"
    assert make_slug(str(ids[0])) == "video"


@pytest.mark.spec("V2", "V9", "E6")
async def test_a_failed_attempt_makes_it_pending_again_and_the_last_one_failed_with_the_error(
    ground: Ground,
) -> None:
    video_id = await ground.add()
    for attempt in (1, 2, 3):
        (job,) = await ground.claim(f"worker {attempt}")
        fate = await ground.fail(job, "the disk is full")
        await ground.run("update jobs set state = 'queued' where state = 'scheduled'")  # the back-off is over
        assert fate is (Fate.AGAIN if attempt < 3 else Fate.DEAD)
        shown = await show(ground, video_id)
        assert (shown["state"], shown["error"]) == (
            "pending" if attempt < 3 else "failed",
            "the disk is full",
        )
    assert await retry(ground, video_id) == ["video.transcode"]
    assert await state(ground, video_id) == "pending"
    await play_worker(ground, video_id)
    shown = await show(ground, video_id)
    assert (shown["state"], shown["error"]) == ("ready", None)


@pytest.mark.spec("V11", "E32")
async def test_a_video_that_fails_again_and_again_raises_an_alert(ground: Ground) -> None:
    object.__setattr__(ground.engine, "alerts_on", True)
    video_id = await ground.add()
    for attempt in (1, 2, 3):
        (job,) = await ground.claim(f"worker {attempt}")
        await ground.fail(job, "no")
        await ground.run("update jobs set state = 'queued' where state = 'scheduled'")
    assert await alerts(ground) == ["job_max_retries_exceeded"], "one job that is used up is no pattern"
    assert await retry(ground, video_id) == ["video.transcode"]
    (job,) = await ground.claim()
    await ground.fail(job, "no")
    assert await alerts(ground) == ["job_max_retries_exceeded", "job_failed_pattern"]
    assert await ground.one("select data ->> 'failures' from alerts where type = 'job_failed_pattern'") == "4"


@pytest.mark.spec("V11", "E32")
async def test_permanent_failures_of_a_video_add_up_whoever_tries_it_again(ground: Ground) -> None:
    object.__setattr__(ground.engine, "alerts_on", True)
    video_id = await ground.add()
    for failures in (1, 2, 3, 4):
        assert await alerts(ground) == (["job_failed"] if failures > 1 else [])
        (job,) = await ground.claim()
        await ground.fail(job, "it is damaged", permanent=True)
        if failures == 2:  # its dead letter is purged: the retry is another job
            await ground.run("delete from dead_jobs")
        assert await retry(ground, video_id) == ["video.transcode"]
    assert await alerts(ground) == ["job_failed", "job_failed_pattern"]


async def alerts(ground: Ground) -> list[str]:
    """The types of those that were raised, in order."""
    return list(await ground.one("select coalesce(array_agg(type order by id), '{}') from alerts"))


@pytest.mark.spec("V2", "E6")
async def test_a_job_that_is_handed_back_makes_its_video_pending(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await ground.report(job, parts={"360p": {"state": "in_progress", "segments_total": 3}})
    await hand_back(ground.database, ground.engine, job.worker_id, [job])
    shown = await show(ground, video_id)
    assert shown["state"] == "pending"
    assert [row["state"] for row in shown["qualities"]] == ["pending"]


@pytest.mark.spec("V3", "V5", "E4", "E31")
async def test_progress_is_kept_per_quality_and_told(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    told = {"state": "in_progress", "segments_total": 8, "segments_done": 2, "percent": 25.0, "error": None}
    await ground.report(job, "transcode", percent=30, parts={"720p": told, "nonsense": told, "360p": "?"})
    shown = await show(ground, video_id)
    (quality,) = shown["qualities"]
    assert {name: quality[name] for name in told} == told
    assert quality["quality"] == "720p"
    assert quality["started_at"] is not None
    assert (shown["step"], shown["percent"]) == ("transcode", 30)
    topic = "select count(*) from events where topic = 'job.progress' and subject = $1"
    assert await ground.one(topic, str(video_id)) == 1


@pytest.mark.spec("V9", "E31")
async def test_completion_is_told_to_the_listeners(ground: Ground) -> None:
    video_id = await ground.ready()
    rows = await ground.one(
        "select array_agg(data ->> 'state' order by id) from events "
        "where topic = 'video.changed' and subject = $1",
        str(video_id),
    )
    assert rows == ["pending", "processing", "ready"]


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    "missing", ["master.m3u8", "360p.m3u8", "360p-init.mp4", "360p-00001.m4s", "audio.m3u8"]
)
async def test_a_stream_that_is_not_whole_is_not_published(ground: Ground, missing: str) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    files = stream_of()
    del files[missing]
    await keep_stream(ground, job, files)
    settled = await ground.finish(job, result_of())
    assert "not whole" in settled.failed[job.id].error
    shown = await show(ground, video_id)
    assert (shown["state"], shown["output"]) == ("processing", None)
    await ground.keep(job, missing, *stream_of()[missing])  # by the same worker, which found what was missing
    assert (await ground.finish(job, result_of())).done == {job.id}
    assert await playable(ground, video_id) == ["360p"]


@pytest.mark.spec("V8", "E5")
async def test_a_result_that_comes_too_late_leaves_the_new_holders_files_alone(ground: Ground) -> None:
    video_id = await ground.add()
    (late,) = await ground.claim("late")
    await keep_stream(ground, late, stream_of(salt="late"))
    await hand_back(ground.database, ground.engine, late.worker_id, [late])
    (job,) = await ground.claim("new")
    assert (await ground.finish(late, result_of())).lost == {late.id}
    assert await state(ground, video_id) == "processing"
    await ground.keep(job, *next((name, *files) for name, files in stream_of(salt="new").items()))
    assert (await ground.finish(job, result_of())).done == {job.id}


@pytest.mark.spec("V8", "V6")
async def test_a_completion_that_was_cut_off_after_the_rename_can_be_done_again(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    target = ground.data / output_folder(video_id, job.id)
    (ground.data / kept_folder(job.id)).rename(target)  # killed before the commit
    assert (await ground.finish(job, result_of())).done == {job.id}
    assert await playable(ground, video_id) == ["360p"]


@pytest.mark.spec("V8", "V6")
async def test_whoever_claims_after_a_completion_that_was_cut_off_finds_what_was_kept(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    (ground.data / kept_folder(job.id)).rename(ground.data / output_folder(video_id, job.id))
    await hand_back(ground.database, ground.engine, job.worker_id, [job])
    (second,) = await ground.claim("another")
    assert await ground.kept(second) == set(stream_of())


@pytest.mark.spec("V6", "V16")
async def test_what_a_failed_video_had_finished_goes_unless_the_setting_keeps_it(ground: Ground) -> None:
    for clean in (True, False):
        object.__setattr__(ground.settings, "video_clean_partial", clean)
        await ground.add()
        (job,) = await ground.claim()
        await ground.keep(job, "360p-init.mp4", b"init")
        await ground.fail(job, "never", permanent=True)
        if clean:
            await until_gone(ground.data / kept_folder(job.id))
            assert await ground.kept(job) == set()
        else:
            assert await ground.kept(job) == {"360p-init.mp4"}


@pytest.mark.spec("V10")
async def test_a_retranscode_that_nobody_claims_changes_nothing(ground: Ground) -> None:
    video_id = await ground.ready(qualities=("720p", "360p"))
    await again(ground, video_id, ["720p"], transcript=True)
    shown = await show(ground, video_id)
    assert shown["state"] == "ready"
    assert {row["state"] for row in shown["qualities"]} == {"completed"}
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]
    with pytest.raises(VideoBusyError):
        await again(ground, video_id, None)


@pytest.mark.spec("V10", "V7")
async def test_a_retranscode_leaves_what_plays_until_the_new_stream_is_whole(ground: Ground) -> None:
    video_id = await ground.ready(qualities=("720p", "360p"))
    await play_captions(ground, ["Hello."])
    first = (await show(ground, video_id))["output"]
    await again(ground, video_id, ["720p"], transcript=True)
    (job,) = await ground.claim()
    await ground.report(job, parts={"720p": {"state": "in_progress", "percent": 50}})
    shown = await show(ground, video_id)
    assert (shown["state"], shown["output"], shown["captions_state"]) == ("processing", first, "ready")
    assert {row["quality"]: row["state"] for row in shown["qualities"]} == {
        "720p": "completed",
        "360p": "completed",
    }
    assert {row["quality"]: row["percent"] for row in shown["next_qualities"]} == {"720p": 50, "360p": 100}
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]
    kept = await ground.kept(job)
    assert "360p-00000.m4s" in kept
    assert "audio.m3u8" in kept
    assert not [name for name in kept if name.startswith("720p") or name == MASTER]
    await keep_stream(ground, job, stream_of(("720p", "360p"), salt="second"), ["360p", "audio"])
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]
    await ground.finish(job, result_of(("720p", "360p")))
    shown = await show(ground, video_id)
    assert (shown["state"], shown["output"], shown["next_qualities"]) == ("ready", job.id, [])
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]
    assert "second" in ((ground.data / output_folder(video_id, job.id)) / "720p-00000.m4s").read_text()
    assert "second" not in ((ground.data / output_folder(video_id, job.id)) / "360p-00000.m4s").read_text()
    assert "Hello." in await captions(ground)
    await play_captions(ground, ["Goodbye."])
    assert "Goodbye." in await captions(ground)


@pytest.mark.spec("V10", "V2")
async def test_a_retranscode_that_fails_leaves_what_plays_and_can_be_tried_again(ground: Ground) -> None:
    video_id = await ground.ready(qualities=("720p", "360p"))
    first = (await show(ground, video_id))["output"]
    await again(ground, video_id, None)
    (job,) = await ground.claim()
    await ground.keep(job, "720p-init.mp4", b"half of it")
    await ground.fail(job, "the disk is full", permanent=True)
    shown = await show(ground, video_id)
    assert (shown["state"], shown["output"], shown["error"]) == ("ready", first, "the disk is full")
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]
    await until_gone(ground.data / kept_folder(job.id))
    assert await retry(ground, video_id) == ["video.transcode"]
    await play_worker(ground, video_id, ("720p", "360p"), salt="second", worker="b")
    shown = await show(ground, video_id)
    assert (shown["state"], shown["output"], shown["error"]) == ("ready", job.id, None)
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]


@pytest.mark.spec("V10", "V6")
async def test_a_retranscode_of_everything_is_resumed_by_another_worker(ground: Ground) -> None:
    video_id = await ground.ready(qualities=("360p",))
    await again(ground, video_id, None)
    (job,) = await ground.claim()
    await ground.keep(job, *next((name, *files) for name, files in stream_of(salt="second").items()))
    await hand_back(ground.database, ground.engine, job.worker_id, [job])
    assert await state(ground, video_id) == "ready"
    assert await playable(ground, video_id) == ["360p"]
    (second,) = await ground.claim("another")
    assert len(await ground.kept(second)) == 1
    await keep_stream(ground, second, stream_of(salt="second"))
    await ground.finish(second, result_of())
    assert (await show(ground, video_id))["output"] == second.id
    assert await playable(ground, video_id) == ["360p"]


@pytest.mark.spec("V10", "V5")
@pytest.mark.parametrize("lost", ["720p", "sound"])
async def test_a_retranscode_that_lost_a_part_of_what_plays_is_not_shown(ground: Ground, lost: str) -> None:
    video_id = await ground.ready(qualities=("720p", "360p"))
    await again(ground, video_id, None)
    (job,) = await ground.claim()
    made = ("360p",) if lost == "720p" else ("720p", "360p")
    failed = {"720p": "no more memory"} if lost == "720p" else {}
    await keep_stream(ground, job, stream_of(made, audio=lost != "sound"))
    settled = await ground.finish(job, result_of(made, audio=lost != "sound", failed=failed))
    assert lost in settled.failed[job.id].error
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]


@pytest.mark.spec("V10", "V13")
async def test_captions_that_cannot_be_made_anew_stay_as_they_are(ground: Ground) -> None:
    video_id = await ground.ready()
    await play_captions(ground, ["Hello."])
    await again(ground, video_id, None, transcript=True)
    await play_worker(ground, video_id, salt="second")
    (job,) = await ground.claim(pool="captions")
    await ground.fail(job, "no model", permanent=True)
    shown = await show(ground, video_id)
    assert (shown["captions_state"], shown["captions_error"]) == ("ready", "no model")
    assert "Hello." in await captions(ground)
    assert await retry(ground, video_id) == ["video.transcribe"]
    await play_captions(ground, ["Goodbye."])
    shown = await show(ground, video_id)
    assert (shown["captions_state"], shown["captions_error"]) == ("ready", None)
    assert "Goodbye." in await captions(ground)


@pytest.mark.spec("V5", "V9")
async def test_which_worker_made_which_quality_is_kept_with_the_video(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim("cellar")
    done, doing = {"state": "completed", "percent": 100}, {"state": "in_progress", "percent": 40}
    await ground.report(job, parts={"360p": done, "720p": doing})
    await hand_back(ground.database, ground.engine, job.worker_id, [job])
    (job,) = await ground.claim("attic")
    await ground.report(job, parts={"360p": done, "720p": doing})
    await keep_stream(ground, job, stream_of(("720p", "360p")))
    await ground.finish(job, result_of(("720p", "360p")))
    assert await makers(ground, video_id) == {"720p": "attic", "360p": "cellar"}
    await again(ground, video_id, ["720p"])
    await play_worker(ground, video_id, ("720p",), worker="shed")
    await ground.run("delete from finished_jobs")
    assert await makers(ground, video_id) == {"720p": "shed", "360p": "cellar"}


async def makers(ground: Ground, video_id: UUID) -> dict[str, str]:
    return {row["quality"]: row["worker_name"] for row in (await show(ground, video_id))["qualities"]}


@pytest.mark.spec("V17")
async def test_what_is_made_again_does_not_delay_a_new_video_unless_somebody_says_so(ground: Ground) -> None:
    ready = [await ground.ready(f"Old {number}") for number in range(3)]
    await ground.run("delete from jobs")
    for video_id in ready:
        await again(ground, video_id, None, transcript=True)
    new = await ground.add("New")
    await set_priority(ground, ready[2], Priority.HIGH)
    jobs = [(await ground.claim())[0] for _ in range(4)]
    assert [job.subject_id for job in jobs] == [str(one) for one in (ready[2], new, ready[0], ready[1])]
    with pytest.raises(NotWaitingError):
        await set_priority(ground, new, Priority.HIGH)
    for job in reversed(jobs[:3]):
        await keep_stream(ground, job, stream_of())
        await ground.finish(job, result_of())
    heard = [(await ground.claim(pool="captions"))[0].subject_id for _ in range(3)]
    assert heard == [str(one) for one in (ready[2], new, ready[0])], "captions follow their video"


async def set_priority(ground: Ground, video_id: UUID, priority: Priority) -> None:
    async with ground.database.transaction() as connection:
        await set_video_priority(connection, video_id, priority)


@pytest.mark.spec("V10")
async def test_a_quality_that_there_is_not_is_refused_with_those_there_are(ground: Ground) -> None:
    video_id = await ground.ready()
    with pytest.raises(InvalidError, match="4711p"):
        await again(ground, video_id, ["4711p"])


@pytest.mark.spec("V13")
async def test_what_is_said_becomes_captions_and_is_found(ground: Ground) -> None:
    video_id = await ground.ready()
    await play_captions(ground, ["The heron stands still.", "Then it flies."])
    assert (await show(ground, video_id))["captions_state"] == "ready"
    captions = await ground.one("select captions from videos")
    assert captions.startswith("WEBVTT")
    assert "00:00:02.000 --> 00:00:04.000\nThen it flies." in captions
    async with ground.database.connection() as connection:
        assert [video["id"] for video in await list_videos(connection, words="heron flies")] == [
            str(video_id)
        ]
        assert await list_videos(connection, words="heron swims") == []


@pytest.mark.spec("V13")
async def test_captions_that_fail_leave_the_video_ready_and_can_be_tried_again(ground: Ground) -> None:
    video_id = await ground.ready()
    (job,) = await ground.claim(pool="captions")
    await ground.fail(job, "no model", permanent=True)
    shown = await show(ground, video_id)
    assert (shown["state"], shown["captions_state"], shown["captions_error"]) == (
        "ready",
        "failed",
        "no model",
    )
    assert await retry(ground, video_id) == ["video.transcribe"]
    await play_captions(ground, ["Now."])
    assert (await show(ground, video_id))["captions_state"] == "ready"
    with pytest.raises(ConflictError):
        await retry(ground, video_id)


async def test_a_silent_video_gets_no_job_for_captions(ground: Ground) -> None:
    video_id = await ground.ready(audio=False)
    assert (await show(ground, video_id))["captions_state"] == "silent"
    assert await ground.one("select count(*) from jobs") == 0


@pytest.mark.spec("V7", "V14", "E12")
async def test_a_deleted_video_is_not_claimed_and_goes_on_when_it_is_restored(ground: Ground) -> None:
    video_id = await ground.add()
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
    assert await ground.claim() == []
    async with ground.database.connection() as connection:
        assert await list_videos(connection) == []
        assert [video["id"] for video in await list_videos(connection, trash=True)] == [str(video_id)]
    async with ground.database.transaction() as connection:
        await restore_video(connection, video_id)
    await play_worker(ground, video_id)
    assert await state(ground, video_id) == "ready"


@pytest.mark.spec("V14")
async def test_a_video_that_is_deleted_while_it_is_made_is_ready_when_it_is_restored(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
    await keep_stream(ground, job, stream_of())
    assert (await ground.finish(job, result_of())).done == {job.id}
    async with ground.database.transaction() as connection:
        await restore_video(connection, video_id)
    assert await playable(ground, video_id) == ["360p"]


@pytest.mark.spec("V14")
async def test_an_erased_video_is_gone_with_its_files_and_jobs(ground: Ground) -> None:
    video_id, other = await ground.ready(), await ground.ready("Another")
    async with ground.database.transaction() as connection:
        with pytest.raises(ConflictError):
            await erase_video(connection, ground.data, video_id)
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
    assert await empty_trash(ground.database, ground.data) == 1
    await until_gone(ground.data / video_folder(video_id))
    with pytest.raises(UnknownVideoError):
        await show(ground, video_id)
    assert await ground.one("select count(*) from jobs where subject_id = $1", str(video_id)) == 0
    assert await playable(ground, other) == ["360p"]


@pytest.mark.spec("V14")
async def test_a_video_that_is_erased_while_it_is_made_takes_its_result_with_it(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
        await erase_video(connection, ground.data, video_id)
    assert (await ground.finish(job, result_of())).failed == {}
    assert await ground.one("select count(*) from videos") == 0
    assert await ground.one("select count(*) from kept_files") == 0


@pytest.mark.spec("V2", "V14")
async def test_completion_and_deletion_at_once_never_leave_a_half(ground: Ground) -> None:
    async def delete(video_id: UUID) -> None:
        async with ground.database.transaction() as connection:
            await delete_video(connection, video_id)
            await erase_video(connection, ground.data, video_id)

    for _ in range(8):
        video_id = await ground.add()
        (job,) = await ground.claim()
        await keep_stream(ground, job, stream_of())
        await asyncio.gather(ground.finish(job, result_of()), delete(video_id))
        assert await ground.one("select count(*) from videos") == 0
        await until_gone(ground.data / video_folder(video_id))


@pytest.mark.spec("V8")
@pytest.mark.parametrize(
    "result",
    [None, [], {"duration_seconds": "long", "qualities": []}, {"duration_seconds": 1}, {"qualities": [1]}],
)
async def test_a_result_that_makes_no_sense_is_a_failed_attempt(ground: Ground, result: Any) -> None:
    await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    assert job.id in (await ground.finish(job, result)).failed


@pytest.mark.spec("V13")
@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "derivatives/001/9-1/segments.json"])
async def test_a_transcript_cannot_name_a_file_that_is_not_its_own(ground: Ground, path: str) -> None:
    video_id = await ground.ready()
    (job,) = await ground.claim(pool="captions")
    result = {"facts": {"segments": [], "language": 7}, "files": {"segments.json": {"path": path}}}
    assert (await ground.finish(job, result)).done == {job.id}
    assert (await show(ground, video_id))["captions_state"] == "silent"


@pytest.mark.spec("V1", "V14")
async def test_title_category_and_slug_can_be_changed_and_are_checked(ground: Ground) -> None:
    video_id, other = await ground.add("One"), await ground.add("Two")
    async with ground.database.transaction() as connection:
        await edit_video(connection, video_id, title="The first", category="sea", slug="the-first")
        assert (await show_video(connection, "the-first"))["id"] == str(video_id)
        assert [video["id"] for video in await list_videos(connection, category="sea")] == [str(video_id)]
    for bad in ({"slug": "Bad Slug"}, {"slug": str(other)}, {"title": " "}, {"title": "x" * 201}):
        async with ground.database.transaction() as connection:
            with pytest.raises(InvalidError):
                await edit_video(connection, video_id, **bad)
    with pytest.raises(ConflictError):
        async with ground.database.transaction() as connection:
            await edit_video(connection, other, slug="the-first")


async def test_lists_go_on_behind_the_last_one_shown(ground: Ground) -> None:
    ids = [str(await ground.add(f"Video {number}")) for number in range(5)]
    async with ground.database.connection() as connection:
        first = await list_videos(connection, amount=2)
        rest = await list_videos(connection, before=UUID(first[-1]["id"]), amount=10)
    assert [video["id"] for video in (*first, *rest)] == ids[::-1]


async def test_a_stream_whose_folder_was_lost_is_not_published(ground: Ground) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    await keep_stream(ground, job, stream_of())
    shutil.rmtree(ground.data / kept_folder(job.id))
    settled = await ground.finish(job, result_of())
    assert "not whole" in settled.failed[job.id].error
    assert await state(ground, video_id) == "processing"


@pytest.mark.spec("V16")
@pytest.mark.parametrize("encoder", ["auto", "software", "nvenc", "qsv", "vaapi"])
@pytest.mark.parametrize("critical", ["lowest", "720p"])
async def test_every_setting_of_a_ladder_is_understood_by_the_processor(
    ground: Ground, encoder: str, critical: str
) -> None:
    settings = ground.settings.model_copy(
        update={
            "video_encoder": encoder,
            "video_critical": critical,
            "video_preset": "slow",
            "video_segment_seconds": 6.0,
            "video_resume": False,
        }
    )
    ground.settings = settings
    await ground.add()
    (job,) = await ground.claim()
    request = Request.read(json.loads(job.payload_json))
    assert (request.critical, request.preset, float(request.segment_seconds)) == (critical, "slow", 6.0)
    assert request.resume is False
    assert request.encoder in ("auto", "libx264", f"h264_{encoder}")

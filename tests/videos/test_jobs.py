"""A video moves only with its job: claimed, released, failed, completed; retried, retranscoded, deleted, erased."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mediamill.engine.settle import Fate, hand_back
from mediamill.errors import ConflictError, InvalidError
from mediamill.media.hls import MASTER, read_master
from mediamill.processors.transcode.request import Request
from mediamill.staging.kept import kept_folder
from mediamill.videos.again import retranscode_video, retry_video
from mediamill.videos.edit import edit_video
from mediamill.videos.look import list_videos, show_video
from mediamill.videos.model import UnknownVideoError, VideoBusyError, make_slug, output_folder, video_folder
from mediamill.videos.playback import NoSuchFileError, find_file, master_text
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
    """The qualities that a player is offered; none if there is no stream."""
    output = await ground.one("select output from videos where id = $1", video_id)
    try:
        text = await master_text(ground.database, ground.data, video_id, output)
    except NoSuchFileError:
        return []
    return [variant.playlist.removesuffix(".m3u8") for variant in read_master(text).variants]


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
async def test_a_claimed_retranscode_takes_the_named_qualities_with_their_rows_and_leaves_the_others(
    ground: Ground,
) -> None:
    video_id = await ground.ready(qualities=("720p", "360p"))
    await play_captions(ground, ["Hello."])
    first = (await show(ground, video_id))["output"]
    await again(ground, video_id, ["720p"], transcript=True)
    (job,) = await ground.claim()
    shown = await show(ground, video_id)
    assert (shown["state"], shown["captions_state"]) == ("processing", "none")
    assert [row["quality"] for row in shown["qualities"]] == ["360p"]
    assert await playable(ground, video_id) == ["360p"]
    async with ground.database.connection() as connection:
        with pytest.raises(NoSuchFileError):
            await find_file(connection, video_id, first, "720p-00000.m4s")
        found = await find_file(connection, video_id, first, "360p-00000.m4s")
    assert (ground.data / found.stored).is_file()
    kept = await ground.kept(job)
    assert "360p-00000.m4s" in kept
    assert "audio.m3u8" in kept
    assert not [name for name in kept if name.startswith("720p") or name == MASTER]
    await keep_stream(ground, job, stream_of(("720p", "360p"), salt="second"), ["360p", "audio"])
    await ground.finish(job, result_of(("720p", "360p")))
    shown = await show(ground, video_id)
    assert (shown["state"], shown["output"]) == ("ready", job.id)
    assert sorted(await playable(ground, video_id)) == ["360p", "720p"]
    old = ground.data / output_folder(video_id, first)
    await until_gone(old)
    assert "second" in ((ground.data / output_folder(video_id, job.id)) / "720p-00000.m4s").read_text()
    assert "second" not in ((ground.data / output_folder(video_id, job.id)) / "360p-00000.m4s").read_text()
    assert shown["captions_state"] == "pending"


@pytest.mark.spec("V10")
async def test_a_retranscode_of_everything_that_is_tried_twice_works(ground: Ground) -> None:
    video_id = await ground.ready(qualities=("360p",))
    await again(ground, video_id, None)
    (job,) = await ground.claim()
    assert await playable(ground, video_id) == []
    [old] = (ground.data / video_folder(video_id)).glob("[0-9]*")
    await hand_back(ground.database, ground.engine, job.worker_id, [job])
    await play_worker(ground, video_id, ("360p",), salt="second", worker="b")
    assert await playable(ground, video_id) == ["360p"]
    await until_gone(old)


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

"""What a video's job makes, when its end is cut off and when another attempt goes by other rules."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.libraries.model import output_folder
from mediamill.libraries.video_output import output_of
from mediamill.staging.kept import kept_folder
from tests.libraries.played import VIDEOS, Ground, ground
from tests.libraries.tagged import asset

__all__ = ["ground"]

RELEASE = "update jobs set state = 'queued', run_after = now(), worker_id = null, claimed_at = null"


@pytest.mark.spec("L7")
async def test_a_job_whose_end_was_cut_off_after_the_rename_has_its_files_back(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.close_scene(job, 1)
    await ground.keep(job, "clip.mp4", b"clip")
    shown = ground.data / output_folder(1, output_of(job.id))
    shown.parent.mkdir(parents=True)
    (ground.data / kept_folder(job.id)).rename(shown)  # and then the machine stopped
    await ground.run(RELEASE)
    (again,) = await ground.claim("b", pool=VIDEOS)
    assert await ground.kept(again) == {"scene-00001.jpg", "clip.mp4"}
    assert not shown.exists()
    await ground.play_video(again)
    assert (await asset(ground))["status"] == "proxied"
    assert {path.name for path in shown.iterdir()} >= {"scene-00001.jpg", "scene-00002.jpg", "clip.mp4"}


@pytest.mark.spec("L7", "L8")
async def test_scenes_that_an_earlier_attempt_found_by_other_rules_are_replaced(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    for number in (1, 2, 3):
        await ground.close_scene(job, number)
    await ground.run("update video_scenes set end_ts = end_ts + 1")
    await ground.run(RELEASE)
    (again,) = await ground.claim("b", pool=VIDEOS)
    await ground.play_video(again, scenes=2)
    found = "select array_agg(number || ': ' || start_ts || '-' || end_ts order by number) from video_scenes"
    assert await ground.one(found) == ["1: 5-10", "2: 10-15"]


@pytest.mark.spec("L6", "L9")
async def test_of_what_a_worker_says_of_a_video_only_what_makes_sense_is_kept(ground: Ground) -> None:
    await ground.library(videos=3)
    await ground.feed()
    jobs = sorted(await ground.claim(pool=VIDEOS, amount=3), key=lambda job: int(job.subject_id or 0))
    frames = [
        {"file": "frame-000000500.jpg", "timestamp_ms": 500, "is_keyframe": True},
        {"file": "frame-000000900.jpg", "timestamp_ms": 900, "is_keyframe": True},
        {"file": "../secret.jpg", "timestamp_ms": 7, "is_keyframe": True},
        {"file": "frame-000001500.jpg", "timestamp_ms": 1500, "is_keyframe": False},
    ]
    results: list[dict[str, Any]] = [
        {"width": 999_999, "height": 1, "duration_seconds": 0, "taken_at": "2024-05-31T12:00:00+02:00"},
        {"width": 1_000_000, "height": 0, "duration_seconds": -1, "facts": {"codec": "x"}},
        {"width": "640", "height": None, "duration_seconds": "11"},
    ]
    for job, result in zip(jobs, results, strict=True):
        for name in ("frame-000000500.jpg", "frame-000001500.jpg"):
            await ground.keep(job, name, b"frame")
        await ground.finish(job, {"frames": frames, "digest": "00ff", "segmentation_version": "v", **result})
    columns = "width, height, duration_seconds, facts, shown_at = '2024-05-31 12:00', video_preview_path"
    assert await ground.one(f"select array_agg(({columns})::text order by id) from assets") == [
        "(999999,1,0,{},t,)",
        '(,,,"{""codec"": ""x""}",f,)',
        "(,,,{},f,)",
    ]
    shown = "select array_agg(timestamp_ms || ' ' || is_keyframe order by timestamp_ms) from video_frames"
    assert await ground.one(f"{shown} where asset_id = 1") == ["500 true", "1500 false"]
    assert await ground.one("select array_agg(distinct segmentation_version) from assets") == ["v"]
    assert await ground.one("select array_agg(distinct encode(proxy_digest, 'hex')) from assets") == ["00ff"]


@pytest.mark.spec("L6")
async def test_a_scene_whose_report_was_lost_is_known_from_its_file(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    for number in (1, 2, 3):
        facts: dict[str, Any] = {
            "number": number,
            "start_seconds": number,
            "end_seconds": number + 1,
            "sharpness": 1.0,
        }
        facts |= {"keep_reason": "phash", "file": f"scene-0000{number}.jpg"}
        await ground.keep(job, f"scene-0000{number}.jpg", b"scene", facts)
    await ground.finish(job, {"scene_count": 2, "digest": "00ff"})
    assert await ground.one("select array_agg(number order by number) from video_scenes") == [1, 2]
    assert await ground.counts("kept_files") == [0]


@pytest.mark.spec("L6")
@pytest.mark.parametrize(
    "odd",
    [
        None,
        {"file": "scene-1.jpg"},
        {"file": "../../scene-00001.jpg"},
        {"keep_reason": "because"},
    ],
)
async def test_a_scene_that_makes_no_sense_is_none(ground: Ground, odd: dict[str, Any] | None) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    scene: dict[str, Any] = {"number": 1, "start_seconds": 0.0, "end_seconds": 5.0, "sharpness": 1.0}
    scene |= {"file": "scene-00001.jpg", "keep_reason": "temporal"}
    await ground.report(job, "scenes", parts={"scene": None if odd is None else {**scene, **odd}})
    assert await ground.counts("video_scenes") == [0]
    await ground.report(job, "scenes", parts={"scene": scene})
    assert await ground.counts("video_scenes") == [1]


@pytest.mark.spec("L3")
async def test_a_file_that_is_no_media_leaves_the_library(ground: Ground) -> None:
    await ground.library(videos=2)
    await ground.feed()
    program, film = await ground.claim(pool=VIDEOS, amount=2)
    await ground.finish(program, {"is_video": False})
    await ground.play_video(film)
    assert await ground.one("select array_agg(id) from assets") == [int(film.subject_id or 0)]
    assert await ground.counts("kept_files", "dead_jobs") == [0, 0]


@pytest.mark.spec("L7", "L8")
async def test_a_video_that_waits_again_begins_without_what_was_found_before(ground: Ground) -> None:
    await ground.library(videos=2)
    await ground.complete()
    await ground.run(
        "insert into video_frames (asset_id, library, timestamp_ms, is_keyframe, frame_path)"
        " select id, 1, 1500, true, '' from assets"
    )
    await ground.run("update assets set status = 'pending' where id = 1")
    assert await ground.feed() == 1
    assert await ground.counts("video_scenes", "video_frames") == [2, 1]
    assert await ground.one("select bool_and(asset_id = 2) from video_scenes")

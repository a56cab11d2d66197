"""What a video's job makes, when its end is cut off and when another attempt goes by other rules."""

from __future__ import annotations

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

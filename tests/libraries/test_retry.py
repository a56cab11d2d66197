"""Another try for what failed: from the step that failed, and no file is read twice for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mediamill.libraries.retry import retry_asset, retry_failed
from mediamill.media.errors import MissingMediaError
from mediamill.processors.library.tag import read_small
from tests.libraries.played import IMAGES, TAGS, VIDEOS, Ground, ground
from tests.libraries.tagged import asset, proxied

__all__ = ["ground"]


@pytest.mark.spec("L10")
async def test_what_only_a_tagger_failed_at_is_retried_without_reading_the_file_again(ground: Ground) -> None:
    (job,) = await proxied(ground)
    before = (await asset(ground))["output"]
    await ground.fail(job, "refused", permanent=True)
    assert (await asset(ground))["error_code"] == "tag_failed"
    async with ground.database.transaction() as connection:
        await retry_asset(connection, 1)
    found = await asset(ground)
    assert (found["status"], found["output"], found["error_code"]) == ("proxied", before, None)
    assert await ground.feed() == 1
    assert await ground.claim(pool=TAGS)


async def test_a_file_that_failed_after_it_changed_is_read_again_when_it_is_retried(ground: Ground) -> None:
    """Its old previews are there, but they are not of this file."""
    await ground.library(images=1)
    await ground.complete()
    await ground.run("update assets set status = 'pending', mtime_ns = 1")  # as a scan that finds it changed
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    await ground.fail(job, "the image is damaged", permanent=True)
    assert (await asset(ground))["error_code"] == "proxy_failed"
    async with ground.database.transaction() as connection:
        assert await retry_failed(connection, "photos") == 1
    assert (await asset(ground))["status"] == "pending"


@pytest.mark.spec("L10")
async def test_previews_that_somebody_deleted_are_made_anew(ground: Ground, tmp_path: Path) -> None:
    (job,) = await proxied(ground)
    with pytest.raises(MissingMediaError) as missing:
        read_small(tmp_path / "deleted", "preview.webp")
    await ground.fail(job, str(missing.value), permanent=True)
    found = await asset(ground)
    assert (found["status"], found["retry_count"]) == ("pending", 1)
    await ground.complete()
    found = await asset(ground)
    assert (found["status"], found["error"], found["error_code"]) == ("completed", None, None)


@pytest.mark.spec("L7")
@pytest.mark.parametrize("all_of_it", [False, True])
async def test_a_video_that_failed_half_way_resumes_when_it_is_retried(
    ground: Ground, all_of_it: bool
) -> None:
    await ground.library(videos=1, images=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.close_scene(job, 1)
    await ground.fail(job, "the disk is broken", permanent=True)
    async with ground.database.transaction() as connection:
        if all_of_it:
            assert await retry_failed(connection, "photos") == 1
        else:
            await retry_asset(connection, int(job.subject_id or 0))
    found = await asset(ground, int(job.subject_id or 0))
    assert (found["status"], found["retry_count"], found["error"]) == ("extracting", 0, None)
    (again,) = await ground.claim(pool=VIDEOS)
    assert (again.id, json.loads(again.checkpoint_json or "null")) == (job.id, {"scenes": 1})
    await ground.play_video(again)
    assert await ground.counts("video_scenes", "dead_jobs") == [2, 0]


@pytest.mark.spec("L7")
@pytest.mark.parametrize("change", ["sampling_limit = 5", 'sampling_policy = \'{"mode": "windows"}\'', None])
async def test_a_video_that_is_made_otherwise_by_now_or_got_nowhere_begins_anew(
    ground: Ground, change: str | None
) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    if change:
        await ground.close_scene(job, 1)
        await ground.run(f"update libraries set {change}")
    await ground.fail(job, "the disk is broken", permanent=True)
    async with ground.database.transaction() as connection:
        await retry_asset(connection, 1)
    assert (await asset(ground))["status"] == "pending"
    await ground.feed()
    (fresh,) = await ground.claim(pool=VIDEOS)
    assert fresh.id != job.id

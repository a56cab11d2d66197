"""Other rules of scenes: videos that were cut by other ones are indexed again, the others stay as they are."""

from __future__ import annotations

import pytest

from mediamill.libraries.invalidate import BATCH, invalidate_scenes
from mediamill.processors.video.scenes import SceneRules
from tests.libraries.played import TAGS, Ground, ground

__all__ = ["ground"]

OTHER = SceneRules(debounce_seconds=2.0).segmentation_version


@pytest.mark.spec("L8")
async def test_videos_of_other_rules_lose_their_scenes_and_are_indexed_again(ground: Ground) -> None:
    await ground.library(images=1, videos=3)
    await ground.complete()
    assert await invalidate_scenes(ground.database) == 0
    await ground.run("update assets set segmentation_version = $1 where rel_path = 'video-0000001'", OTHER)
    await ground.run("update assets set segmentation_version = null where rel_path = 'video-0000002'")
    assert await invalidate_scenes(ground.database) == 1
    pending = "select array_agg(rel_path) from assets where status = 'pending'"
    assert await ground.one(pending) == ["video-0000001"]
    assert await ground.counts("video_scenes", "search_vectors") == [4, 10]
    assert await ground.one("select output is not null from assets where rel_path = 'video-0000001'")
    await ground.complete()
    assert await ground.counts("video_scenes", "search_vectors") == [6, 14]
    assert await invalidate_scenes(ground.database) == 0
    assert await ground.one("select bool_and(status = 'completed') from assets")


@pytest.mark.spec("L8")
async def test_what_is_in_the_trash_vanished_or_at_hand_is_left_alone(ground: Ground) -> None:
    await ground.library(videos=2)
    await ground.complete()
    await ground.run("update assets set segmentation_version = $1", OTHER)
    await ground.remove()
    assert await invalidate_scenes(ground.database) == 0
    await ground.restore()
    await ground.run("update assets set vanished_at = now() where rel_path = 'video-0000001'")
    await ground.run("update assets set status = 'proxied' where rel_path = 'video-0000002'")
    await ground.feed()
    assert await invalidate_scenes(ground.database) == 0
    (job,) = await ground.claim(pool=TAGS)
    await ground.play_tag(job)
    assert await invalidate_scenes(ground.database) == 1
    assert await ground.counts("video_scenes") == [2]


@pytest.mark.spec("L8")
async def test_many_are_done_in_batches_and_frames_of_the_window_sampler_are_no_scenes(
    ground: Ground,
) -> None:
    await ground.library(videos=BATCH + 2)
    await ground.run("update assets set status = 'completed', segmentation_version = $1", OTHER)
    await ground.run("update assets set segmentation_version = 'windows-1' where rel_path = 'video-0000001'")
    assert await invalidate_scenes(ground.database) == BATCH + 1
    assert await ground.one("select count(*) from assets where status = 'completed'") == 1

"""Making again what is there, by other settings: one asset, or all of a kind."""

from __future__ import annotations

import pytest

from mediamill.libraries.edit import edit_library
from mediamill.libraries.remake import NothingToRemakeError, What, remake_asset, remake_some
from tests.libraries.played import IMAGES, TAGS, VIDEOS, Ground, ground

__all__ = ["ground"]

pytestmark = pytest.mark.spec("L23")


async def test_other_settings_are_applied_to_a_video_that_is_there(ground: Ground) -> None:
    await ground.library(images=1, videos=1)
    await ground.complete()
    video = int(await ground.one("select id from assets where type = 'video'"))
    async with ground.database.transaction() as connection:
        await edit_library(connection, "photos", mode="windows", sampling_limit=7)
        await remake_asset(connection, video)
    assert await ground.feed() == 1, "nothing else is made again"
    (job,) = await ground.claim(pool=VIDEOS)
    assert (job.subject_id, '"windows"' in job.payload_json, '"sampling_limit": 7' in job.payload_json) == (
        str(video),
        True,
        True,
    )
    async with ground.database.transaction() as connection:
        with pytest.raises(NothingToRemakeError, match="extracting"):
            await remake_asset(connection, video)


@pytest.mark.parametrize(
    ("what", "names"), [("raw", ["image-1"]), ("images", ["image-1", "image-2"]), ("all", None)]
)
async def test_all_of_a_kind_are_made_again_and_nothing_of_another_library(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, what: What, names: list[str] | None
) -> None:
    monkeypatch.setattr("mediamill.libraries.remake.REMADE_AT_ONCE", 2)
    await ground.library("Others", images=2)
    await ground.library(images=2, videos=1)
    await ground.complete()
    await ground.run("update assets set facts = '{\"format\": \"RAW\"}' where rel_path like 'image-%1'")
    async with ground.database.transaction() as connection:
        after: int | None = 0
        total = 0
        while after is not None:
            some, after = await remake_some(connection, "photos", what, after)
            total += some
    again = "select array_agg(rel_path::text order by rel_path) from assets where status = 'pending'"
    found = [f"{path[:6]}{path[-1]}" for path in await ground.one(again)]
    assert (total, found) == (len(found), names or ["image-1", "image-2", "video-1"])


async def test_a_picture_that_comes_out_the_same_is_not_looked_at_again(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.complete()
    async with ground.database.transaction() as connection:
        for asset_id in (1, 2):
            await remake_asset(connection, asset_id)
    await ground.feed()
    for job in await ground.claim(pool=IMAGES, amount=2):
        result = await ground.write_image(job)
        if job.subject_id == "1":
            digest = "select encode(proxy_digest, 'hex') from assets where id = 1"
            result["digest"] = await ground.one(digest)
        await ground.finish(job, result)
    await ground.feed()
    known = {
        str(job.subject_id): '"known"' in job.payload_json for job in await ground.claim(pool=TAGS, amount=2)
    }
    assert known == {"1": True, "2": False}

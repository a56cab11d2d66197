"""A video is found by its facts and by what is said in it; not before it can be watched, and not in the trash."""

from __future__ import annotations

from uuid import UUID

import pytest

from mediamill.search.find import search
from mediamill.search.model import Hit, Wanted
from mediamill.videos.edit import edit_video
from mediamill.videos.trash import delete_video, erase_video, restore_video
from tests.videos.played import Ground


async def find(ground: Ground, words: str) -> list[Hit]:
    async with ground.database.connection() as connection:
        return (await search(connection, Wanted(words=words))).hits


async def write_down(ground: Ground) -> None:
    [job] = await ground.claim("b", "captions")
    segments = [
        {"start": 0.0, "end": 4.0, "text": "welcome to the sea"},
        {"start": 41.5, "end": 45.0, "text": "look at that lighthouse"},
    ]
    await ground.finish(job, {"facts": {"language": "en", "segments": segments}})


@pytest.mark.spec("L12")
async def test_a_video_is_found_with_the_moment_at_which_something_is_said(ground: Ground) -> None:
    await ground.ready("A day at the sea")
    await write_down(ground)
    await ground.add("A day in the hills")
    assert await find(ground, "hills") == []
    [hit] = await find(ground, "lighthouses")
    assert (hit.source, hit.title, hit.url) == (
        "video",
        "A day at the sea",
        "/videos/a-day-at-the-sea?t=41.5",
    )
    assert [moment.at_seconds for moment in hit.moments] == [41.5]


@pytest.mark.spec("L12")
async def test_edits_trash_and_erasing_are_followed(ground: Ground) -> None:
    video_id: UUID = await ground.ready("A day at the sea")
    async with ground.database.transaction() as connection:
        await edit_video(connection, video_id, title="A night at the pier", slug="pier")
    assert await find(ground, "sea") == []
    [hit] = await find(ground, "pier")
    assert hit.url == "/videos/pier"
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
    assert await find(ground, "pier") == []
    async with ground.database.transaction() as connection:
        await restore_video(connection, video_id)
    assert len(await find(ground, "pier")) == 1
    async with ground.database.transaction() as connection:
        await delete_video(connection, video_id)
        await erase_video(connection, ground.data, video_id)
    assert await ground.one("select count(*) from search_entries") == 0

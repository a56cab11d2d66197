"""A video is found by its facts and by what is said in it; not before it can be watched, and not in the trash."""

from __future__ import annotations

from uuid import UUID

import pytest

from mediamill.search.find import search
from mediamill.search.model import Hit, Wanted
from mediamill.videos.edit import edit_video
from mediamill.videos.findable import fill_findable
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


@pytest.mark.spec("L12", "V13")
async def test_a_jump_to_a_word_in_the_middle_of_a_passage_goes_to_the_word(ground: Ground) -> None:
    await ground.ready("A day at the sea")
    (job,) = await ground.claim(pool="captions")
    segments = [
        {"start": 0.0, "end": 4.0, "text": "1 < 2, and welcome to the sea."},
        {"start": 5.0, "end": 9.0, "text": "The wind is cold today."},
        {"start": 18.0, "end": 20.0, "text": "A heron stands there."},
    ]
    await ground.finish(job, {"facts": {"language": "en", "segments": segments}})
    for word, at in (("heron", 18), ("wind", 5), ("welcome", 0)):
        [hit] = await find(ground, word)
        assert (hit.url, hit.moments[0].at_seconds) == (f"/videos/a-day-at-the-sea?t={at}", at)
        assert "times" not in hit.facts


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


@pytest.mark.spec("L12")
async def test_videos_from_before_there_was_a_search_are_put_into_it_with_what_is_said(
    ground: Ground,
) -> None:
    for number in range(3):
        await ground.ready(f"Day {number} at the sea")
        await write_down(ground)
    await ground.add("Not ready yet")
    await ground.run("delete from search_entries")
    assert await fill_findable(ground.database, batch=2) == 3
    assert len(await find(ground, "sea")) == 3
    assert len(await find(ground, "lighthouse")) == 3
    assert await find(ground, "ready") == []
    assert await fill_findable(ground.database, batch=2) == 0


async def test_what_is_found_though_it_is_gone_or_called_otherwise_is_put_right(ground: Ground) -> None:
    gone, trashed, renamed = [await ground.ready(title) for title in ("One", "Two", "Three")]
    await ground.run("delete from videos where id = $1", gone)
    await ground.run("update videos set deleted_at = now() where id = $1", trashed)
    await ground.run("update videos set title = 'Lighthouse' where id = $1", renamed)
    assert await fill_findable(ground.database, batch=2) == 3
    assert [len(await find(ground, word)) for word in ("one", "two", "three", "lighthouse")] == [0, 0, 0, 1]

"""What media of messages became can be found, and goes with the bot."""

from __future__ import annotations

import json

import pytest

from mediamill.conversations.bots import delete_bot
from mediamill.conversations.findable import fill_findable
from mediamill.search.find import search
from mediamill.search.model import Hit, Wanted
from tests.conversations.conftest import Ground, send_media


async def find(ground: Ground, words: str) -> list[Hit]:
    async with ground.database.connection() as connection:
        return (await search(connection, Wanted(words=words))).hits


@pytest.mark.spec("L12")
async def test_a_voice_note_is_found_by_what_is_said_and_by_its_caption(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "g-1", caption="listen")
    await ground.finish(*await ground.claim(), text="the harbour is frozen")
    await keeper.deliver_once()
    [hit] = await find(ground, "frozen harbours")
    assert (hit.source, hit.type, hit.url) == ("message", "audio", "/bots/bot/line/ann")
    assert [one.id for one in await find(ground, "listen")] == [hit.id]


async def test_a_failure_is_not_found(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "g-1", caption="my cat")
    [job] = await ground.claim()
    await ground.fail(job, "the file is damaged", notice="[The file is damaged]")
    await keeper.deliver_once()
    assert await find(ground, "damaged") == []


async def test_with_the_bot_its_entries_go(ground: Ground) -> None:
    keeper, queues = await ground.run()
    await send_media(queues, "g-1", caption="listen")
    await ground.finish(*await ground.claim(), text="the harbour is frozen")
    await keeper.deliver_once()
    await ground.until_stored("listen\n\nthe harbour is frozen")  # else the two may wait for each other
    async with ground.database.transaction() as connection:
        await connection.execute("update bots set running = false")
        await delete_bot(connection, "bot")
    assert await find(ground, "frozen") == []


async def store_media(ground: Ground, *texts: str) -> None:
    """Voice notes of Ann that said this, stored for good."""
    keeper, queues = await ground.run()
    for number, text in enumerate(texts):
        await send_media(queues, f"g-{number}", caption="listen")
        await ground.finish(*await ground.claim(), text=text)
    await keeper.deliver_once()
    await ground.until_row("select count(*) = $1 from queues", len(texts))


async def execute(ground: Ground, *statements: str) -> None:
    async with ground.database.connection() as connection:
        for statement in statements:
            await connection.execute(statement)


@pytest.mark.spec("L12")
async def test_media_from_before_there_was_a_search_are_put_into_it(ground: Ground) -> None:
    await store_media(ground, "the harbour is frozen", "the harbour is open", "good night")
    await execute(ground, "delete from search_entries", "delete from arrivals")
    assert await fill_findable(ground.database, batch=2) == 3
    hits = await find(ground, "harbour")
    assert len(hits) == 2
    assert (hits[0].source, hits[0].type, hits[0].url) == ("message", "audio", "/bots/bot/line/ann")
    assert await fill_findable(ground.database, batch=2) == 0


async def test_what_failed_is_not_put_into_it(ground: Ground) -> None:
    await store_media(ground, "the harbour is frozen")
    await execute(
        ground,
        "delete from search_entries",
        """update queues set media = media || '{"failed_reason": "no"}'""",
    )
    assert await fill_findable(ground.database) == 0
    assert await find(ground, "harbour") == []


async def test_another_name_of_a_conversation_is_followed(ground: Ground) -> None:
    await store_media(ground, "the harbour is frozen")
    await execute(ground, "update conversations set display_name = 'Ann of Green Gables'")
    assert await fill_findable(ground.database) == 1
    [hit] = await find(ground, "gables")
    assert hit.title == "Ann of Green Gables"


async def test_entries_of_bots_that_are_gone_go(ground: Ground) -> None:
    await store_media(ground, "the harbour is frozen")
    await execute(
        ground,
        """insert into search_entries (source, subject, title, search_vector)
        select 'message', subject, 'left', findable('left', null, null, null)
        from unnest('{bo/1,bot-2/1,bot-2/2,bot0/1}'::text[]) subject""",
    )
    assert len(await find(ground, "left")) == 4
    assert await fill_findable(ground.database) == 3
    assert await find(ground, "left") == []
    assert len(await find(ground, "harbour")) == 1


async def test_a_hit_says_what_it_is_where_it_is_and_when_it_came(ground: Ground) -> None:
    keeper, queues = await ground.run()
    types = {"audio/ogg": "audio", "image/png": "image", "video/mp4": "video", "text/plain": "document"}
    for number, mime_type in enumerate(types):
        await send_media(
            queues,
            f"g-{number}",
            mime_type=mime_type,
            correspondent_id="a/b c",
            original_filename=f"file{number}.bin" if number else None,
        )
    await ground.finish(*await ground.claim(), text="the harbour")
    await keeper.deliver_once()
    rows = await ground.rows("select facts, title, url, subject from search_entries order by subject")
    for number, (mime_type, sort) in enumerate(types.items()):
        facts, title, url, subject = rows[number]
        assert json.loads(facts) == {
            "type": sort,
            "mime_type": mime_type,
            "file": f"file{number}.bin" if number else None,
            "bot_id": "bot",
            "provider_name": "line",
            "correspondent_id": "a/b c",
            "message_id": number + 1,
        }
        assert (title, url, subject) == ("Ann", "/bots/bot/line/a%2Fb%20c", f"bot/g-{number}")
    await execute(ground, "update conversations set display_name = ' '")
    await ground.until_row("select count(*) = 4 from queues")
    assert await fill_findable(ground.database) == 4
    assert {hit.title for hit in await find(ground, "harbour")} == {"a/b c"}
    assert len(await find(ground, "file2.bin")) == 1


async def test_an_exact_batch_is_filled_and_a_message_without_an_id_of_its_file_is_passed_by(
    ground: Ground,
) -> None:
    await store_media(ground, "the harbour is frozen", "the harbour is open")
    await execute(
        ground, "delete from search_entries", "update queues set media = media - 'guid' where id = 1"
    )
    assert await fill_findable(ground.database, batch=2) == 1
    assert await ground.rows("select subject from search_entries") == [("bot/g-1",)]

"""What media of messages became can be found, and goes with the bot."""

from __future__ import annotations

import pytest

from mediamill.conversations.bots import delete_bot
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
    async with ground.database.transaction() as connection:
        await connection.execute("update bots set running = false")
        await delete_bot(connection, "bot")
    assert await find(ground, "frozen") == []

"""The webhook on a real server: its secret, its bounds, and updates that come all at once and in no order."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.db.connection import Database
from mediamill.providers.telegram.door import BODY_BYTES
from mediamill.providers.telegram.secret import webhook_secret
from mediamill.testing.telegram_server import TOKEN, TelegramServer
from tests.api.serving import Served, serve
from tests.telegram.grounds import Ground, png

HEADER = "X-Telegram-Bot-Api-Secret-Token"
SECRET = webhook_secret(TOKEN)
PATH = "/api/telegram/bot/webhook"


@asynccontextmanager
async def hooked(
    database: Database, telegram: TelegramServer, folder: Path, **settings: Any
) -> AsyncIterator[tuple[Ground, Served]]:
    """A server with a bot to which Telegram brings its updates."""
    async with serve(database, folder, telegram_url=telegram.url, **settings) as served:
        ground = Ground(served.app.state.wired, telegram, keeper=served.keeper)
        ground.tasks.append(asyncio.create_task(served.keeper.run()))
        await ground.create(mode="webhook", webhook_url=served.url)
        await ground.until_running()
        yield ground, served
        await ground.end()


@pytest.fixture
async def door(
    database: Database, telegram: TelegramServer, tmp_path: Path, quick: None
) -> AsyncIterator[tuple[Ground, Served]]:
    async with hooked(database, telegram, tmp_path) as opened:
        yield opened


Door = tuple[Ground, Served]


def photo(ground: Ground, update_id: int, user: int) -> dict[str, Any]:
    return update(update_id, user, photo=[{"file_id": ground.telegram.put_file(png(update_id)), "width": 9}])


def update(update_id: int, user: int, **content: Any) -> dict[str, Any]:
    chat = {"id": user, "type": "private", "first_name": "Ann"}
    return {
        "update_id": update_id,
        "message": {"message_id": update_id, "chat": chat, "from": chat, **content},
    }


async def knock(served: Served, body: Any, secret: str | None = SECRET, **headers: str) -> httpx.Response:
    given = headers if secret is None else {HEADER: secret, **headers}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await served.client.post(PATH, content=content, headers=given)


@pytest.mark.spec("I8")
async def test_telegram_brings_updates_to_the_door(door: Door) -> None:
    ground, served = door
    assert ground.telegram.webhook["url"] == f"{served.url}{PATH}"
    assert ground.telegram.webhook["secret_token"] == SECRET
    ground.telegram.send_album([png(1), png(2)])
    ground.telegram.say("describe")
    await ground.until(ground.runs)
    await ground.until_taken()
    assert await ground.runs() == [("describe", [png(1), png(2)])]
    assert ground.telegram.count("getUpdates") == 0


async def test_without_its_secret_the_door_stays_shut(door: Door) -> None:
    ground, served = door
    for secret in (None, "", "wrong", SECRET[:-1], f"{SECRET}x"):
        answer = await knock(served, update(1, 5, text="hello"), secret)
        assert (answer.status_code, answer.json()["code"]) == (403, "denied")
    answer = await served.client.post("/api/telegram/other/webhook", json={}, headers={HEADER: SECRET})
    assert answer.status_code == 403
    assert await ground.one("select count(*) from telegram_updates") == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (b"[" * 100_000, 422),
        (b'{"update_id": "1"}', 422),
        (b'{"update_id": 1, "x": "' + b"a" * BODY_BYTES + b'"}', 413),
        (b'{"update_id": 1, "message": {"text": "\\u0000\\ud800", "n": 1e999}}', 200),
        (b'{"update_id": 99999999999999999999999}', 200),
    ],
)
async def test_whatever_comes_has_an_answer(door: Door, body: bytes, status: int) -> None:
    ground, served = door
    assert (await knock(served, body)).status_code == status
    await ground.until_taken()


async def test_a_bot_that_polls_has_no_door(
    database: Database, telegram: TelegramServer, tmp_path: Path, quick: None
) -> None:
    async with serve(database, tmp_path, telegram_url=telegram.url) as served:
        ground = Ground(served.app.state.wired, telegram, keeper=served.keeper)
        await ground.create()
        await served.keeper.keep_once()
        assert (await knock(served, update(1, 5, text="hello"))).status_code == 403


async def test_the_webhook_is_reached_by_any_name_and_needs_no_admin_secret(
    database: Database, telegram: TelegramServer, tmp_path: Path, quick: None
) -> None:
    async with hooked(database, telegram, tmp_path, host="0.0.0.0") as (_, served):
        assert (await served.client.get("/api/bots")).status_code == 401
        assert (await knock(served, update(1, 5, text="hello"), "wrong")).status_code == 403
        assert (await knock(served, update(1, 5, text="hello"), Host="mill.example.com")).status_code == 200
        assert (await served.client.get(PATH, headers={HEADER: SECRET})).status_code == 401


@pytest.mark.spec("I5", "I8")
async def test_fifty_updates_at_once_are_each_kept_and_their_images_have_places_in_order(door: Door) -> None:
    ground, served = door
    users = range(1, 6)
    updates = [photo(ground, 100 * user + number, user) for user in users for number in range(10)]
    random.shuffle(updates)
    assert ground.provider._parts is not None
    room = ground.provider._parts.consumer._room
    for _ in range(8):
        await room.acquire()  # nothing is taken before all have come
    answers = await asyncio.gather(*(knock(served, each) for each in [*updates, *updates[:10]]))
    assert {answer.status_code for answer in answers} == {200}
    for _ in range(8):
        room.release()
    await ground.until_taken()
    for user in users:
        sql = "select position, image_bytes from input_images where user_key = $1 order by position"
        assert await ground.rows(sql, str(user)) == [
            (number, png(100 * user + number)) for number in range(10)
        ]


@pytest.mark.spec("I5")
async def test_fifty_updates_taken_as_they_come_have_fifty_places(door: Door) -> None:
    ground, served = door
    updates = [photo(ground, 100 * user + number, user) for user in range(1, 6) for number in range(10)]
    random.shuffle(updates)
    answers = await asyncio.gather(*(knock(served, each) for each in updates))
    assert {answer.status_code for answer in answers} == {200}
    await ground.until_taken()
    rows = await ground.rows(
        "select user_key, array_agg(position order by position) from input_images group by 1"
    )
    assert sorted(rows) == [(str(user), list(range(10))) for user in range(1, 6)]


@pytest.mark.spec("I8")
async def test_of_two_texts_at_once_after_an_album_one_gets_the_images(door: Door) -> None:
    ground, served = door
    for number in range(0, 100, 10):
        album = [photo(ground, number + 1, 5), photo(ground, number + 2, 5)]
        for each in album:
            each["message"]["media_group_id"] = f"album {number}"
            await knock(served, each)
        await ground.until_taken()
        texts = [update(number + each, 5, text=f"text {each}") for each in (3, 4)]
        await asyncio.gather(*(knock(served, each) for each in random.sample(texts, 2)))
        await ground.until_taken()
        rows = await ground.rows("select image_count from runs order by sequence desc limit 2")
        assert sorted(row[0] for row in rows) == [0, 2]
    assert await ground.one("select count(*) from runs") == 20
    assert await ground.pending() == []

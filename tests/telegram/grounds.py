"""A bot on a loopback Telegram: a real keeper on a real database, and images of a few bytes."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from mediamill.app import App, make_keeper
from mediamill.conversations import bots
from mediamill.conversations.bots import BotConfig
from mediamill.conversations.keeper import BotKeeper, BotNotRunningError
from mediamill.providers.telegram.provider import TelegramProvider
from mediamill.testing.telegram_server import ANN, TOKEN, TelegramServer
from tests.conftest import wait_until

AGENT = {"by": "openai", "prompt": "Be brief.", "model": "special"}
SECONDS = 60.0


def png(number: int = 0) -> bytes:
    """One pixel, of a colour of its own."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack("!I", len(data)) + kind + data + struct.pack("!I", zlib.crc32(kind + data))

    head = struct.pack("!IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    pixel = zlib.compress(b"\0" + bytes((number % 256, number // 256 % 256, 7)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixel) + chunk(b"IEND", b"")


@dataclass
class Ground:
    """Everything but Telegram and the agent is real; runs are answered by `answer_runs`."""

    app: App
    telegram: TelegramServer
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    keeper: BotKeeper | None = None
    access: dict[str, Any] = field(default_factory=lambda: {"mode": "open", "groups": "mentioned"})

    async def create(self, reply: dict[str, Any] | None = None, **part: Any) -> None:
        """The bot `bot`, which should run."""
        given = {
            "providers": {"telegram": {"token": TOKEN, **part}},
            "reply": reply or AGENT,
            "access": self.access,
        }
        async with self.app.database.transaction() as connection:
            await bots.create_bot(connection, "bot", BotConfig.model_validate(given))
            await bots.start_bot(connection, "bot")

    async def run(self, reply: dict[str, Any] | None = None, **part: Any) -> None:
        """Create it, and run it until it is connected."""
        await self.create(reply, **part)
        self.begin()
        await self.until_running()

    def begin(self) -> None:
        """Somebody runs bots."""
        self.keeper = make_keeper(self.app)
        self.tasks.append(asyncio.create_task(self.keeper.run()))

    async def end(self) -> None:
        """Nobody does any more."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()

    async def until_running(self) -> None:
        """It is connected a moment before it counts as running."""
        await self.until_state("connected")

        def is_running() -> bool:
            with contextlib.suppress(BotNotRunningError):
                return bool(self.provider)
            return False

        await self.until(is_running)

    @property
    def provider(self) -> TelegramProvider:
        assert self.keeper is not None
        provider = self.keeper.get("bot").providers["telegram"]
        assert isinstance(provider, TelegramProvider)
        return provider

    async def status(self) -> dict[str, Any]:
        async with self.app.database.connection() as connection:
            found: dict[str, Any] = (await bots.show_bot(connection, "bot"))["status"].get("telegram", {})
            return found

    async def until_state(self, state: str) -> dict[str, Any]:
        status: dict[str, Any] = {}

        async def there() -> bool:
            nonlocal status
            status = await self.status()
            return status.get("state") == state

        try:
            await wait_until(there, SECONDS)
        except TimeoutError:
            assert status == {"state": state}
        return status

    async def until(self, condition: Callable[[], Awaitable[object] | object]) -> None:
        async def met() -> object:
            found = condition()
            return await found if isinstance(found, Awaitable) else found

        await wait_until(met, SECONDS)

    async def until_texts(self, *texts: str, chat: int = ANN) -> None:
        """What the bot has said in a chat, all of it."""
        try:
            await self.until(lambda: self.telegram.texts(chat) == list(texts))
        except TimeoutError:
            assert self.telegram.texts(chat) == list(texts)

    async def until_taken(self) -> None:
        """Telegram has handed over everything, and all of it is taken."""
        await self.until(lambda: not self.telegram.waiting)
        await self.until_row(
            "select not exists (select from telegram_updates where state = 'new') "
            "and not exists (select from telegram_acks where state <> 'told')"
        )

    async def until_row(self, sql: str, *args: Any) -> None:
        await self.until(lambda: self.one(sql, *args))

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.app.database.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        async with self.app.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(sql, *args)]

    async def messages(self) -> list[str]:
        """What people have said, in the order of ids."""
        rows = await self.rows(
            "select message ->> 'content', id from arrivals "
            "where message is not null and message ->> 'source' = 'user' "
            "union select content, id from queues where source = 'user' order by 2"
        )
        return [row[0] for row in rows]

    async def runs(self) -> list[tuple[str, list[bytes]]]:
        """The text of each run, with the images that wait for it in their order."""
        rows = await self.rows(
            "select r.text, array(select i.image_bytes from input_images i where i.run_id = r.run_id "
            "order by i.position, i.input_image_id) from runs r order by r.sequence"
        )
        return [(text, list(images)) for text, images in rows]

    async def pending(self) -> list[bytes]:
        """Images that wait for a text."""
        rows = await self.rows(
            "select image_bytes from input_images where run_id is null order by thread_key, user_key, position"
        )
        return [row[0] for row in rows]

    async def answer_runs(self) -> None:
        """Play the agent once: every run that is queued is done."""
        await self.one(
            "with done as (update runs set state = 'completed', answer = 'answer to ' || text, ended_at = now() "
            "where state = 'queued' returning run_id) select count(pg_notify('mediamill_runs', run_id::text)) from done"
        )

"""What the phases share: a database, bots that run in this process, a worker with pretending processors."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mediamill.app import App, make_keeper, open_app
from mediamill.conversations import bots
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.bots import BotConfig
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.model import USER, Message, Sender, owner_of
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.settings import Settings
from mediamill.staging import staging_folder
from mediamill.worker.supervisor import Supervisor

ANN = Sender("ann", "Ann")


@dataclass
class Ground:
    """A server's worth of bots, and when each message was finished."""

    app: App
    keeper: BotKeeper
    finished: dict[tuple[str, int], float] = field(default_factory=dict)  # (bot, message id) -> when

    def queues(self, bot_id: str) -> BotQueuesManager:
        return self.keeper.get(bot_id).queues["chat"]

    async def run_bots(self, count: int) -> list[str]:
        """New bots that answer nothing, only remember when a message was finished."""
        names = [f"b{uuid.uuid4().hex[:8]}" for _ in range(count)]
        async with self.app.database.transaction() as connection:
            for name in names:
                await bots.create_bot(connection, name, BotConfig())
                await bots.start_bot(connection, name)
        await self.keeper.keep_once()
        for name in names:
            self.queues(name).register_callback(self._note(name))
        return names

    def _note(self, bot_id: str) -> Callable[[str, Message], None]:
        def note(_correspondent_id: str, message: Message) -> None:
            self.finished[bot_id, message.id] = time.monotonic()

        return note

    async def hold(self, names: list[str], *, on: bool) -> None:
        """Let nothing of these bots be worked on until everything waits; or begin."""
        async with self.app.database.transaction() as connection:
            for name in names:
                await (hold_owner if on else release_owner)(connection, owner_of(name))

    def stage(self, size_bytes: int) -> str:
        """A file as a bridge would have put it there."""
        guid = str(uuid.uuid4())
        folder = staging_folder(self.app.settings.data_folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / guid).write_bytes(OGG + os.urandom(size_bytes))
        return guid

    async def send_media(self, bot_id: str, guid: str, mime_type: str = "audio/ogg") -> Message:
        message = await self.queues(bot_id).add_message(
            "ann", "", ANN, USER, media_processing_id=guid, mime_type=mime_type
        )
        assert message is not None
        return message

    async def say(self, bot_id: str, text: str) -> Message:
        message = await self.queues(bot_id).add_message("ann", text, ANN, USER)
        assert message is not None
        return message

    async def until(self, condition: Callable[[], Awaitable[bool]], limit_seconds: float = 600) -> None:
        async with asyncio.timeout(limit_seconds):
            while not await condition():  # noqa: ASYNC110
                await asyncio.sleep(0.02)


# Enough of an Ogg file with Opus to be taken for one.
OGG = b"OggS\x00\x02" + bytes(20) + b"\x01\x13OpusHead\x01\x01\x38\x01\x80\xbb\x00\x00\x00\x00\x00"


@asynccontextmanager
async def open_ground(folder: Path, *, audio_seconds: float, workers: int = 1) -> AsyncIterator[Ground]:
    """Everything up, with the stub processors in the pools of sound and video."""
    os.environ |= {
        "MEDIAMILL_DATA": str(folder),
        "MEDIAMILL_STUB_AUDIO_SECONDS": str(audio_seconds),
        "MEDIAMILL_LOG_LEVEL": "ERROR",
    }
    settings = Settings()
    async with open_app(settings, wait_seconds=60) as app:
        async with app.database.connection() as connection:
            await connection.execute(
                "update pools set processor = 'stub-' || name, concurrency = 8 where name in ('audio', 'video')"
            )
        ground = Ground(app, make_keeper(app))
        running = asyncio.create_task(ground.keeper.run())
        supervisor = Supervisor(workers)
        supervisor.start()
        try:
            yield ground
        finally:
            await supervisor.stop()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

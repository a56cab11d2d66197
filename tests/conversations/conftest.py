"""A keeper on a fresh database, and a worker's part played by hand: claim, finish, fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mediamill.app import all_kinds
from mediamill.conversations import bots
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.bots import BotConfig, ReplyConfig
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.model import USER, Message, Sender
from mediamill.conversations.provider import BotContext, NotConnectedError
from mediamill.conversations.reply import Answerer, EchoAnswerer
from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import ClaimedJob, Failure
from mediamill.engine.pools import list_pools
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Fate, Finish, Settled, fail_job, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.settings import Settings
from tests.conftest import wait_until

ANN = Sender("ann@example", "Ann")
OPEN = {"mode": "open", "groups": "always", "messages_per_day": 0}


@dataclass
class Line:
    """A chat network that only remembers what was sent, once by its id."""

    sent: dict[str, tuple[str, str]] = field(default_factory=dict)
    tries: int = 0
    connected: bool = True
    contexts: list[BotContext] = field(default_factory=list)
    quotas: list[float] = field(default_factory=list)

    def change_quota(self, quota_gb: float) -> None:
        self.quotas.append(quota_gb)

    def __call__(self, context: BotContext) -> Line:
        self.contexts.append(context)
        return self

    async def start(self) -> None:
        await self.contexts[-1].tell_status({"state": "connected"})

    async def stop(self) -> None:
        await self.contexts[-1].tell_status({"state": "stopped"})

    async def send(self, recipient: str, text: str, send_id: str) -> str:
        self.tries += 1
        if not self.connected:
            raise NotConnectedError
        self.sent[send_id] = (recipient, text)
        return send_id


@dataclass
class Ground:
    """Everything but the chat network and the worker is real."""

    database: Database
    engine: Engine
    enqueuer: Enqueuer
    settings: Settings
    line: Line = field(default_factory=Line)
    answerer: Answerer = field(default_factory=EchoAnswerer)
    keepers: list[BotKeeper] = field(default_factory=list)
    is_closed: bool = False
    _claimer: Claimer | None = None

    def keeper(self) -> BotKeeper:
        """Another process, as far as the database can tell."""
        made = BotKeeper(self.database, self.engine, self.enqueuer, self.settings, {"line": self.line}, self)
        self.keepers.append(made)
        return made

    def of(self, config: ReplyConfig) -> Answerer | None:
        return None if config.by == "none" else self.answerer

    async def close(self) -> None:
        self.is_closed = True

    async def create(self, bot_id: str = "bot", *, start: bool = True, **config: Any) -> None:
        given = BotConfig.model_validate({"providers": {"line": {}}, "access": OPEN, **config})
        async with self.database.transaction() as connection:
            await bots.create_bot(connection, bot_id, given)
            if start:
                await bots.start_bot(connection, bot_id)

    async def start(self, bot_id: str = "bot") -> None:
        async with self.database.transaction() as connection:
            await bots.start_bot(connection, bot_id)

    async def stop(self, bot_id: str = "bot") -> int:
        async with self.database.transaction() as connection:
            return await bots.stop_bot(connection, bot_id)

    async def run(self, bot_id: str = "bot", **config: Any) -> tuple[BotKeeper, BotQueuesManager]:
        """A bot that runs, without the keeper's own loops: tests take its steps."""
        await self.create(bot_id, **config)
        keeper = self.keeper()
        await keeper.keep_once()
        return keeper, keeper.get(bot_id).queues["line"]

    async def claim(self) -> list[ClaimedJob]:
        """Every job that waits, in the hands of a worker."""
        async with self.database.connection() as connection:
            if self._claimer is None:
                id_ = await register_worker(connection, name="worker")
                self._claimer = Claimer(id_, "worker", self.engine.kinds)
            claimed: list[ClaimedJob] = []
            for pool in await list_pools(connection):
                claimed += await self._claimer.claim_jobs(connection, pool, 1000)
            return claimed

    async def finish(self, *jobs: ClaimedJob, text: str = "the text") -> Settled:
        finishes = [Finish(job, json.dumps({"content": text})) for job in jobs]
        return await finish_jobs(self.database, self.engine, jobs[0].worker_id, finishes)

    async def fail(self, job: ClaimedJob, error: str = "broken", **more: Any) -> Fate:
        failure = Failure(error, more.pop("permanent", True), **more)
        async with self.database.transaction() as connection:
            pools = {pool.name: pool for pool in await list_pools(connection)}
            return await fail_job(connection, self.engine, job, failure, pools[job.pool])

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def rows(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        async with self.database.connection() as connection:
            return [tuple(row) for row in await connection.fetch(sql, *args)]

    async def until_row(self, sql: str, *args: Any) -> None:
        """Until the statement gives something true."""

        async def true() -> bool:
            return bool(await self.one(sql, *args))

        await wait_until(true, 30)

    async def stored(self, bot_id: str = "bot") -> list[str]:
        """The stored contents, in the true order."""
        sql = "select content from queues where bot_id = $1 order by correspondent_id, id"
        return [row[0] for row in await self.rows(sql, bot_id)]

    async def until_stored(self, *contents: str, bot_id: str = "bot") -> None:
        async def there() -> bool:
            return await self.stored(bot_id) == list(contents)

        try:
            await wait_until(there, 30)
        except TimeoutError:
            assert await self.stored(bot_id) == list(contents)


async def say(queues: BotQueuesManager, text: str, **more: Any) -> Message | None:
    """A text from Ann."""
    return await queues.add_message("ann", text, ANN, USER, **more)


async def send_media(
    queues: BotQueuesManager, guid: str, caption: str = "", mime_type: str = "audio/ogg", **more: Any
) -> Message | None:
    """A media message from Ann."""
    return await queues.add_message(
        more.pop("correspondent_id", "ann"),
        caption,
        ANN,
        USER,
        media_processing_id=guid,
        mime_type=mime_type,
        **more,
    )


@pytest.fixture
async def ground(database: Database, tmp_path: Path) -> AsyncIterator[Ground]:
    """All that a bot needs."""
    settings = Settings(data=tmp_path, ingest_seconds=0.05)
    engine = Engine.from_settings(settings, all_kinds(settings))
    made = Ground(database, engine, Enqueuer(engine.kinds), settings)
    yield made
    for keeper in made.keepers:
        async with asyncio.timeout(120):
            await keeper.stop_all()

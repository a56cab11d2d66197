"""Everything is off for five hours while a thousand media messages wait: nothing is given up, all is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.app import all_kinds
from mediamill.conversations import bots
from mediamill.conversations.bots import BotConfig, ReplyConfig
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.model import CHAT, USER, Sender
from mediamill.conversations.reply import Answerer
from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import ClaimedJob
from mediamill.engine.pools import list_pools
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Finish, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.providers.chat import ChatProvider
from mediamill.settings import Settings
from tests.crash.processes import Mill
from tests.outages import let_time_pass

BOTS, MESSAGES = 50, 20
ANN = Sender("ann", "Ann")
CONNECTED = "select count(*) = $1 from bots where status -> 'chat' ->> 'state' = 'connected'"
TURNS = "select count(*) = 2 from counters where name in ('janitor_turn', 'arrivals_turn') and value > $1"
NOW = "select (extract(epoch from now()) * 1000000)::bigint"
ANSWERED = "select count(*) = $1 from replies where state in ('sent', 'failed')"


class Nobody:
    """The server of before the outage answers nobody any more."""

    def of(self, _config: ReplyConfig) -> Answerer | None:
        return None

    async def close(self) -> None:
        """There is nothing to end."""


@pytest.fixture
async def mill(database: Database, new_url: str, tmp_path: Path) -> AsyncIterator[Mill]:
    """A server whose only worker is the test, and whose janitors come round all the time."""
    assert database.url == new_url
    settings = {"MEDIAMILL_WORKER_PROCESSES": "0", "MEDIAMILL_JANITOR_SECONDS": "0.2"}
    mill = Mill(tmp_path, new_url, settings=settings)
    yield mill
    mill.close()


async def receive_all(database: Database, engine: Engine, settings: Settings) -> None:
    """A server takes the messages in, and is gone before any of them is processed."""
    config = BotConfig.model_validate({"providers": {"chat": {}}, "reply": {"by": "echo"}})
    async with database.transaction() as connection:
        for bot in range(BOTS):
            await bots.create_bot(connection, f"bot-{bot}", config)
            await bots.start_bot(connection, f"bot-{bot}")
    keeper = BotKeeper(database, engine, Enqueuer(engine.kinds), settings, {CHAT: ChatProvider}, Nobody())
    await keeper.keep_once()

    async def receive(bot: int) -> None:
        queues = keeper.get(f"bot-{bot}").queues[CHAT]
        for number in range(MESSAGES):
            guid = f"{bot}-{number}"
            media: dict[str, Any] = {
                "media_processing_id": guid,
                "mime_type": "audio/ogg",
                "provider_message_id": guid,
            }
            await queues.add_message("ann", "", ANN, USER, **media)

    await asyncio.gather(*map(receive, range(BOTS)))
    await keeper.stop_all()


async def process_all(database: Database, engine: Engine) -> int:
    """As a worker would that is quick. How many."""
    async with database.connection() as connection:
        worker = await register_worker(connection, name="worker")
        [pool] = [pool for pool in await list_pools(connection) if pool.name == "audio"]
    claimer, count = Claimer(worker, "worker", engine.kinds), 0

    async def claim() -> list[ClaimedJob]:
        async with database.connection() as connection:
            return await claimer.claim_jobs(connection, pool, 100)

    while jobs := await claim():
        texts = [Finish(job, json.dumps({"content": f"text of {job.subject_id}"})) for job in jobs]
        count += len((await finish_jobs(database, engine, worker, texts)).done)
    return count


@pytest.mark.spec("E34", "C22", "C23")
async def test_a_thousand_media_messages_survive_an_outage_of_five_hours(
    mill: Mill, database: Database
) -> None:
    settings = Settings(data=mill.folder / "data")
    engine = Engine.from_settings(settings, all_kinds(settings))
    await receive_all(database, engine, settings)
    await let_time_pass(database, 1, served=True)
    await let_time_pass(database, 5, served=False)
    await mill.started("up")
    await mill.until(CONNECTED, BOTS)
    for _ in range(2):  # the janitors of a server, and once more with all of its bots
        await mill.until(TURNS, await mill.one(NOW))
    assert await process_all(database, engine) == BOTS * MESSAGES
    await mill.until(ANSWERED, BOTS * MESSAGES)
    async with database.connection() as connection:
        rows = await connection.fetch(
            "select bot_id, array_agg(answer order by ended_at) as answers from replies group by bot_id"
        )
    assert {row["bot_id"]: row["answers"] for row in rows} == {
        f"bot-{bot}": [f"You said: text of {bot}-{number}" for number in range(MESSAGES)]
        for bot in range(BOTS)
    }
    assert await mill.one("select count(*) from dead_jobs") == 0

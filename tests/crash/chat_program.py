"""A bot's whole life in one process, which kills itself with -9 at a named point of its way to the database.

`python -m tests.crash.chat_program` reads lines of [url, folder, point]; each is a process of its own (forked, because
starting Python takes longer than the rest), and its exit code is the answer. A point is `statement/before`, `/after`
(not committed yet, in a transaction) or `/committed`, with `/2` behind it for the second time.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from mediamill.app import all_kinds
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.bots import ReplyConfig
from mediamill.conversations.keeper import BotKeeper, BotNotRunningError
from mediamill.conversations.model import USER, Sender
from mediamill.conversations.provider import BotContext
from mediamill.conversations.reply import Answerer, EchoAnswerer
from mediamill.db.connection import Connection, Database
from mediamill.db.queries import Query
from mediamill.engine.claim import Claimer
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.pools import list_pools
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.recovery.sweep import run_chore
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Finish, finish_jobs
from mediamill.engine.workers import register_worker
from mediamill.settings import Settings

ANN = Sender("ann@example", "Ann")
MESSAGES: tuple[dict[str, Any], ...] = (
    {"content": "one", "provider_message_id": "p-1"},
    {
        "content": "see",
        "provider_message_id": "p-2",
        "media_processing_id": "guid-2",
        "mime_type": "audio/ogg",
    },
    {"content": "three", "provider_message_id": "p-3"},
)
SAID = ("one", "see\n\nthe text", "three")
NETWORK = "create table network (send_id text primary key, text text not null)"
DONE = """
    select (select count(*) = 3 from replies where state = 'sent') and (select count(*) = 6 from queues)
        and not exists (select from arrivals where state <> 'stored')
"""


class Network:
    """A chat network that keeps what was sent, once by its id."""

    def __init__(self, database: Database, context: BotContext) -> None:
        self._database, self.context = database, context

    async def start(self) -> None:
        """It is there."""

    async def stop(self) -> None:
        """It goes."""

    async def send(self, _recipient: str, text: str, send_id: str) -> str:
        hit("send/before")
        async with self._database.connection() as connection:
            await connection.execute(
                "insert into network values ($1, $2) on conflict do nothing", send_id, text
            )
        hit("send/after")
        return send_id


class Echo:
    """Everybody gets an echo."""

    def of(self, _config: ReplyConfig) -> Answerer:
        return EchoAnswerer()

    async def close(self) -> None:
        """There is nothing to end."""


async def live(url: str, folder: Path, *, until_done: bool = True) -> None:
    """Until every message is stored and answered, or until it is killed; a network sends again what it has sent."""
    database = await Database.open(url, connections=10)
    settings = Settings(data=folder, ingest_seconds=0.02)
    engine = Engine.from_settings(settings, all_kinds(settings))
    enqueuer = Enqueuer(engine.kinds)
    keeper = BotKeeper(database, engine, enqueuer, settings, {"line": partial(Network, database)}, Echo())
    running = asyncio.create_task(keeper.run())
    try:
        async with asyncio.timeout(60):
            queues = await _queues(keeper)
            for message in MESSAGES:
                await queues.add_message("ann", sender=ANN, source=USER, **message)
            await _work(database, engine, until_done)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await database.close()


async def _queues(keeper: BotKeeper) -> BotQueuesManager:
    while True:
        try:
            return keeper.get("bot").queues["line"]
        except BotNotRunningError:
            await asyncio.sleep(0.01)


async def _work(database: Database, engine: Engine, until_done: bool) -> None:
    """The worker's part. What a dead one held is free again; what it asked for last may be done after its death."""
    async with database.connection() as connection:
        claimer = Claimer(await register_worker(connection, name="w"), "w", engine.kinds)
        pools = await list_pools(connection)
    while True:
        async with database.connection() as connection:
            await connection.execute(
                "update jobs set lease_expires_at = now() - interval '1 hour' where state = 'running'"
            )
        await run_chore(database, engine, release_expired)
        async with database.connection() as connection:
            jobs = [job for pool in pools for job in await claimer.claim_jobs(connection, pool, 10)]
        for job in jobs:
            await finish_jobs(database, engine, job.worker_id, [Finish(job, '{"content": "the text"}')])
        async with database.connection() as connection:
            if until_done and await connection.fetchval(DONE):
                return
        await asyncio.sleep(0.01)


_point, _hits = "", Counter[str]()


def hit(point: str) -> None:
    """Here; if this is the place to die, die."""
    _hits[point] += 1
    if _point in (point, f"{point}/{_hits[point]}"):
        os.kill(os.getpid(), signal.SIGKILL)


def die_at(point: str) -> None:
    """Watch every statement and every commit of this process."""
    global _point
    _point = point
    statements: dict[int, list[str]] = {}

    def watch(method: str) -> None:
        original = getattr(Query, method)

        async def watched(query: Query, connection: Connection, **given: Any) -> Any:
            name = f"{query.name} {given['state']}" if query.name == "move_reply" else query.name
            hit(f"{name}/before")
            result = await original(query, connection, **given)
            hit(f"{name}/after")
            statements.get(id(connection), []).append(name)
            return result

        setattr(Query, method, watched)

    for method in ("rows", "row", "value", "run"):
        watch(method)
    transaction = Database.transaction

    @asynccontextmanager
    async def watched(database: Database) -> AsyncIterator[Connection]:
        async with transaction(database) as connection:
            names = statements.setdefault(id(connection), [])
            try:
                yield connection
            finally:
                statements.pop(id(connection), None)
        for name in names:
            hit(f"{name}/committed")

    setattr(Database, "transaction", watched)  # noqa: B010 - mypy does not like a method replaced


def run_child(url: str, folder: str, point: str) -> int:
    """A life until its end; the exit code."""
    pid = os.fork()
    if pid == 0:
        die_at(point)
        asyncio.run(live(url, Path(folder), until_done=False))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    for line in sys.stdin:
        print(run_child(*json.loads(line)), flush=True)

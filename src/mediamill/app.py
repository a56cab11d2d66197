"""The only wiring: settings, then the database, then kinds, processors and doors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mediamill.db.connection import Database
from mediamill.db.embedded import EmbeddedServer
from mediamill.db.migrate import upgrade
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.rules import Engine
from mediamill.settings import Settings
from mediamill.testing import kinds as scripted


@dataclass(frozen=True, slots=True)
class App:
    """One process's mediamill: its settings, database and engine."""

    settings: Settings
    database: Database
    engine: Engine
    enqueuer: Enqueuer


def all_kinds(more: Iterable[JobKind] = ()) -> Kinds:
    """Every job kind that there is."""
    return Kinds((*scripted.KINDS, *more))


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    name: str = "mediamill",
    wait_seconds: float = 10,
    kinds: Iterable[JobKind] = (),
) -> AsyncIterator[App]:
    """The embedded server if none is given, the schema up to date, a pool of connections; all closed at the end."""
    async with database_url(settings) as url:
        database = await Database.open(
            url, connections=settings.database_connections, name=name, wait_seconds=wait_seconds
        )
        try:
            await upgrade(url)
            engine = Engine.from_settings(settings, all_kinds(kinds))
            yield App(settings, database, engine, Enqueuer(engine.kinds, engine.payload_limit_bytes))
        finally:
            await database.close()


@asynccontextmanager
async def database_url(settings: Settings) -> AsyncIterator[str]:
    """The address of the database: the given one, or the embedded server's, which runs meanwhile."""
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value()
        return
    server = EmbeddedServer(settings.data_folder, port=settings.database_port)
    use = await asyncio.to_thread(server.start)
    try:
        yield use.url
    finally:
        await asyncio.to_thread(use.close)

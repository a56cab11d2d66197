"""The only wiring: settings, then the database, then kinds, processors and doors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from mediamill import plugins
from mediamill.agents.choose import Agents
from mediamill.backup.marker import check_whole
from mediamill.conversations import findable as messages_findable
from mediamill.conversations.answerers import Answerers
from mediamill.conversations.jobs import message_kinds
from mediamill.conversations.keeper import BotKeeper
from mediamill.conversations.provider import ProviderFactory
from mediamill.db.connection import LOST, Database, DatabaseDownError
from mediamill.db.embedded import EmbeddedServer, ServerUse, postmaster_pid
from mediamill.db.migrate import upgrade
from mediamill.dispatch.choose import Dispatch
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.rules import Engine
from mediamill.errors import MediamillError
from mediamill.inputs.look import RunWatch
from mediamill.inputs.runner import RunKeeper
from mediamill.intake import findable as files_findable
from mediamill.intake.jobs import intake_kinds
from mediamill.libraries.jobs import library_kinds
from mediamill.libraries.scan_job import scan_kinds
from mediamill.providers import chat
from mediamill.search.backfill import Filler
from mediamill.search.jobs import search_kinds
from mediamill.settings import Settings
from mediamill.staging import jobs as staging
from mediamill.staging.quota import StagingRoom
from mediamill.staging.shared import shared_bytes
from mediamill.storage.choose import storage_of
from mediamill.testing import chaos_kinds
from mediamill.testing import kinds as scripted
from mediamill.videos import findable as videos_findable
from mediamill.videos.jobs import video_kinds

log = logging.getLogger(__name__)

KEEP_SECONDS = 0.5
FULL_DISK_BYTES = 32 << 20  # with less than two segments of its log free, PostgreSQL cannot go on
LONGEST_PAUSE_SECONDS = 5.0

# Our own chat networks, for those who only need to know their names.
PROVIDER_NAMES = ("chat", "telegram", "whatsapp")


@dataclass(frozen=True, slots=True)
class App:
    """One process's mediamill."""

    settings: Settings
    database: Database
    engine: Engine
    enqueuer: Enqueuer
    agents: Agents
    run_watch: RunWatch
    dispatch: Dispatch

    @classmethod
    def of(cls, settings: Settings, database: Database, engine: Engine) -> App:
        """What these three make."""
        enqueuer = Enqueuer(engine.kinds, engine.payload_limit_bytes)
        run_watch, dispatch = RunWatch(database), Dispatch.of(settings)
        return cls(settings, database, engine, enqueuer, Agents(settings), run_watch, dispatch)


def make_keeper(app: App) -> BotKeeper:
    """Whoever runs bots in this process: every chat network there is, and everybody who can answer."""
    return BotKeeper(
        app.database, app.engine, app.enqueuer, app.settings, _providers(app), Answerers(app.agents)
    )


def make_run_keeper(app: App) -> RunKeeper:
    """Whoever works off runs in this process."""
    from mediamill.worker.shrink import Shrinker  # only a server needs what it imports

    data = app.settings.data_folder
    return RunKeeper(app.database, app.agents, Shrinker(data), data / "inputs" / "work")


def _providers(app: App) -> Mapping[str, ProviderFactory]:
    """Every chat network, ours first. The WhatsApp bridge is shared: the first bot that needs it has it started."""
    from mediamill.inputs.spool import Spool, spool_folder
    from mediamill.providers.telegram import provider as telegram  # only a server needs what these import
    from mediamill.providers.telegram.parts import House
    from mediamill.providers.whatsapp import provider as whatsapp
    from mediamill.providers.whatsapp.bridge import Bridge

    data = app.settings.data_folder
    room = StagingRoom(data, shared_bytes(app.database, storage_of(app.settings)))
    house = House(app.settings, app.database, app.run_watch, Spool(spool_folder(data)), room)
    factories: dict[str, ProviderFactory] = {
        chat.NAME: chat.ChatProvider,
        telegram.NAME: partial(telegram.TelegramProvider, house=house),
        whatsapp.NAME: partial(whatsapp.WhatsAppProvider, database=app.database, bridge=Bridge(app.settings)),
    }
    plugins.tell(plugins.add_providers(factories))
    return factories


def provider_names() -> list[str]:
    """The chat networks that a bot can be on, ours and those of plugins."""
    names: dict[str, ProviderFactory] = dict.fromkeys(PROVIDER_NAMES, chat.ChatProvider)
    plugins.add_providers(names)
    return sorted(names)


def all_kinds(settings: Settings, more: Iterable[JobKind] = (), database: Database | None = None) -> Kinds:
    """Every job kind that there is, those of plugins too."""
    kinds = our_kinds(settings, more, database)
    plugins.tell(plugins.add_kinds(kinds))
    return kinds


def our_kinds(settings: Settings, more: Iterable[JobKind] = (), database: Database | None = None) -> Kinds:
    """Those of mediamill itself; those that work in the database need it."""
    ours = (*staging.KINDS, *message_kinds(settings), *video_kinds(settings), *search_kinds())
    libraries = (*scan_kinds(settings, database), *library_kinds(settings))
    return Kinds((*ours, *libraries, *intake_kinds(settings), *scripted.KINDS, *chaos_kinds.KINDS, *more))


def search_fillers() -> Mapping[str, Filler]:
    """Who puts into the search what is missing there: one of each feature that has something to be found."""
    return {
        "videos": videos_findable.fill_findable,
        "messages": messages_findable.fill_findable,
        "files": files_findable.fill_findable,
    }


@asynccontextmanager
async def open_app(
    settings: Settings,
    *,
    name: str = "mediamill",
    wait_seconds: float = 10,
    kinds: Iterable[JobKind] = (),
    keep: bool = False,
) -> AsyncIterator[App]:
    """The embedded server if none is given, the schema up to date, a pool of connections; all closed at the end.

    `keep`: for processes that stay; an embedded server that dies is started again.
    """
    check_whole(settings.data_folder)
    async with database_url(settings, keep=keep) as url:
        try:
            database = await Database.open(
                url,
                pooler_url=pooler_url(settings),
                connections=settings.database_connections,
                name=name,
                wait_seconds=wait_seconds,
            )
        except DatabaseDownError as error:
            raise _explain(error, settings) from error
        try:
            if wait_seconds == math.inf:
                await until_there(lambda: upgrade(url))
            else:
                await upgrade(url)
            engine = Engine.from_settings(settings, all_kinds(settings, kinds, database))
            app = App.of(settings, database, engine)
            try:
                yield app
            finally:
                await app.dispatch.close()
        finally:
            await database.close()


def _explain(error: DatabaseDownError, settings: Settings) -> DatabaseDownError:
    """An embedded server that cannot write stops; its disk says why."""
    if settings.database_url is not None or shutil.disk_usage(settings.data_folder).free > FULL_DISK_BYTES:
        return error
    return DatabaseDownError(
        "the disk of the database is full", fix=f"free some space in {settings.data_folder}"
    )


async def until_there(verb: Callable[[], Awaitable[object]]) -> None:
    """For the start of processes that stay: a database that goes away in just this moment is waited for."""
    while True:
        try:
            await verb()
            return
        except LOST as error:
            log.debug("start: the database is away: %s", error)
            await asyncio.sleep(KEEP_SECONDS)


@asynccontextmanager
async def database_url(settings: Settings, *, keep: bool = False) -> AsyncIterator[str]:
    """The address of the database itself: the given one, or the embedded server's, which runs meanwhile."""
    given = settings.database_direct_url or settings.database_url
    if given is not None:
        yield given.get_secret_value()
        return
    server = EmbeddedServer(settings.data_folder, port=settings.database_port)
    uses = [await _start(server)]
    keeper = asyncio.create_task(_keep_running(server, uses)) if keep else None
    try:
        yield uses[0].url
    finally:
        if keeper is not None:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)
        for use in uses:
            await asyncio.to_thread(use.close)


def pooler_url(settings: Settings) -> str | None:
    """The way through a pooler, where there is one."""
    if settings.database_direct_url is None or settings.database_url is None:
        return None
    return settings.database_url.get_secret_value()


async def _start(server: EmbeddedServer) -> ServerUse:
    """Start it; a start that is interrupted is waited for and undone, so that no server is left running."""
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        with contextlib.suppress(MediamillError):
            await asyncio.to_thread((await starting).close)
        raise


async def _keep_running(server: EmbeddedServer, uses: list[ServerUse]) -> None:
    """Whoever notices first starts it again; the others find it running."""
    pause, told = KEEP_SECONDS, ""
    while True:
        await asyncio.sleep(pause)
        if postmaster_pid(server.data_folder) is not None:
            pause, told = KEEP_SECONDS, ""
            continue
        if not told:
            log.warning("the embedded database is gone and is started again")
        try:
            uses.append(await _start(server))
        except Exception as error:  # a full disk, say: it is tried until it goes, and told once
            what = error.message.splitlines()[0] if isinstance(error, MediamillError) else repr(error)
            if what != told:
                log.error("the embedded database cannot be started: %s", what)
            pause, told = min(2 * pause, LONGEST_PAUSE_SECONDS), what

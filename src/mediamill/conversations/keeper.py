"""BotKeeper: runs the bots that should run, in this process if no other does, and delivers the texts of their media."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from asyncpg import Record

from mediamill.clock import wait_at_most
from mediamill.conversations.bots import BotConfig, ReplyConfig
from mediamill.conversations.configuration import quota_gb
from mediamill.conversations.deliver import Queues, deliver_media
from mediamill.conversations.janitor import (
    drop_stored_placeholders,
    forget_arrivals,
    forget_senders,
    give_up_placeholders,
)
from mediamill.conversations.provider import ProviderFactory
from mediamill.conversations.reply import Answerer
from mediamill.conversations.running import RunningBot, StoppedMeanwhileError
from mediamill.conversations.store import BOT_LOCKS, queries
from mediamill.db.connection import LOST, Database
from mediamill.db.notify import Listener
from mediamill.db.session_locks import SessionLocks
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.recovery.sweep import take_turn
from mediamill.engine.rules import Engine
from mediamill.errors import ConflictError
from mediamill.settings import Settings
from mediamill.staging.quota import StagingRoom
from mediamill.staging.shared import shared_bytes
from mediamill.storage.choose import storage_of

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
CHANNELS = ("mediamill_bots", "mediamill_messages", "mediamill_results")


class AnswererSource(Protocol):
    """Who answers for bots."""

    def of(self, config: ReplyConfig) -> Answerer | None:
        """For a bot with this configuration; None: nobody."""

    async def close(self) -> None:
        """End all work on answers."""


Version = tuple[str, int]


class BotNotRunningError(ConflictError):
    """The bot does not run here."""

    code = "bot_not_running"


class BotKeeper:
    """One per server."""

    def __init__(
        self,
        database: Database,
        engine: Engine,
        enqueuer: Enqueuer,
        settings: Settings,
        factories: Mapping[str, ProviderFactory],
        answerers: AnswererSource,
    ) -> None:
        self._database, self._engine, self._enqueuer, self._settings = database, engine, enqueuer, settings
        self.room = StagingRoom(settings.data_folder, shared_bytes(database, storage_of(settings)))
        self._factories, self._answerers = factories, answerers
        self._locks = SessionLocks(database, BOT_LOCKS, "mediamill bots")
        self._running: dict[str, tuple[RunningBot, Version]] = {}
        self._changed, self._delivery = asyncio.Event(), asyncio.Event()
        self._delivering, self._keeping = asyncio.Lock(), asyncio.Lock()

    async def run(self) -> None:
        """Until cancelled; then all bots stop in good order, and go on at the next start."""
        listener = Listener(self._database.url, CHANNELS, self._heard, name="mediamill bots heard")
        loops = (
            self._repeat(self._changed, self.keep_once, "keeping bots"),
            self._repeat(self._delivery, self.deliver_once, "the delivery of media"),
            self._tidy_forever(),
        )
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            await listener.start()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await listener.close()
            await self.stop_all()
            await self._answerers.close()

    def get(self, bot_id: str) -> RunningBot:
        """A bot that runs here."""
        if bot_id not in self._running:
            raise BotNotRunningError(f"the bot {bot_id} does not run", fix=f"mediamill bots start {bot_id}")
        return self._running[bot_id][0]

    @property
    def database(self) -> Database:
        """Where the bots are."""
        return self._database

    @property
    def settings(self) -> Settings:
        """What this process goes by."""
        return self._settings

    @property
    def provider_names(self) -> list[str]:
        """The chat networks that there are."""
        return sorted(self._factories)

    def _heard(self, channel: str, _payload: str) -> None:
        """An empty name is a listener that was away: everything is looked at."""
        if channel != "mediamill_bots":
            self._delivery.set()
        if channel in ("", "mediamill_bots"):
            self._changed.set()

    async def keep_once(self) -> None:
        """Stop what should not run, or not so; start what should. A bot that fails does not keep others from it."""
        async with self._keeping:
            async with self._database.connection() as connection:
                wanted = {row["id"]: row for row in await queries.bots_to_run.rows(connection)}
                quota = await quota_gb(connection)
            for bot_id in await self._locks.lost(self._running):
                log.error("bot %s is run by another process now", bot_id)
                await self._stop(bot_id)
            for bot_id, (bot, version) in list(self._running.items()):
                if bot_id not in wanted or _version(wanted[bot_id]) != version:
                    await self._stop(bot_id)
                else:
                    bot.change_quota(quota)
                    await bot.resume_replies()
            for bot_id, row in wanted.items():
                if bot_id not in self._running:
                    await self._start(bot_id, row, quota)

    async def deliver_once(self) -> None:
        """Texts of media that have come."""
        async with self._delivering:
            await deliver_media(self._database, self._queues())

    async def stop_all(self) -> None:
        """This process ends; the bots should still run."""
        async with self._keeping:
            for bot_id in list(self._running):
                await self._stop(bot_id)
            await self._locks.close()

    def _queues(self) -> Queues:
        return {
            (bot_id, name): queue
            for bot_id, (bot, _) in self._running.items()
            for name, queue in bot.queues.items()
        }

    async def _start(self, bot_id: str, row: Record, quota: float) -> None:
        if not await self._locks.take(bot_id):
            return
        bot: RunningBot | None = None
        try:
            config = BotConfig.model_validate(json.loads(row["config"]))
            bot = RunningBot(bot_id, config, self._database, self._enqueuer, self._settings)
            await bot.start(self._factories, self._answerers.of, quota)
        except BaseException as error:  # a start that was interrupted leaves nothing running either
            if bot is not None:
                await bot.stop()
            await self._locks.free(bot_id)
            if isinstance(error, LOST) or not isinstance(error, Exception):
                raise
            if not isinstance(error, StoppedMeanwhileError):
                log.exception("bot %s cannot be started", bot_id)
            return
        self._running[bot_id] = bot, _version(row)
        self._delivery.set()
        log.info("bot %s runs", bot_id)

    async def _stop(self, bot_id: str) -> None:
        bot, _ = self._running[bot_id]
        async with self._delivering:  # a delivery that is under way ends first
            del self._running[bot_id]
        try:
            await bot.stop()
        finally:
            await self._locks.free(bot_id)
        log.info("bot %s has stopped", bot_id)

    async def _repeat(
        self, woken: asyncio.Event, step: Callable[[], Coroutine[Any, Any, None]], what: str
    ) -> None:
        while True:
            woken.clear()
            try:
                await step()
            except LOST as error:
                log.debug("%s: the database is away: %s", what, error)
            except Exception:
                log.exception("%s failed", what)
            await wait_at_most(woken, POLL_SECONDS)

    async def _tidy_forever(self) -> None:
        while True:
            try:
                await self.tidy()
            except LOST as error:
                log.debug("tidying: the database is away: %s", error)
            except Exception:
                log.exception("tidying up conversations failed")
            await asyncio.sleep(self._settings.janitor_seconds)

    async def tidy(self) -> None:
        """Memory is this process's own matter; the table is tidied by one of all."""
        settings = self._settings
        await drop_stored_placeholders(self._database, self._queues().values())
        await give_up_placeholders(
            self._database, self._engine, self._queues().values(), settings.placeholder_keep_hours
        )
        if await take_turn(self._database, "arrivals_turn", settings.janitor_seconds):
            await forget_arrivals(self._database, settings.message_ids_keep_days)
            await forget_senders(self._database)


def _version(row: Record) -> Version:
    """What a bot that runs was started with; any change restarts it."""
    return row["config"], row["starts"]

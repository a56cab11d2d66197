"""One bot while it runs: its queues, providers, ingestion and replies, put together and taken apart in order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

from asyncpg import Record

from mediamill.conversations.access import DayLimits, Gate
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.bots import BotConfig, ReplyConfig
from mediamill.conversations.ingest import IngestionService
from mediamill.conversations.model import CHAT, Message, owner_of
from mediamill.conversations.provider import BotContext, BrokenProvider, Provider, ProviderFactory
from mediamill.conversations.records import DatabaseRecords
from mediamill.conversations.reply import Answerer, Line, ReplyService
from mediamill.conversations.store import queries
from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.hold import release_owner
from mediamill.errors import ConflictError
from mediamill.settings import Settings
from mediamill.storage.choose import storage_of

log = logging.getLogger(__name__)


class StoppedMeanwhileError(ConflictError):
    """The bot should not run any more."""

    code = "bot_stopped"


AnswererFactory = Callable[[ReplyConfig], Answerer | None]


class RunningBot:
    """Started once and stopped once."""

    def __init__(
        self,
        bot_id: str,
        config: BotConfig,
        database: Database,
        enqueuer: Enqueuer,
        settings: Settings,
    ) -> None:
        self.bot_id, self.config = bot_id, config
        self._database = database
        limits = DayLimits.of(config.access, settings)
        self._gates = {name: Gate(database, bot_id, name, config.access, limits) for name in config.providers}
        self.queues = {
            name: self._make_queues(name, enqueuer, settings, None if name == CHAT else gate)
            for name, gate in self._gates.items()
        }
        self.providers: dict[str, Provider] = {}
        self._quota_gb = 0.0  # until it starts
        self._started: list[str] = []
        self._timeout_seconds = settings.reply_timeout_seconds
        self._replies: ReplyService | None = None  # until it starts
        self._ingestion = IngestionService(
            database,
            bot_id,
            list(self.queues.values()),
            every_seconds=settings.ingest_seconds,
            before=self._settle_replies,
        )

    def _make_queues(
        self, name: str, enqueuer: Enqueuer, settings: Settings, gate: Gate | None
    ) -> BotQueuesManager:
        place = storage_of(settings)
        records = DatabaseRecords(self._database, enqueuer, self.bot_id, name, place, gate)
        return BotQueuesManager(self.bot_id, name, records, self.config.queue_limits, gate)

    async def start(
        self, factories: Mapping[str, ProviderFactory], answerer: AnswererFactory, quota_gb: float
    ) -> None:
        """What was in memory comes back, then jobs are released, then the chat networks are let in."""
        self._quota_gb = quota_gb
        for name in self.config.providers:
            self.providers[name] = self._make_provider(name, factories.get(name), quota_gb)
        self._begin_replies(answerer(self.config.reply))
        async with self._database.transaction() as connection:
            if not await queries.lock_bot.value(connection, id=self.bot_id):
                raise StoppedMeanwhileError
            for row in await queries.open_arrivals.rows(connection, bot_id=self.bot_id):
                self._restore(row)
            await release_owner(connection, owner_of(self.bot_id))
        self._ingestion.start()
        for name, provider in self.providers.items():
            self._started.append(name)
            await self._start_provider(name, provider)
        if self._replies is not None:
            await self._replies.resume()

    def _make_provider(self, name: str, factory: ProviderFactory | None, quota_gb: float) -> Provider:
        """One that cannot be made says so when it is started, and keeps the bot from no other."""
        if factory is None:
            return BrokenProvider(f"no chat network {name} is installed here")
        try:
            return factory(self._context(name, quota_gb))
        except Exception as error:
            log.exception("bot %s: provider %s cannot be made", self.bot_id, name)
            return BrokenProvider(str(error) or type(error).__name__)

    def _restore(self, row: Record) -> None:
        queue = self.queues.get(row["provider_name"])
        if queue is not None:  # else its provider was taken out of the configuration; the records keep it
            message = Message.from_json(json.loads(row["message"]))
            queue.restore(row["correspondent_id"], message, row["last_id"] + 1)

    def _begin_replies(self, answerer: Answerer | None) -> None:
        lines = {
            name: Line(self.queues[name], provider, getattr(provider, "answerer", None))
            for name, provider in self.providers.items()
        }
        self._replies = ReplyService(
            self._database,
            self.bot_id,
            answerer,
            lines,
            timeout_seconds=self._timeout_seconds,
        )
        for name, queue in self.queues.items() if answerer is not None else ():
            queue.register_callback(self._replies.callback(name))

    async def _start_provider(self, name: str, provider: Provider) -> None:
        try:
            await provider.start()
        except Exception as error:  # one network that is down does not keep the bot from the others
            log.exception("bot %s: provider %s cannot be started", self.bot_id, name)
            what, fix = str(error) or type(error).__name__, getattr(error, "fix", None)
            await self.tell_status(name, {"state": "failed", "detail": f"{what}: {fix}" if fix else what})

    async def stop(self) -> None:
        """The networks first, so that nothing more comes in; then everything that is finished is stored."""
        for name in self._started:
            try:
                await self.providers[name].stop()
            except Exception:
                log.exception("bot %s: provider %s did not stop well", self.bot_id, name)
        if self._replies is not None:
            await self._replies.stop()
        for queue in self.queues.values():
            await queue.close()
        await self._ingestion.stop()

    async def resume_replies(self) -> None:
        """Somebody asked for an answer to be tried again."""
        if self._replies is not None:
            await self._replies.resume()

    def change_quota(self, quota_gb: float) -> None:
        """The storage quota may have changed."""
        if quota_gb == self._quota_gb:
            return
        self._quota_gb = quota_gb
        for provider in self.providers.values():
            if (change := getattr(provider, "change_quota", None)) is not None:
                change(quota_gb)

    async def tell_status(self, name: str, status: Mapping[str, Any]) -> None:
        """What a provider says of itself, for pages and commands."""
        if status.get("state") == "connected" and self._replies is not None:
            self._replies.connected.set()
        async with self._database.connection() as connection:
            await queries.tell_status.run(
                connection, id=self.bot_id, provider_name=name, status=json.dumps(status)
            )

    async def _settle_replies(self) -> None:
        if self._replies is not None:
            await self._replies.settle()

    def _context(self, name: str, quota_gb: float) -> BotContext:
        async def tell(status: Mapping[str, Any]) -> None:
            await self.tell_status(name, status)

        config = self.config
        return BotContext(
            self.bot_id,
            config.providers[name],
            quota_gb,
            self.queues[name],
            tell,
            config.reply,
            self._gates[name],
        )

"""Dispatch: how this process hears of jobs and events, as the settings say. What needs Redis is loaded only for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mediamill.db.connection import Database
from mediamill.db.notify import Heard, Listener
from mediamill.dispatch.hints import EverybodyHears
from mediamill.settings import Settings

if TYPE_CHECKING:
    from mediamill.dispatch.ears import Ears
    from mediamill.dispatch.link import RedisLink
    from mediamill.dispatch.redis_hints import RedisHints


class Dispatch:
    """One per process."""

    def __init__(self, mode: str = "database", redis_url: str = "", redis_connections: int = 10) -> None:
        self.mode, self._url, self._connections = mode, redis_url, redis_connections
        self._link: RedisLink | None = None

    @classmethod
    def of(cls, settings: Settings) -> Dispatch:
        """As the settings say."""
        url = settings.redis_url.get_secret_value() if settings.redis_url else ""
        return cls(settings.queue_mode, url, settings.redis_pool_size)

    @property
    def by_redis(self) -> bool:
        """Is there a Redis?"""
        return self.mode != "database"

    @property
    def link(self) -> RedisLink:
        """To Redis, made at first use."""
        from mediamill.dispatch.link import RedisLink

        if self._link is None:
            self._link = RedisLink(self._url, self._connections, self.mode)
        return self._link

    @property
    def hears_jobs(self) -> bool:
        """Must a worker listen to the database for jobs now?"""
        return not self.by_redis or (self.mode == "hybrid" and not self.link.flowing)

    async def run(self, database: Database) -> None:
        """The part of a process that stays: keep the link, offer to relay. Nothing, without a Redis."""
        if not self.by_redis:
            return
        from mediamill.dispatch.relay import Relay

        await asyncio.gather(self.link.keep(database), Relay(self.link, database).run())

    def hints(
        self, database: Database, consumer: str, wake: Callable[[str], None]
    ) -> EverybodyHears | RedisHints:
        """For the lanes of a worker."""
        if not self.by_redis:
            return EverybodyHears()
        from mediamill.dispatch.redis_hints import RedisHints

        return RedisHints(self.link, database, consumer, wake)

    def ears(self, database: Database, channels: Sequence[str], heard: Heard, *, name: str) -> Ears:
        """For whoever hears of everything, as pages do."""
        if not self.by_redis:
            return Listener(database.url, channels, heard, name=name)
        from mediamill.dispatch.ears import RedisEars

        hybrid = self.mode == "hybrid"
        return RedisEars(self.link, database, channels, heard, name=name, hybrid=hybrid)

    async def close(self) -> None:
        """Let go of Redis."""
        if self._link is not None:
            await self._link.close()

    def facts(self) -> dict[str, Any] | None:
        """Of Redis, as this process sees it; None without one."""
        return {"mode": self.mode, **self.link.facts()} if self.by_redis else None

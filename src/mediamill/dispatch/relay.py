"""The relay: what the database tells by NOTIFY goes on to Redis, once.

Every server and every worker beside the database offers itself; a session-level lock lets one do it, and when that one
dies the next does. So a hint comes after the commit, and an enqueuer that dies after its commit has told all the same:
the database tells for it. What was told while nobody relayed is made up for by a look at everything that waits.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

import redis

from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Connection, Database, RawConnection
from mediamill.db.notify import Listener
from mediamill.dispatch import store
from mediamill.dispatch.channels import message_of
from mediamill.dispatch.link import BEAT_SECONDS, RELAY_SECONDS, Client, RedisAwayError, RedisLink
from mediamill.dispatch.streams import FORGET_SECONDS, Hint, HintStreams
from mediamill.engine.events import EventReader, last_event_id
from mediamill.engine.pools import list_pools
from mediamill.engine.watch import pools_with_work

log = logging.getLogger(__name__)

JOBS, EVENTS = "mediamill_jobs", "mediamill_events"
OFFER_SECONDS = 1.0
READ_EVENTS = 500


class RelayTakenError(Exception):
    """Somebody else relays."""


class Relay:
    """One per process; it does something only while it is the one."""

    def __init__(self, link: RedisLink, database: Database) -> None:
        self._link, self._database = link, database
        self._pools: set[str] = set()
        self._events = False
        self._everything = True
        self._stirred = asyncio.Event()
        self._forget_at = 0.0
        self._reader = EventReader(0)

    async def run(self) -> None:
        """For ever: offer, and relay while the offer is taken."""
        while True:
            try:
                if self._link.up.is_set() and await self._is_free():
                    await self._relay()
            except (RelayTakenError, RedisAwayError, *LOST) as error:
                log.debug("relay: %s", error)
            except Exception:
                log.exception("the relay fails")
            await asyncio.sleep(OFFER_SECONDS)

    async def _is_free(self) -> bool:
        async with self._database.connection() as connection:
            return bool(await store.queries.is_relay_free.value(connection, lock_class=store.RELAY_LOCKS))

    async def _relay(self) -> None:
        """While the session holds the lock and Redis is there. One that cannot reach Redis lets another try."""
        streams = HintStreams(await self._link.name(self._database))
        listener = Listener(
            self._database.url, (JOBS, EVENTS), self._hear, name="mediamill relay", on_connected=self._take
        )
        async with self._database.connection() as connection:
            self._reader = EventReader(await last_event_id(connection))
        try:
            await listener.start()
            log.debug("this process relays to Redis")
            while listener.is_running and self._link.up.is_set():
                if listener.connected.is_set():
                    await self._pass_on(streams)
                    await wait_at_most(self._stirred, BEAT_SECONDS)
                else:  # what was heard last waits for the new session, and must not keep this from waiting
                    await wait_at_most(listener.connected, BEAT_SECONDS)
        finally:
            await listener.close()

    async def _take(self, connection: RawConnection) -> None:
        if not await store.queries.take_relay.value(connection, lock_class=store.RELAY_LOCKS):
            raise RelayTakenError

    def _hear(self, channel: str, payload: str) -> None:
        if channel == JOBS:
            self._pools.add(payload)
        elif channel == EVENTS:
            self._events = True
        else:
            self._everything = True
        self._stirred.set()

    async def _pass_on(self, streams: HintStreams) -> None:
        """What was heard since the last time. If that fails, everything is told the next time."""
        self._stirred.clear()
        pools, events, everything = self._pools, self._events, self._everything
        self._pools, self._events, self._everything = set(), False, False
        try:
            await self._pass_on_these(streams, pools, events, everything)
        except BaseException:
            self._everything = True
            raise

    async def _pass_on_these(
        self, streams: HintStreams, pools: set[str], events: bool, everything: bool
    ) -> None:
        async with self._database.connection() as connection:
            if everything:
                pools = {pool.name for pool in await list_pools(connection)}
            work = await pools_with_work(connection, sorted(pools)) if pools else []
            news = await self._read_news(connection) if events or everything else []
        hints = [Hint(pool, priority) for pool, priority in work]
        await self._link.use(
            lambda client: self._publish(client, streams, hints, pools, events or everything)
        )
        if news:
            await self._link.use(lambda client: self._announce(client, news))
        self._link.counts["hints_published"] += len(hints)
        if time.monotonic() > self._forget_at:
            self._forget_at = time.monotonic() + FORGET_SECONDS / 6
            await self._forget(streams)

    async def _publish(
        self, client: Client, streams: HintStreams, hints: list[Hint], pools: set[str], events: bool
    ) -> None:
        await streams.publish(client, hints)
        async with client.pipeline(transaction=False) as pipe:
            pipe.set(f"{streams.name}:relay", os.getpid(), px=int(RELAY_SECONDS * 1000))
            for pool in sorted(pools):
                pipe.publish(f"{streams.name}:{JOBS}", pool)
            if events:
                pipe.publish(f"{streams.name}:{EVENTS}", "")
            await pipe.execute()

    async def _read_news(self, connection: Connection) -> list[tuple[str, str]]:
        """What other programs are told, since the last time."""
        news = []
        while True:
            events = await self._reader.read(connection, READ_EVENTS)
            news += [message for event in events if (message := message_of(event)) is not None]
            if len(events) < READ_EVENTS:
                return news

    async def _announce(self, client: Client, news: list[tuple[str, str]]) -> None:
        """A user of Redis who may not publish on these channels holds nothing else up."""
        async with client.pipeline(transaction=False) as pipe:
            for channel, text in news:
                pipe.publish(channel, text)
            for answer in await pipe.execute(raise_on_error=False):
                if isinstance(answer, redis.ResponseError):
                    log.debug("relay: %s", answer)

    async def _forget(self, streams: HintStreams) -> None:
        async with self._database.connection() as connection:
            pools = [pool.name for pool in await list_pools(connection)]
        await self._link.use(lambda client: streams.forget_consumers(client, pools))

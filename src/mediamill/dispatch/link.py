"""The link to Redis: one pool of connections per process, behind one breaker.

Whoever uses it is told at once that Redis is away and never waits for it; only `keep` tries again. It also asks whether
somebody relays to Redis what the database tells. Only if so do hints flow, and only then may they be relied on.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import redis
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from mediamill.db.connection import LOST, Database
from mediamill.dispatch import store
from mediamill.dispatch.breaker import Breaker, BreakerState
from mediamill.dispatch.wording import say_why, tell_change
from mediamill.errors import InvalidError, UnavailableError

log = logging.getLogger(__name__)

T = TypeVar("T")
Client = Redis

BLOCK_SECONDS = 1.0  # how long one read waits for a hint
ANSWER_SECONDS = 1.0  # how long an answer may take besides
BEAT_SECONDS = 1.0
RELAY_SECONDS = 3.0  # a relay that has not said so for so long is none
FAILURES = (redis.RedisError, OSError, TimeoutError)


class RedisAwayError(UnavailableError):
    """Redis does not answer now. Nothing depends on it but how soon a worker hears of a job."""

    code = "redis_away"


class RedisUrlError(InvalidError):
    """MEDIAMILL_REDIS_URL is not the address of a Redis."""

    code = "redis_url"


def make_client(url: str, connections: int) -> Client:
    """A client that never tries again by itself."""
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=ANSWER_SECONDS,
            socket_timeout=BLOCK_SECONDS + ANSWER_SECONDS,
            socket_connect_timeout=ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),
            decode_responses=True,
            protocol=2,
            client_name="mediamill",
            driver_info=None,  # not known to every server, and a right more
        )
    except ValueError as error:
        fix = "write it like redis://user:password@host:6379/0, rediss://… or unix:///path"
        raise RedisUrlError(f"MEDIAMILL_REDIS_URL is not the address of a Redis: {error}", fix=fix) from None
    return Redis(connection_pool=pool)


async def name_of(database: Database) -> str:
    """What all keys of a database begin with; in braces, so that a cluster keeps them together."""
    async with database.connection() as connection:
        return f"mediamill:{{{await store.queries.identity.value(connection)}}}"


class RedisLink:
    """One per process."""

    def __init__(self, url: str, connections: int, mode: str, breaker: Breaker | None = None) -> None:
        self.client = make_client(url, connections)
        self.breaker = breaker or Breaker()
        self.up, self.flowing, self.error = asyncio.Event(), False, ""
        self.counts = {"hints_published": 0, "hints_heard": 0, "hints_reclaimed": 0, "hints_passed_on": 0}
        self.watchers: list[Callable[[], None]] = []
        self._mode, self._name = mode, ""
        self.up.set()

    async def name(self, database: Database) -> str:
        """What all keys of this database begin with."""
        self._name = self._name or await name_of(database)
        return self._name

    async def use(self, verb: Callable[[Client], Awaitable[T]]) -> T:
        """Ask Redis something; RedisAwayError at once while it is away."""
        if not self.up.is_set():
            raise RedisAwayError
        with self.watched():
            return await verb(self.client)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """What happens inside counts for the breaker. A refusal of a single command is no failure of Redis.

        The client may lose a cancellation that comes while it gives up a connection: it is made up for here.
        """
        before = _cancellations()
        try:
            yield
        except FAILURES as error:
            if _cancellations() > before:
                raise asyncio.CancelledError from error
            if _is_missing_group(error):
                raise
            self.note(error)
            raise RedisAwayError(f"Redis is away: {say_why(error)}") from error
        if _cancellations() > before:
            raise asyncio.CancelledError
        self.note(None)

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[Client]:
        """A connection of one's own, for what waits; it fails as a whole."""
        if not self.up.is_set():
            raise RedisAwayError
        with self.watched():
            async with self.client.client() as client:
                yield client

    async def keep(self, database: Database) -> None:
        """For ever: ask whether it is there and hints flow; when it was away, less and less often."""
        while True:
            await asyncio.sleep(self.breaker.seconds_to_wait())
            if self.breaker.begin_try():
                with contextlib.suppress(RedisAwayError, *LOST):
                    await self._ask(await self.name(database))
            if self.up.is_set():
                await asyncio.sleep(BEAT_SECONDS)

    async def _ask(self, name: str) -> None:
        with self.watched():
            relayed = await self.client.get(f"{name}:relay")
        self._set(flowing=relayed is not None)

    def note(self, error: BaseException | None) -> None:
        """How a try went."""
        if error is None:
            self.breaker.succeed()
        else:
            self.breaker.fail()
            self.error = say_why(error)
            log.debug("Redis: %s", error)
        if self.breaker.state is BreakerState.OPEN:
            self._set(flowing=False)
        elif not self.up.is_set():
            self._set(flowing=self.flowing)

    def _set(self, *, flowing: bool) -> None:
        up = self.breaker.state is BreakerState.CLOSED
        if (up, flowing) == (self.up.is_set(), self.flowing):
            return
        self.flowing = flowing
        self.up.set() if up else self.up.clear()
        tell_change(self.breaker.state, flowing, self._mode, self.error)
        for watcher in self.watchers:
            watcher()

    def facts(self) -> dict[str, Any]:
        """For health and metrics."""
        return {
            "state": "ok" if self.up.is_set() else "down",
            "breaker": str(self.breaker.state),
            "opened": self.breaker.opened,
            "relayed": self.flowing,
            "error": None if self.up.is_set() else self.error,
            **self.counts,
        }

    async def close(self) -> None:
        """Let go of the connections."""
        with contextlib.suppress(*FAILURES):
            await self.client.aclose()
            await self.client.connection_pool.disconnect()


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _is_missing_group(error: BaseException) -> bool:
    return isinstance(error, redis.ResponseError) and "NOGROUP" in str(error)

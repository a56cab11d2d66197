"""Hints from Redis for the lanes of one worker.

A stream gives each hint to one worker only, so it must be one that has time. Streams are read only for lanes that are
idle. A lane that was idle and is full now writes a new hint: there may be more than it took, and the next idle lane
looks, until one finds nothing. So a burst wakes as many workers as it needs, and a single job two, not all.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

import redis

from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Database
from mediamill.dispatch.link import RedisAwayError, RedisLink
from mediamill.dispatch.streams import RECLAIM_SECONDS, Hint, HintStreams
from mediamill.engine.model import Priority

log = logging.getLogger(__name__)

Wake = Callable[[str], None]
ALL = ""  # anything may have been missed
TURN_SECONDS = 0.002  # between two tries to interrupt a read that does not listen yet
GOODBYE_SECONDS = 2.0


@dataclass(slots=True)
class _Lane:
    """What is known of one lane. Received: hints since its last look; followed: those before."""

    waiting: bool = False
    full: bool = True
    was_idle: bool = False
    received: list[Hint] = field(default_factory=list)
    followed: list[Hint] = field(default_factory=list)


class RedisHints:
    """See Hints. `wake` is given the name of a pool, or "" for all of them."""

    def __init__(self, link: RedisLink, database: Database, consumer: str, wake: Wake) -> None:
        self._link, self._database, self._consumer, self._wake = link, database, consumer, wake
        self._lanes: dict[str, _Lane] = {}
        self._done: list[Hint] = []
        self._again: list[Hint] = []
        self._stirred, self._wanted = asyncio.Event(), asyncio.Event()
        self._grouped: set[str] = set()
        self._reading: frozenset[str] | None = None  # the pools that the read under way is for
        self._reader_id = 0
        self._reclaim_at = 0.0
        self._streams: HintStreams | None = None

    # -- what lanes say

    def look(self, pool: str) -> None:
        """See Hints."""
        lane = self._lanes.setdefault(pool, _Lane())
        lane.waiting = lane.full = False
        lane.followed, lane.received = lane.followed + lane.received, []

    def idle(self, pool: str) -> None:
        """See Hints."""
        lane = self._lanes[pool]
        self._settle(lane.followed)
        lane.followed, lane.waiting, lane.was_idle = [], True, True
        self._wanted.set()
        if self._reading is not None and pool not in self._reading:
            self._stirred.set()

    def full(self, pool: str) -> None:
        """See Hints."""
        lane = self._lanes.setdefault(pool, _Lane())
        held = lane.followed + lane.received
        if held or lane.was_idle:
            self._settle(held, again=held[0] if held else Hint(pool, Priority.NORMAL))
        lane.followed, lane.received = [], []
        lane.full, lane.waiting, lane.was_idle = True, False, False

    def _settle(self, done: list[Hint], again: Hint | None = None) -> None:
        self._done += done
        if again is not None:
            self._again.append(Hint(again.pool, again.priority))
        if self._done or self._again:
            self._stirred.set()

    @property
    def _idle_pools(self) -> frozenset[str]:
        return frozenset(pool for pool, lane in self._lanes.items() if lane.waiting)

    # -- what Redis says

    async def run(self) -> None:
        """Until cancelled. Redis may come and go."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for work in (self._read_on, self._tend_on):
                    tasks.create_task(self._forever(work))
        finally:
            await self._leave()

    async def _forever(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await self._link.up.wait()
                if self._streams is None:
                    self._streams = HintStreams(await self._link.name(self._database))
                await work()
            except (RedisAwayError, *LOST) as error:
                log.debug("hints: %s", error)
                self._reading = None
                self._wake(ALL)
                await asyncio.sleep(0.05)
            except Exception:
                log.exception("hints fail")
                await asyncio.sleep(1)

    async def _read_on(self) -> None:
        """One session of reading; a lost one may have taken hints with it."""
        async with self._link.session() as client:
            self._reader_id = int(await client.client_id())
            while True:
                pools = await self._some_idle()
                await self._make_groups(pools)
                self._reading = pools
                try:
                    with self._link.watched():
                        hints = await self._here.read(client, self._consumer, pools)
                except (
                    redis.ResponseError
                ):  # the streams are gone, with their groups: another Redis, or an empty one
                    self._grouped.clear()
                    self._wake(ALL)
                    continue
                finally:
                    self._reading = None
                self._link.counts["hints_heard"] += len(hints)
                self._receive(hints)

    async def _some_idle(self) -> frozenset[str]:
        while not (pools := self._idle_pools):
            self._wanted.clear()
            await self._wanted.wait()
        return pools

    @property
    def _here(self) -> HintStreams:
        assert self._streams is not None
        return self._streams

    async def _make_groups(self, pools: Iterable[str]) -> None:
        if missing := set(pools) - self._grouped:
            await self._link.use(lambda client: self._here.make_groups(client, missing))
            self._grouped |= missing

    def _receive(self, hints: Iterable[Hint]) -> None:
        woken = set()
        for hint in hints:
            lane = self._lanes[hint.pool]
            if lane.full:  # it has found work without us
                self._settle([hint], again=hint if hint.pool not in woken else None)
            else:
                lane.received.append(hint)
                self._wake(hint.pool)
            woken.add(hint.pool)

    # -- what Redis is told

    async def _tend_on(self) -> None:
        """Acknowledge, pass on, interrupt a read that a lane is missing from, take over what the dead have left."""
        while True:
            await wait_at_most(self._stirred, RECLAIM_SECONDS / 2)
            self._stirred.clear()
            await self._tell()
            if self._reading is not None and not self._idle_pools <= self._reading:
                await self._link.use(lambda client: client.client_unblock(self._reader_id))
                await asyncio.sleep(TURN_SECONDS)
                self._stirred.set()
            elif time.monotonic() >= self._reclaim_at:
                self._reclaim_at = time.monotonic() + RECLAIM_SECONDS / 2
                await self._reclaim()

    async def _tell(self) -> None:
        done, again, self._done, self._again = self._done, self._again, [], []
        if done or again:
            again = list(dict.fromkeys(again))
            await self._link.use(lambda client: self._here.settle(client, done, again))
            self._link.counts["hints_passed_on"] += len(again)

    async def _reclaim(self) -> None:
        pools = self._idle_pools & self._grouped
        if not pools:
            return
        try:
            hints = await self._link.use(lambda client: self._here.reclaim(client, self._consumer, pools))
        except redis.ResponseError:
            self._grouped.clear()
            return
        self._link.counts["hints_reclaimed"] += len(hints)
        self._receive(hints)

    async def _leave(self) -> None:
        """What is held goes to others at once. The name is forgotten by the relay, one day."""
        for pool in self._lanes:
            self.full(pool)
        if self._streams is not None:
            with contextlib.suppress(RedisAwayError, TimeoutError):
                async with asyncio.timeout(GOODBYE_SECONDS):
                    await self._tell()

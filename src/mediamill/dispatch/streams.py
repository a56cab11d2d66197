"""Hints as Redis keeps them: a stream for each pool and priority, one consumer group on each. All commands are here.

An entry says only that there is work. It goes to one consumer, which looks into the database and then acknowledges and
deletes it. The streams are short: an unread hint says the same as a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import redis

from mediamill.dispatch.link import BLOCK_SECONDS, Client
from mediamill.engine.model import Priority

GROUP = "workers"
MOST_HINTS = 100  # in a stream, about
READ_HINTS = 100
KEEP_SECONDS = 86_400  # a stream that nobody wrote to for so long goes, with its pool or its installation
RECLAIM_SECONDS = 5.0  # whoever holds a hint for so long without a word is dead, or the database is away
FORGET_SECONDS = 3_600  # a consumer that has not asked for so long is forgotten


@dataclass(frozen=True, slots=True)
class Hint:
    """There is work in this pool at this priority. `id`: of its entry, once it has one."""

    pool: str
    priority: int
    id: str = ""


class HintStreams:
    """The streams of one database."""

    def __init__(self, name: str) -> None:
        self.name = name

    def key(self, pool: str, priority: int) -> str:
        """The stream of a pool and priority."""
        return f"{self.name}:jobs:{Priority(priority).name.lower()}:{pool}"

    def _keys(self, pools: Iterable[str]) -> dict[str, Hint]:
        """Every stream of these pools, the urgent ones first."""
        return {
            self.key(pool, priority): Hint(pool, priority) for priority in Priority for pool in sorted(pools)
        }

    async def publish(self, client: Client, hints: Sequence[Hint]) -> None:
        """Each goes to one worker that waits for it."""
        await self.settle(client, (), hints)

    async def settle(self, client: Client, done: Sequence[Hint], again: Sequence[Hint]) -> None:
        """What was followed goes; what another should follow is written anew, before."""
        async with client.pipeline(transaction=False) as pipe:
            for hint in again:
                key = self.key(hint.pool, hint.priority)
                pipe.xadd(key, {"pool": hint.pool}, maxlen=MOST_HINTS, approximate=True)
                pipe.expire(key, KEEP_SECONDS)
            for hint in done:
                key = self.key(hint.pool, hint.priority)
                pipe.xack(key, GROUP, hint.id)
                pipe.xdel(key, hint.id)
            await pipe.execute()

    async def make_groups(self, client: Client, pools: Iterable[str]) -> None:
        """From the first entry on: one that was there before the group is told, too."""
        async with client.pipeline(transaction=False) as pipe:
            for key in self._keys(pools):
                pipe.xgroup_create(key, GROUP, "0", mkstream=True)
                pipe.expire(key, KEEP_SECONDS)
            for answer in await pipe.execute(raise_on_error=False):
                if isinstance(answer, redis.ResponseError) and "BUSYGROUP" not in str(answer):
                    raise answer

    async def read(self, client: Client, consumer: str, pools: Iterable[str]) -> list[Hint]:
        """New hints for these pools, or none after a while."""
        keys = self._keys(pools)
        answer: Any = await client.xreadgroup(
            GROUP, consumer, dict.fromkeys(keys, ">"), count=READ_HINTS, block=int(BLOCK_SECONDS * 1000)
        )
        return [
            Hint(keys[key].pool, keys[key].priority, entry)
            for key, entries in answer or ()
            for entry, _ in entries
        ]

    async def reclaim(self, client: Client, consumer: str, pools: Iterable[str]) -> list[Hint]:
        """Hints that somebody took and never acknowledged: ours now."""
        keys = self._keys(pools)
        async with client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.xautoclaim(
                    key, GROUP, consumer, int(RECLAIM_SECONDS * 1000), count=READ_HINTS, justid=True
                )
            answers = await pipe.execute()
        return [
            Hint(hint.pool, hint.priority, entry)
            for hint, entries in zip(keys.values(), answers, strict=True)
            for entry in entries
        ]

    async def forget_consumers(self, client: Client, pools: Iterable[str]) -> None:
        """Those of workers that were killed, once others have taken what they held."""
        keys = list(self._keys(pools))
        async with client.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.xinfo_consumers(key, GROUP)
            answers = await pipe.execute(raise_on_error=False)
        for key, consumers in zip(keys, answers, strict=True):
            for consumer in consumers if isinstance(consumers, list) else ():
                if consumer["pending"] == 0 and consumer["idle"] > FORGET_SECONDS * 1000:
                    await client.xgroup_delconsumer(key, GROUP, consumer["name"])

"""The pi processes of this machine: at most so many, one a thread, idle ones kept for a while, the oldest go first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mediamill.agents.contract import AgentBusyError
from mediamill.agents.pi_process import PiProcess


@dataclass(frozen=True, slots=True)
class _Idle:
    process: PiProcess
    sort: str
    expiry: asyncio.Task[None]


class PiPool:
    """Lends a process for one run at a time. The caller sees to it that a key is borrowed once at a time."""

    def __init__(self, limit: int, idle_seconds: float) -> None:
        self._limit, self._idle_seconds = limit, idle_seconds
        self._room = asyncio.Semaphore(limit)
        self._idle: OrderedDict[str, _Idle] = OrderedDict()
        self._busy = 0
        self._working: set[PiProcess] = set()
        self._closed = False

    @property
    def processes(self) -> list[PiProcess]:
        """All that live now."""
        return [*(idle.process for idle in self._idle.values()), *self._working]

    @asynccontextmanager
    async def borrow(
        self, key: str, sort: str, start: Callable[[], Awaitable[PiProcess]], wait_seconds: float
    ) -> AsyncIterator[PiProcess]:
        """The process of this key, started if there is none of this sort. If the block fails, it is stopped."""
        await self._wait_for_room(wait_seconds)
        self._busy += 1
        try:
            process = await self._take(key, sort, start)
            self._working.add(process)
            try:
                yield process
                if self._closed:
                    raise AgentBusyError("the agent is being shut down")
            except BaseException:
                await asyncio.shield(
                    process.stop()
                )  # in good order, because only pi knows what its tools started
                raise
            finally:
                self._working.discard(process)
            self._idle[key] = _Idle(process, sort, asyncio.create_task(self._expire(key)))
        finally:
            self._busy -= 1
            self._room.release()

    async def drop(self, key: str) -> None:
        """Stop the idle process of this key."""
        if (found := self._idle.pop(key, None)) is not None:
            found.expiry.cancel()
            await found.process.stop()

    async def close(self) -> None:
        """Stop the idle ones, kill the others: their runs fail."""
        self._closed = True
        await asyncio.gather(
            *(process.kill() for process in self._working), *map(self.drop, list(self._idle))
        )

    async def _wait_for_room(self, wait_seconds: float) -> None:
        try:
            async with asyncio.timeout(wait_seconds):
                await self._room.acquire()
        except TimeoutError as error:
            message = f"all {self._limit} pi processes were busy for {wait_seconds:g} seconds"
            raise AgentBusyError(message, fix="raise MEDIAMILL_PI_SESSIONS") from error

    async def _take(self, key: str, sort: str, start: Callable[[], Awaitable[PiProcess]]) -> PiProcess:
        if self._closed:
            raise AgentBusyError("the agent is being shut down")
        if (found := self._idle.pop(key, None)) is not None:
            found.expiry.cancel()
            if found.sort == sort and await found.process.answers():
                return found.process
            await found.process.stop()
        while self._idle and len(self._idle) + self._busy > self._limit:
            await self.drop(next(iter(self._idle)))
        return await start()

    async def _expire(self, key: str) -> None:
        await asyncio.sleep(self._idle_seconds)
        await self._idle.pop(key).process.stop()

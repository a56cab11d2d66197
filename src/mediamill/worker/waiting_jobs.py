"""The jobs of a sandbox that wait for a child, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mediamill.worker.warm_child import WarmChild


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    owner: str
    child: asyncio.Future[WarmChild]


class WaitingJobs:
    """A queue, except that a job which needs a fresh child does not hold up those behind it."""

    def __init__(self) -> None:
        self._waiters: deque[_Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, owner: str) -> asyncio.Future[WarmChild]:
        """The future is the child that the job gets."""
        waiter = _Waiter(owner, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        return waiter.child

    def serve(self, pick: Callable[[str], WarmChild | None]) -> None:
        """Give children to all whom `pick` finds one for, by their owner."""
        for waiter in list(self._waiters):
            if waiter.child.done():  # cancelled while it waited
                self._waiters.remove(waiter)
            elif (child := pick(waiter.owner)) is not None:
                self._waiters.remove(waiter)
                waiter.child.set_result(child)

    def fail(self, reason: Exception) -> None:
        """No child will come: all jobs fail."""
        while self._waiters:
            child = self._waiters.popleft().child
            if not child.done():
                child.set_exception(reason)

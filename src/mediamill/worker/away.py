"""The other side of a worker is away: what that looks like, whether it is the database or a server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mediamill.clock import pauses
from mediamill.db.connection import ASK_AGAIN
from mediamill.errors import UnavailableError

log = logging.getLogger(__name__)
T = TypeVar("T")


class AwayError(UnavailableError):
    """The server does not answer now."""

    code = "server_away"


class RefusedError(AwayError):
    """The server does not take this worker.

    To a lane that is as if the server were away: it waits. The worker is told of it by whoever found out, and ends.
    """

    code = "worker_refused"


# Away, or two of us met on the same rows: to be tried again.
AWAY = (*ASK_AGAIN, AwayError)


async def insist(verb: Callable[[], Awaitable[T]]) -> T:
    """Until it is done: nothing is dropped because the other side is away for a while."""
    waits = pauses(0.05, 2.0)
    while True:
        try:
            return await verb()
        except AWAY as error:
            log.debug("the other side is away: %s", error)
            await asyncio.sleep(next(waits))

"""A database that does not answer is waited for, a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mediamill.clock import pauses
from mediamill.db.connection import LOST
from mediamill.errors import UnavailableError

INSIST_SECONDS = 15.0
Found = TypeVar("Found")


class UncertainError(UnavailableError):
    """The database does not answer; whether it has taken the message will turn out."""

    code = "database_down"


async def insist(verb: Callable[[], Awaitable[Found]]) -> Found:
    """What the verb gives, which may be called again."""
    deadline, waits = asyncio.get_running_loop().time() + INSIST_SECONDS, pauses(0.05, 2.0)
    while True:
        try:
            return await verb()
        except LOST as error:
            if asyncio.get_running_loop().time() > deadline:
                raise UncertainError(fix="send it again; it is taken once") from error
        await asyncio.sleep(next(waits))

"""A stream outlives the request that began it: whoever follows one is asked again and again whether they still may.

A token that is revoked or expires, a session that is closed, a user who is disabled or loses a scope, a worker's key:
each ends the streams that it opened. Asked of the database when something is sent, and a keep-alive is, every 30 s.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from starlette.requests import Request
from starlette.types import Scope

from mediamill.db.connection import LOST
from mediamill.errors import DeniedError

ASK_SECONDS = 5.0  # not of every line: a busy stream has many a second
_KEY = "mediamill.welcome"

Ask = Callable[[], Awaitable[bool | int]]


def remember(scope: Scope, ask: Ask) -> None:
    """How the guard would judge this request if it came now."""
    scope[_KEY] = ask


async def while_welcome(request: Request, lines: AsyncGenerator[str, None]) -> AsyncIterator[str]:
    """The lines, for as long as whoever asked for them would be let in again."""
    ask: Ask | None = request.scope.get(_KEY)
    asked_at = time.monotonic()
    async with aclosing(lines):
        async for line in lines:
            if ask is not None and time.monotonic() - asked_at >= ASK_SECONDS:
                if not await _is_welcome(ask):
                    return
                asked_at = time.monotonic()
            yield line


async def _is_welcome(ask: Ask) -> bool:
    """A database that is away tells nothing of anybody: asked again with the next line."""
    try:
        return bool(await ask())
    except DeniedError:
        return False
    except LOST:
        return True

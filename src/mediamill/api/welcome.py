"""A stream outlives the request that began it: nobody may have too many, and whoever follows one is asked again and
again whether they still may.

A token that is revoked or expires, a session that is closed, a user who is disabled or loses a scope, a worker's key:
each ends the streams that it opened. Asked of the database when something is sent, and a keep-alive is.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Hashable
from contextlib import aclosing
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.types import Scope

from mediamill.access.model import current_caller
from mediamill.db.connection import LOST
from mediamill.errors import DeniedError, TooManyError

ASK_SECONDS = 5.0  # not of every line: a busy stream has many a second
MOST_STREAMS = 1_000
RETRY_SECONDS = 30.0
_KEY = "mediamill.welcome"

Ask = Callable[[], Awaitable[bool | int]]


class TooManyStreamsError(TooManyError):
    """Too many live streams are open."""

    code = "too_many_streams"


def remember(scope: Scope, ask: Ask) -> None:
    """How the guard would judge this request if it came now."""
    scope[_KEY] = ask


class Stream:
    """A place in the count. It is free again as soon as nobody holds it, also if the stream never began."""


class Streams:
    """The open streams of a server, by who follows them."""

    def __init__(self, of_caller: int) -> None:
        self._of_caller = of_caller
        self._all: WeakKeyDictionary[Stream, Hashable] = WeakKeyDictionary()

    def open(self, who: Hashable) -> Stream:
        """One more, if there may be one more."""
        keys = list(self._all.values())
        if len(keys) >= MOST_STREAMS or keys.count(who) >= self._of_caller:
            raise TooManyStreamsError(
                fix="close some, or try again later; MEDIAMILL_STREAMS_PER_CALLER allows more",
                wait_seconds=RETRY_SECONDS,
            )
        stream = Stream()
        self._all[stream] = who
        return stream


def open_stream(request: Request, who: Hashable = None) -> Stream:
    """Refused to whoever has too many; `who` if it is not the caller whom the guard recognised."""
    caller, streams = current_caller(), request.app.state.streams
    if who is None and caller is not None:
        who = (caller.kind, caller.name)
    opened: Stream = streams.open(who)
    return opened


async def while_welcome(
    request: Request, _stream: Stream, lines: AsyncGenerator[str, None]
) -> AsyncIterator[str]:
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

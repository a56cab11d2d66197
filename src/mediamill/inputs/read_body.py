"""The body of a message, piece by piece as it arrives, to whoever can read its type. Never held as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from functools import partial
from typing import Protocol, TypeVar

from mediamill.errors import QuotaExceededError
from mediamill.inputs.draft import ReadMessage
from mediamill.inputs.model import BODY_LIMIT_BYTES

T = TypeVar("T")


class BodyTooLargeError(QuotaExceededError):
    """A message may have 78643200 bytes as it is sent."""

    code = "body_too_large"
    fix = "send smaller images, or fewer"


class BodyReader(Protocol):
    """Reads one body."""

    def feed(self, piece: bytes) -> None:
        """The next bytes."""

    def close(self) -> ReadMessage:
        """That was all; the message."""


async def read_body(reader: BodyReader, chunks: AsyncIterable[bytes]) -> ReadMessage:
    """The message. Decoding, hashing and the disk are for a thread, so that nobody else waits for them."""
    seen = 0
    async for piece in chunks:
        seen += len(piece)
        if seen > BODY_LIMIT_BYTES:
            raise BodyTooLargeError
        await _to_the_end(partial(reader.feed, piece))
    return await _to_the_end(reader.close)


async def _to_the_end(verb: Callable[[], T]) -> T:
    """A caller that is cancelled meanwhile waits, so that no file appears after the spool was cleared."""
    working = asyncio.ensure_future(asyncio.to_thread(verb))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise

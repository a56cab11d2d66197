"""Flight logs of workers, brought home from whatever machine, so that they are listed and read in one place."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from mediamill.db.connection import Connection
from mediamill.engine import store
from mediamill.errors import InvalidError, NotFoundError, QuotaExceededError

MOST_PACKED_BYTES = 1_400_000  # about ten times as much text; a request to the server may have little more
MOST_TEXT_BYTES = 128 << 20
LEFT_OUT = b"(earlier entries were left out)\n"

_NAME = re.compile(r"(?P<worker>\d{1,10})_(?P<at>\d{8}T\d{6}\.\d{6})Z\.log")
_READ_BYTES = 1 << 18


class UnknownDumpError(NotFoundError):
    """There is no such flight log."""

    code = "unknown_dump"


class DumpInvalidError(InvalidError):
    """This is not the flight log of a worker."""

    code = "dump_invalid"


class DumpTooLargeError(QuotaExceededError):
    """The flight log is too large."""

    code = "dump_too_large"


def pack(text: bytes) -> bytes:
    """A text as it is kept. Of one that is too large, the latest half that is not."""
    packed = zlib.compress(text)
    while len(packed) > MOST_PACKED_BYTES:
        text = LEFT_OUT + text[len(text) // 2 :].partition(b"\n")[2]
        packed = zlib.compress(text)
    return packed


def unpack(packed: bytes) -> Iterator[bytes]:
    """The text in pieces; refused if it is none, or a small thing that unpacks to a huge one."""
    unpacker, given, size = zlib.decompressobj(), packed, 0
    try:
        while not unpacker.eof:
            piece = unpacker.decompress(given, _READ_BYTES)
            given = unpacker.unconsumed_tail
            if not piece and not given and not unpacker.eof:
                raise DumpInvalidError("the flight log ends too early")
            size += len(piece)
            if size > MOST_TEXT_BYTES:
                raise DumpTooLargeError(f"a flight log may have {MOST_TEXT_BYTES} bytes")
            yield piece
    except zlib.error as error:
        raise DumpInvalidError(f"the flight log is not compressed by zlib: {error}") from error


def worker_of_name(name: str) -> int:
    """Whose flight log has this name; the name of anything else is refused."""
    return _parse(name)[0]


def _parse(name: str) -> tuple[int, datetime]:
    found = _NAME.fullmatch(name)
    try:
        if found is None:
            raise ValueError("not like 7_20261115T221730.210895Z.log")
        at = datetime.strptime(found["at"], "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC)
        if (worker_id := int(found["worker"])) > 2**31 - 1:
            raise ValueError("no such worker")
    except ValueError as error:
        raise DumpInvalidError(f"{name[:100]!r} is not the name of a flight log: {error}") from None
    return worker_id, at


async def keep_dump(connection: Connection, name: str, packed: bytes) -> bool:
    """Keep it; False if it was there already."""
    if len(packed) > MOST_PACKED_BYTES:
        raise DumpTooLargeError(f"a flight log may have {MOST_PACKED_BYTES} bytes, compressed")
    worker_id, taken_at = _parse(name)
    size = await asyncio.to_thread(lambda: sum(len(piece) for piece in unpack(packed)))
    kept = await store.workers.keep_dump.value(
        connection, name=name, worker_id=worker_id, taken_at=taken_at, bytes=size, content=packed
    )
    return kept is not None


async def missing_dumps(connection: Connection, names: list[str]) -> list[str]:
    """Those of these names that are not here."""
    rows = await store.workers.missing_dumps.rows(connection, names=names)
    return [row["name"] for row in rows]


async def list_dumps(
    connection: Connection, *, worker_id: int | None = None, amount: int = 100
) -> list[dict[str, Any]]:
    """Newest first, without their texts."""
    rows = await store.workers.list_dumps.rows(connection, worker_id=worker_id, amount=amount)
    return [dict(row) for row in rows]


async def read_dump(connection: Connection, dump_id: int) -> tuple[str, bytes]:
    """Name and text, compressed (see unpack)."""
    row = await store.workers.read_dump.row(connection, id=dump_id)
    if row is None:
        raise UnknownDumpError(
            f"there is no flight log {dump_id}", fix="mediamill workers dumps lists those there are"
        )
    return row["name"], row["content"]


async def forget_dumps(connection: Connection, *, most: int, keep_days: float) -> int:
    """Those beyond the newest `most`, and those that are too old."""
    return await store.workers.forget_dumps.run(connection, most=most, keep_days=keep_days)

"""Images from their files into the database, by COPY that reads a little at a time: no image is in memory whole."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from asyncpg import ConnectionDoesNotExistError

from mediamill.db.connection import Connection
from mediamill.inputs.model import Scope, SpooledImage

PIECE_BYTES = 256 * 1024
COLUMNS = (
    "input_image_id",
    "source",
    "thread_key",
    "user_key",
    "run_id",
    "telegram_media_group_id",
    "mime_type",
    "filename",
    "byte_size",
    "position",
    "image_bytes",
)
# PostgreSQL's binary COPY: a signature, flags, the length of an extension; at the end a row of -1 fields.
HEAD = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
TAIL = struct.pack("!h", -1)


async def copy_images(
    connection: Connection,
    scope: Scope,
    images: Sequence[SpooledImage],
    *,
    run_id: uuid.UUID | None,
    first_position: int = 0,
    media_group_id: str | None = None,
) -> None:
    """In the caller's transaction, with places from `first_position` on.

    Each by a COPY of its own: PostgreSQL gathers the rows of a binary COPY in memory, whatever their size.
    """
    for position, image in enumerate(images, first_position):
        await _copy(connection, _row(scope, image, run_id, position, media_group_id))


async def _copy(connection: Connection, rows: AsyncIterator[bytes]) -> None:
    """asyncpg waits for ever if the connection is lost while it waits for room to write: hear of it, and end it."""
    lost = False

    def give_up(_: Connection) -> None:
        nonlocal lost
        lost = True
        copying.cancel()

    copying = asyncio.create_task(
        connection.copy_to_table("input_images", source=rows, columns=COLUMNS, format="binary")
    )
    connection.add_termination_listener(give_up)
    try:
        await copying
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if lost and task is not None and not task.cancelling():
            raise ConnectionDoesNotExistError("the connection was lost while images were copied") from None
        raise
    finally:
        if not lost:
            connection.remove_termination_listener(give_up)


async def _row(
    scope: Scope, image: SpooledImage, run_id: uuid.UUID | None, position: int, media_group_id: str | None
) -> AsyncIterator[bytes]:
    fields = (
        uuid.uuid4().bytes,
        _text(scope.source),
        _text(scope.thread_key),
        _text(scope.user_key),
        None if run_id is None else run_id.bytes,
        _text(media_group_id),
        _text(image.mime_type),
        _text(image.filename),
        struct.pack("!q", image.byte_size),
        struct.pack("!i", position),
    )
    yield HEAD + struct.pack("!h", len(COLUMNS)) + b"".join(_field(value) for value in fields)
    yield struct.pack("!i", image.byte_size)
    async for piece in _pieces(image.path, image.byte_size):
        yield piece
    yield TAIL


async def _pieces(path: Path, size: int) -> AsyncIterator[bytes]:
    """Exactly as many bytes as were announced: a file that changed meanwhile must not become somebody's next field."""
    with path.open("rb") as file:
        while size:
            piece = await asyncio.to_thread(file.read, min(PIECE_BYTES, size))
            if not piece:
                raise OSError("a spooled image is shorter than it was")
            size -= len(piece)
            yield piece


def _text(value: str | None) -> bytes | None:
    """Without what no database can keep: names of files are whatever their senders wrote."""
    return None if value is None else value.replace("\0", "").encode("utf-8", "replace")


def _field(value: bytes | None) -> bytes:
    return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value

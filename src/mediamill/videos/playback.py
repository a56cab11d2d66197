"""What a player is given: the files of the stream that is shown, and a master that lists only what is there."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from mediamill.db.connection import Connection
from mediamill.errors import NotFoundError
from mediamill.media.hls import MASTER, read_master, write_master
from mediamill.videos.model import output_folder, source_path
from mediamill.videos.store import queries

MASTER_BYTES = 1 << 20


class NoSuchFileError(NotFoundError):
    """The stream has no such file."""

    code = "unknown_file"


@dataclass(frozen=True, slots=True)
class Shown:
    """A file that may be served: where it is, and its mark for caches."""

    path: Path
    bytes: int
    etag: str


@dataclass(frozen=True, slots=True)
class Source:
    """The file as it was uploaded; its name is a stranger's text."""

    path: Path
    name: str
    mime_type: str


async def find_file(
    connection: Connection, data_folder: Path, video_id: UUID, output: int, name: str
) -> Shown:
    """A file of the stream that is shown now. Names are looked up, never made into a path."""
    row = await queries.find_file.row(connection, video_id=video_id, name=name)
    if row is None or row["output"] != output or row["deleted_at"] is not None:
        raise NoSuchFileError
    return Shown(output_folder(data_folder, video_id, output) / name, row["bytes"], row["sha256"].hex()[:32])


async def find_source(connection: Connection, data_folder: Path, video_id: UUID) -> Source:
    """The uploaded file of a video that is not in the trash."""
    row = await queries.source_of.row(connection, id=video_id)
    if row is None:
        raise NoSuchFileError
    return Source(source_path(data_folder, video_id), row["source_name"], row["mime_type"])


async def master_text(connection: Connection, data_folder: Path, video_id: UUID, output: int) -> str:
    """The master playlist, without the qualities that a retranscode has taken away."""
    if await queries.output_of.value(connection, id=video_id) != output:
        raise NoSuchFileError
    names = {row["name"] for row in await queries.list_files.rows(connection, video_id=video_id)}
    text = await asyncio.to_thread(_read, output_folder(data_folder, video_id, output) / MASTER)
    master = read_master(text)
    left = tuple(variant for variant in master.variants if variant.playlist in names)
    if not left:
        raise NoSuchFileError
    return text if len(left) == len(master.variants) else write_master(replace(master, variants=left))


def _read(path: Path) -> str:
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return file.read(MASTER_BYTES).decode()
    except OSError as error:  # not to be taken for a database that is away
        raise NoSuchFileError from error

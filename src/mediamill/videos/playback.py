"""What a player is given: the files of the stream that is shown, and a master that lists only what is there."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import UUID

from mediamill.db.connection import Connection
from mediamill.errors import NotFoundError
from mediamill.media.hls import MASTER, read_master, write_master
from mediamill.videos.model import output_folder
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


async def find_file(
    connection: Connection, data_folder: Path, video_id: UUID, output: int, name: str
) -> Shown:
    """A file of the stream that is shown now. Names are looked up, never made into a path."""
    row = await queries.find_file.row(connection, video_id=video_id, name=name)
    if row is None or row["output"] != output:
        raise NoSuchFileError
    return Shown(output_folder(data_folder, video_id, output) / name, row["bytes"], row["sha256"].hex()[:32])


async def master_text(connection: Connection, data_folder: Path, video_id: UUID, output: int) -> str:
    """The master playlist, without the qualities that a retranscode has taken away."""
    if await queries.output_of.value(connection, id=video_id) != output:
        raise NoSuchFileError
    names = {row["name"] for row in await queries.list_files.rows(connection, video_id=video_id)}
    path = output_folder(data_folder, video_id, output) / MASTER
    text = (await asyncio.to_thread(path.read_bytes))[:MASTER_BYTES].decode()
    master = read_master(text)
    left = tuple(variant for variant in master.variants if variant.playlist in names)
    if not left:
        raise NoSuchFileError
    return text if len(left) == len(master.variants) else write_master(replace(master, variants=left))

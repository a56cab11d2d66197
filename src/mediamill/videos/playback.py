"""What a player is given: the files of the stream that is shown, and a master that lists only what is there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from mediamill.db.connection import Connection, Database
from mediamill.errors import NotFoundError
from mediamill.media.hls import MASTER, read_master, write_master
from mediamill.storage.choose import Place
from mediamill.storage.read import read_text
from mediamill.videos.model import output_folder, source_name
from mediamill.videos.store import queries

MASTER_BYTES = 1 << 20


class NoSuchFileError(NotFoundError):
    """The stream has no such file."""

    code = "unknown_file"


@dataclass(frozen=True, slots=True)
class Shown:
    """A file that may be served: the name under which it is stored, and its mark for caches."""

    stored: str
    bytes: int
    etag: str


@dataclass(frozen=True, slots=True)
class Source:
    """The file as it was uploaded; its name is a stranger's text."""

    stored: str
    name: str
    mime_type: str


async def find_file(connection: Connection, video_id: UUID, output: int, name: str) -> Shown:
    """A file of the stream that is shown now. Names are looked up, never made into a path."""
    row = await queries.find_file.row(connection, video_id=video_id, name=name)
    if row is None or row["output"] != output or row["deleted_at"] is not None:
        raise NoSuchFileError
    stored = f"{output_folder(video_id, output)}/{name}"
    return Shown(stored, row["bytes"], row["sha256"].hex()[:32])


async def find_source(connection: Connection, video_id: UUID) -> Source:
    """The uploaded file of a video that is not in the trash."""
    row = await queries.source_of.row(connection, id=video_id)
    if row is None:
        raise NoSuchFileError
    return Source(source_name(video_id), row["source_name"], row["mime_type"])


async def master_text(database: Database, place: Place, video_id: UUID, output: int) -> str:
    """The master playlist, without the qualities that a retranscode has taken away."""
    async with database.connection() as connection:
        if await queries.output_of.value(connection, id=video_id) != output:
            raise NoSuchFileError
        names = {row["name"] for row in await queries.list_files.rows(connection, video_id=video_id)}
    text = await read_text(database, place, f"{output_folder(video_id, output)}/{MASTER}", MASTER_BYTES)
    if text is None:
        raise NoSuchFileError
    master = read_master(text)
    left = tuple(variant for variant in master.variants if variant.playlist in names)
    if not left:
        raise NoSuchFileError
    return text if len(left) == len(master.variants) else write_master(replace(master, variants=left))

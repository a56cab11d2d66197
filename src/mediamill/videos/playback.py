"""What a player is given: the files of the stream that plays, and the source."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mediamill.db.connection import Connection
from mediamill.errors import NotFoundError
from mediamill.videos.model import output_folder, source_name
from mediamill.videos.store import queries


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
    """A file of a stream that may be played. Names are looked up, never made into a path."""
    row = await queries.find_file.row(connection, video_id=video_id, output=output, name=name)
    if row is None:
        raise NoSuchFileError
    stored = f"{output_folder(video_id, output)}/{name}"
    return Shown(stored, row["bytes"], row["sha256"].hex()[:32])


async def find_source(connection: Connection, video_id: UUID) -> Source:
    """The uploaded file of a video that is not in the trash."""
    row = await queries.source_of.row(connection, id=video_id)
    if row is None:
        raise NoSuchFileError
    return Source(source_name(video_id), row["source_name"], row["mime_type"])

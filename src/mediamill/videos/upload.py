"""Uploads: a file comes in pieces, and once it is whole it becomes a video with its job, exactly once.

The steps of the end are: on the disk, looked at, moved to the video's folder, and then one transaction with the video,
its job and the end of the upload. Whoever is killed between two of them leaves what tells the next, by whichever
request or sweep it comes, how to go on: a part file that is whole, or a source without a finished row. The part's lock
keeps two from moving it, the row's lock from making two videos. The video has the id of its upload.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import PureWindowsPath
from uuid import UUID, uuid4

from asyncpg import Record

from mediamill.db.connection import Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.priority import read_priority
from mediamill.errors import InvalidError
from mediamill.media.sniff import UNKNOWN, Sniffed, sniff_file
from mediamill.settings import Settings
from mediamill.staging.append import Inflow
from mediamill.staging.choose_parts import parts_of
from mediamill.staging.parts import HeldPart, Parts
from mediamill.staging.put import EmptyUploadError, UploadTooLargeError
from mediamill.staging.quota import StorageFullError
from mediamill.staging.resumable import (
    BeyondLengthError,
    OffsetMismatchError,
    PartFacts,
    PartMissingError,
    UploadLockedError,
)
from mediamill.videos.add import add_video
from mediamill.videos.model import NewVideo, clean_fact, source_name
from mediamill.videos.upload_store import queries

log = logging.getLogger(__name__)

VIDEO, SOUND = "video/", "audio/"
NAME_CHARACTERS = 200
NORMAL = "normal"
LOOK_BYTES = 64 * 1024
LOCK_SECONDS, LOCK_TRIES = 0.1, 20  # a line that was just cut off lets go of its upload in a moment
MOST_CHARACTERS = {
    "title": 200,
    "description": 10_000,
    "category": 100,
    "fingerprint": 500,
    "filename": 1_000,
    "priority": 20,
}


class NotAVideoError(InvalidError):
    """This is no video."""

    code = "not_a_video"


@dataclass(frozen=True, slots=True)
class Upload:
    """How far it is. `finished`: it is a video, with the same id."""

    id: UUID
    bytes: int
    offset: int
    metadata: Mapping[str, str]
    expires_at: datetime
    finished: bool


@dataclass(frozen=True, slots=True)
class Uploads:
    """Everything that can be done with uploads. Each verb opens its own transactions: their steps are also on disk."""

    database: Database
    enqueuer: Enqueuer
    settings: Settings

    async def create(self, length: int, metadata: Mapping[str, str]) -> Upload:
        """A new one; or, with the fingerprint and length of one that nobody heard the end of, that one.

        It may be a video already: then its sender was cut off before the answer came.
        """
        said = check_metadata(metadata)
        self._check_length(length)
        while True:
            upload_id = uuid4()
            await self._parts.create(upload_id)  # before its row: a row without a file is dead
            row = await self._add(upload_id, length, said)
            async with self._parts.hold(upload_id, source_name(upload_id)) as part:
                if row["id"] != upload_id:
                    await part.delete()
                else:
                    await self._check_room(part, upload_id, length)
            try:
                return await self.show(row["id"])
            except PartMissingError:
                continue  # it has just ended, and there is no row any more

    async def show(self, upload_id: UUID) -> Upload:
        """How far it is. One that is whole is finished first."""
        row = await self._row(upload_id)
        facts = await self._facts(upload_id)
        if row["finished_at"] is None and (facts is None or facts.size == row["bytes"]):
            return await self.finish(row)
        return await self._as_upload(row)

    async def append(
        self,
        upload_id: UUID,
        offset: int,
        pieces: AsyncIterable[bytes | Inflow],
        *,
        announced_bytes: int | None = None,
        checksum: bytes | None = None,
    ) -> Upload:
        """What comes, behind what there is. With the last byte it becomes a video."""
        row = await self._row(upload_id)
        if row["finished_at"] is None and offset + (announced_bytes or 0) > row["bytes"]:
            raise BeyondLengthError(fix="begin a new upload, with the length that it has")
        try:
            async with self._hold(upload_id) as part:
                row = await self._touch(upload_id)
                await self._append(part, row, offset, pieces, checksum)
        except PartMissingError:
            row = await self._row(upload_id)
            if offset != row["bytes"]:
                raise OffsetMismatchError("all of the upload has come already") from None
        whole = await self._facts(upload_id) is None
        if whole and row["finished_at"] is None:
            return await self._register(row)
        return await self._as_upload(row)

    async def finish(self, row: Record) -> Upload:
        """Whatever is left to be done for one that is whole. If somebody else is at it, it is shown as it is."""
        try:
            async with self._parts.hold(row["id"], source_name(row["id"])) as part:
                if part.size < row["bytes"]:
                    return await self._as_upload(row)
                await self._place(part, row["id"])
        except PartMissingError:
            pass  # moved before, or never there
        except UploadLockedError:
            return await self._as_upload(row)
        return await self._register(row)

    async def terminate(self, upload_id: UUID) -> Upload | None:
        """It is not wanted any more, and nothing of it is left; or its sender has heard that it is finished.

        One that is a video stays one, and is given back: the same file sent once more becomes another.
        """
        row = await self._row(upload_id)
        try:
            async with self._hold(upload_id) as part:
                if part.size < row["bytes"]:
                    await self._drop(part, upload_id)
                    return None
        except PartMissingError:
            pass
        with suppress(NotAVideoError):
            upload = await self.show(upload_id)
            async with self.database.connection() as connection:
                await queries.let_go.run(connection, id=upload_id)
            return upload
        return None

    async def expire(self, row: Record) -> bool:
        """If nobody went on with it for long enough. UploadLockedError: somebody does."""
        async with self._parts.hold(row["id"], source_name(row["id"])) as part:
            upload = await self._as_upload(row)
            if part.size < row["bytes"] and upload.expires_at < datetime.now(UTC):
                await self._drop(part, row["id"])
                return True
        return False

    async def _append(
        self,
        part: HeldPart,
        row: Record,
        offset: int,
        pieces: AsyncIterable[bytes | Inflow],
        checksum: bytes | None,
    ) -> None:
        looked = _looked_at(pieces) if offset == 0 else pieces
        try:
            size = await part.append(looked, offset=offset, length=row["bytes"], checksum=checksum)
        except NotAVideoError:
            await self._drop(part, row["id"])
            raise
        if size == row["bytes"]:
            await self._place(part, row["id"])

    async def _place(self, part: HeldPart, upload_id: UUID) -> None:
        """All of it is there: to the video's folder, if it is one."""
        found = await part.sniff()
        if not found.mime_type.startswith(VIDEO):
            await self._drop(part, upload_id)
            raise _not_a_video(found)
        await part.move(source_name(upload_id))

    async def _register(self, row: Record) -> Upload:
        """The video, its job and the end of the upload: all or nothing."""
        upload_id: UUID = row["id"]
        found = await self._parts.sniff_stored(source_name(upload_id))
        if found is None:
            await self._drop(None, upload_id)
            raise PartMissingError
        async with self.database.transaction() as connection:
            locked = await queries.lock_upload.row(connection, id=upload_id)
            if locked is None:
                raise PartMissingError
            if locked["finished_at"] is None:
                new = _new_video(locked, found.mime_type)
                await add_video(connection, self.enqueuer, self.settings, new)
                locked = await queries.finish_upload.row(
                    connection, id=upload_id, keep_seconds=self._keep.total_seconds()
                )
                assert locked is not None
        return await self._as_upload(locked)

    async def _drop(self, part: HeldPart | None, upload_id: UUID) -> None:
        """The row first: a file without one is found by the sweep. PartMissingError: all of it has come meanwhile."""
        async with self.database.transaction() as connection:
            # Whoever moves a part in a bucket has this lock, too.
            await queries.lock_upload.row(connection, id=upload_id)
            if part is not None and await self._parts.has_moved(connection, source_name(upload_id)):
                raise PartMissingError
            await queries.drop_upload.run(connection, id=upload_id)
        if part is not None:
            await part.delete()

    async def _add(self, upload_id: UUID, length: int, metadata: Mapping[str, str]) -> Record:
        fingerprint = metadata.get("fingerprint") or None
        async with self.database.connection() as connection:
            if fingerprint is not None:
                await queries.let_go_of_old.run(connection, fingerprint=fingerprint, bytes=length)
            row = await queries.add_upload.row(
                connection,
                id=upload_id,
                name=metadata.get("filename", ""),
                bytes=length,
                metadata=json.dumps(dict(metadata)),
                fingerprint=fingerprint,
                keep_seconds=self._keep.total_seconds(),
            )
        assert row is not None
        return row

    async def _row(self, upload_id: UUID) -> Record:
        async with self.database.connection() as connection:
            row = await queries.show_upload.row(connection, id=upload_id)
        if row is None:
            raise PartMissingError(fix="begin a new one")
        return row

    async def _touch(self, upload_id: UUID) -> Record:
        async with self.database.connection() as connection:
            row = await queries.touch_upload.row(
                connection, id=upload_id, keep_seconds=self._keep.total_seconds()
            )
        if row is None:
            raise PartMissingError(fix="begin a new one")
        return row

    @asynccontextmanager
    async def _hold(self, upload_id: UUID) -> AsyncIterator[HeldPart]:
        """The part alone; a moment is waited for whoever has it."""
        async with AsyncExitStack() as stack:
            for tries_left in reversed(range(LOCK_TRIES)):
                try:
                    held = self._parts.hold(upload_id, source_name(upload_id))
                    part = await stack.enter_async_context(held)
                    break
                except UploadLockedError:
                    if not tries_left:
                        raise
                await asyncio.sleep(LOCK_SECONDS)
            yield part

    async def _as_upload(self, row: Record) -> Upload:
        """With the part as it is now. It expires so long after the last byte came."""
        facts = None if row["finished_at"] else await self._facts(row["id"])
        metadata: dict[str, str] = json.loads(row["metadata"])
        if facts is None:
            finished = row["finished_at"] is not None
            return Upload(row["id"], row["bytes"], row["bytes"], metadata, row["expires_at"], finished)
        expires_at = max(row["expires_at"], facts.changed_at + self._keep)
        return Upload(row["id"], row["bytes"], facts.size, metadata, expires_at, False)

    def _check_length(self, length: int) -> None:
        limit = self.settings.video_upload_limit_bytes
        if length <= 0:
            raise EmptyUploadError(fix="choose a file with something in it")
        if length > limit:
            raise UploadTooLargeError(
                f"a video may have {limit} bytes", fix="MEDIAMILL_VIDEO_UPLOAD_LIMIT_BYTES sets the limit"
            )

    async def _check_room(self, part: HeldPart, upload_id: UUID, length: int) -> None:
        try:
            part.check_room(length)
        except StorageFullError:
            await self._drop(part, upload_id)
            raise

    async def _facts(self, upload_id: UUID) -> PartFacts | None:
        return await self._parts.facts(upload_id, source_name(upload_id))

    @property
    def _parts(self) -> Parts:
        return parts_of(self.database, self.settings)

    @property
    def _keep(self) -> timedelta:
        return timedelta(hours=self.settings.upload_keep_hours)


def check_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """What a sender may say, cleaned; before gigabytes are sent for nothing."""
    said = {
        name: clean_fact(name, metadata[name], most)
        for name, most in MOST_CHARACTERS.items()
        if name in metadata
    }
    read_priority(said.get("priority") or NORMAL)
    return said


async def _looked_at(pieces: AsyncIterable[bytes | Inflow]) -> AsyncIterator[bytes | Inflow]:
    """What is no video by its first bytes need not be sent to its end. In doubt, the end decides."""
    first: bytearray | None = bytearray()
    async for piece in pieces:
        if first is not None:
            piece = piece if isinstance(piece, bytes) else _first_of(piece)
            first += piece
            if len(first) >= LOOK_BYTES:
                found = await asyncio.to_thread(sniff_file, BytesIO(first))
                if not found.mime_type.startswith((VIDEO, SOUND, UNKNOWN)):
                    raise _not_a_video(found)
                first = None
        yield piece


def _first_of(inflow: Inflow) -> bytes:
    """Some bytes of what has come; it is given again for the rest."""
    buffer = bytearray(LOOK_BYTES)
    return bytes(buffer[: inflow.read_into(memoryview(buffer))])


def _not_a_video(found: Sniffed) -> NotAVideoError:
    if found.mime_type.startswith(SOUND):
        return NotAVideoError(
            f"this is sound without moving pictures ({found.mime_type})",
            fix="mediamill process FILE turns sound into text",
        )
    return NotAVideoError(
        f"this is no video but {found.mime_type} ({found.evidence})",
        fix="upload a video: MP4, MOV, MKV, WebM, AVI, MPEG …",
    )


def _new_video(row: Record, mime_type: str) -> NewVideo:
    said: dict[str, str] = json.loads(row["metadata"])
    return NewVideo(
        id=row["id"],
        title=said.get("title", ""),
        description=said.get("description", ""),
        category=said.get("category", ""),
        # A name as a browser of any system may give it, without folders: it is shown, and never used as a path.
        source_name=PureWindowsPath(row["name"]).name[-NAME_CHARACTERS:],
        source_bytes=row["bytes"],
        mime_type=mime_type,
        priority=read_priority(said.get("priority") or NORMAL),
    )

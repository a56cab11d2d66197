"""Where the parts of uploads gather: by files of this machine, or in the bucket, where any server goes on with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import UUID

from mediamill.db.connection import Connection
from mediamill.media.sniff import Sniffed, sniff
from mediamill.staging.append import Inflow, append, check_room
from mediamill.staging.resumable import Part, PartFacts, create_part, hold_part, part_facts


class HeldPart(Protocol):
    """One upload while somebody works on it."""

    @property
    def size(self) -> int:
        """How much has come."""

    def check_room(self, length: int) -> None:
        """StorageFullError, before anything is sent in vain."""

    async def append(
        self, pieces: AsyncIterable[bytes | Inflow], *, offset: int, length: int, checksum: bytes | None
    ) -> int:
        """What comes, behind what there is; the new size. Whatever ends it early, what arrived is kept."""

    async def sniff(self) -> Sniffed:
        """What it is."""

    async def move(self, name: str) -> None:
        """It is whole, and becomes the stored file of this name."""

    async def delete(self) -> None:
        """It is not wanted any more."""


class Parts(Protocol):
    """Of one storage."""

    async def create(self, upload_id: UUID) -> None:
        """Empty. It must not be there."""

    async def facts(self, upload_id: UUID, name: str) -> PartFacts | None:
        """How much has come; None: it became the stored file of this name, or was never there."""

    def hold(self, upload_id: UUID, name: str) -> AbstractAsyncContextManager[HeldPart]:
        """UploadLockedError: somebody else has it. PartMissingError: as `facts`."""

    async def has_moved(self, connection: Connection, name: str) -> bool:
        """Did somebody else make the stored file of this name of it, while it was held?"""

    async def sniff_stored(self, name: str) -> Sniffed | None:
        """What a stored file is; None if it is not there."""


@dataclass(frozen=True, slots=True)
class _FolderPart:
    part: Part
    data: Path

    @property
    def size(self) -> int:
        return self.part.size

    def check_room(self, length: int) -> None:
        check_room(self.part.path.parent, length)

    async def append(
        self, pieces: AsyncIterable[bytes | Inflow], *, offset: int, length: int, checksum: bytes | None
    ) -> int:
        return await append(self.part, pieces, offset=offset, length=length, checksum=checksum)

    async def sniff(self) -> Sniffed:
        return await asyncio.to_thread(sniff, self.part.path)

    async def move(self, name: str) -> None:
        await self.part.move(self.data / name)

    async def delete(self) -> None:
        await self.part.delete()


@dataclass(frozen=True, slots=True)
class FolderParts:
    """See Parts. The size of the part file is the truth, and a lock on it says who writes."""

    data: Path

    async def create(self, upload_id: UUID) -> None:
        """See Parts."""
        await create_part(self.data, upload_id)

    async def facts(self, upload_id: UUID, name: str) -> PartFacts | None:  # noqa: ARG002
        """See Parts."""
        return part_facts(self.data, upload_id)

    @asynccontextmanager
    async def hold(self, upload_id: UUID, name: str) -> AsyncIterator[HeldPart]:  # noqa: ARG002
        """See Parts."""
        with hold_part(self.data, upload_id) as part:
            yield _FolderPart(part, self.data)

    async def has_moved(self, connection: Connection, name: str) -> bool:  # noqa: ARG002
        """See Parts. Who holds a part file has it alone."""
        return False

    async def sniff_stored(self, name: str) -> Sniffed | None:
        """See Parts."""
        with suppress(FileNotFoundError):
            return await asyncio.to_thread(sniff, self.data / name)
        return None

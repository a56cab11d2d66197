"""What every storage does. A name is a path with slashes, relative to the data folder, whichever storage it is in.

Bytes are safe first and have a name afterwards (`send`, `give_name`); whatever has a name is whole. What changes names
takes the caller's connection: in a bucket they are rows, and change with the transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mediamill.db.connection import Connection, Database
from mediamill.errors import NotFoundError, NotNowError

Where = Database | Connection  # who looks a name up: in a transaction, or by itself


class StoredMissingError(NotFoundError):
    """There is no such file."""

    code = "file_missing"


class StorageAwayError(NotNowError):
    """The storage of files does not answer now."""

    code = "storage_away"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a file, under a key that is never used for anything else."""

    first: int
    length: int
    key: str
    sha256: bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """Bytes that are safe, and have no name yet. `pieces`: where they lie in a bucket."""

    path: Path
    bytes: int
    pieces: tuple[Piece, ...] = ()
    at_seconds: float = 0.0


class OpenFile(Protocol):
    """A file that can be read by position until it is closed. `mark`: what is different if the file is."""

    @property
    def length(self) -> int:
        """How long it is."""

    @property
    def mark(self) -> str:
        """For caches."""

    def chunks(self, first: int, length: int) -> AsyncIterator[bytes]:
        """So many bytes from there on; fewer if the file is shorter by now."""

    def close(self) -> None:
        """Nothing is read any more."""


class Storage(Protocol):
    """Files by name."""

    @property
    def folder(self) -> Path:
        """The data folder: where files are worked on, and all of them are if there is no bucket."""

    async def send(self, path: Path) -> Sent:
        """Make the bytes of a local file safe. They have no name, and nobody sees them."""

    async def give_name(self, connection: Connection, sent: Sent, name: str) -> None:
        """What was sent is the file of this name, in place of any that was. The local file may be gone."""

    async def put_all(self, database: Database, files: Mapping[str, Path]) -> None:
        """Local files get these names, and are gone from where they were. A crash may leave some of them named."""

    async def find(self, where: Where, name: str) -> Path:
        """A local file with these bytes, to be read and not changed; StoredMissingError."""

    async def open(self, where: Where, name: str) -> OpenFile | None:
        """For reading by position; None if there is no such file."""

    async def sizes(self, connection: Connection, folder: str) -> dict[str, int]:
        """The files right in a folder, by the last part of their name."""

    async def folders(self, connection: Connection, folder: str) -> list[str]:
        """The folders right in a folder."""

    async def age_seconds(self, connection: Connection, folder: str) -> float:
        """How long nothing has changed in it; 0 if it is not there."""

    async def count_in(self, connection: Connection, folder: str) -> int:
        """How many files are in a folder, and in those below it."""

    async def move_folder(
        self, connection: Connection, source: str, target: str, names: Collection[str]
    ) -> None:
        """The files of one folder become those of another, all at once; only those named come along."""

    async def bring_back(self, source: str, target: str) -> None:
        """A `move_folder` whose transaction was cut off is undone, if the storage does not do so by itself."""

    async def link_files(
        self, connection: Connection, source: str, target: str, names: Sequence[str]
    ) -> None:
        """The same bytes under a second name each; can be done again."""

    async def drop(self, connection: Connection, *names: str) -> None:
        """Files, or folders with all that is in them, go when the transaction has come to its end."""

    async def remove_now(self, connection: Connection, *names: str) -> None:
        """As `remove`, in the caller's transaction, which must come to a good end: a folder knows no way back."""

    async def remove(self, database: Database, names: Sequence[str]) -> None:
        """Files, or folders with all that is in them, are gone when this returns."""

    async def find_folder(self, where: Where, folder: str, names: Sequence[str]) -> Path:
        """A local folder with these files; those that are not there are not in it."""

    def old_files(self, database: Database, root: str, older_than_seconds: float) -> AsyncIterator[list[str]]:
        """Files in a folder, and in those below it, that were not changed for so long, some at a time."""

    def old_folders(
        self, database: Database, root: str, older_than_seconds: float
    ) -> AsyncIterator[list[str]]:
        """Folders `<root>/<shard>/<name>` in which nothing changed for so long, shard by shard."""

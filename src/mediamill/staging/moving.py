"""What a move between data folder and bucket works on: stored files, and whether two copies are the same."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from mediamill.staging import FAILED
from mediamill.staging import FOLDER as STAGED
from mediamill.staging.quota import PART
from mediamill.staging.resumable import FOLDER as UPLOADS
from mediamill.staging.resumable import UNCHECKED, hold_part
from mediamill.storage.cache import digest_of, size_of
from mediamill.storage.contract import Piece
from mediamill.storage.folder import open_plain

# What a bucket takes in the place of the data folder. Media that wait also stay where the chat came in.
AREAS = (
    STAGED,
    FAILED,
    UPLOADS,
    "videos",
    "libraries",
    "intake/files",
    "intake/outputs",
    "derivatives",
    "kept",
)
BATCH_FILES = 100
BATCH_BYTES = 256 << 20  # so much is sent before it is named, and is sent again after a crash
MOST_TOLD = 20


@dataclass(frozen=True, slots=True)
class Found:
    """A stored file. `inode`: of one that has several names."""

    name: str
    path: Path
    bytes: int
    inode: tuple[int, int] | None = None


@dataclass
class Moved:
    """What came of it, and how far it is while it goes on."""

    to: str
    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0
    deleted_files: int = 0
    left_out: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    show: Callable[[str, Moved], None] = lambda _what, _moved: None

    def add(self, what: str, bytes_: int, *, copied: bool) -> None:
        """One file more is where it should be."""
        self.files, self.bytes = self.files + 1, self.bytes + bytes_
        if copied:
            self.copied_files, self.copied_bytes = self.copied_files + 1, self.copied_bytes + bytes_
        self.show(what, self)

    def as_dict(self) -> dict[str, Any]:
        """For scripts."""
        told = {name: value for name, value in vars(self).items() if name != "show"}
        return {**told, "left_out": self.left_out[:MOST_TOLD], "faults": self.faults[:MOST_TOLD]}


def walk_stored(data_folder: Path, left_out: list[str]) -> Iterator[Found]:
    """Every stored file of the data folder; what is no plain file is named in `left_out`."""
    for area in AREAS:
        yield from _walk(data_folder, area, left_out)


def _walk(data_folder: Path, folder: str, left_out: list[str]) -> Iterator[Found]:
    top = data_folder / folder
    if top.is_symlink():
        left_out.append(folder)
        return
    try:
        names = sorted(os.listdir(top))  # noqa: PTH208 - names, not paths
    except (FileNotFoundError, NotADirectoryError):
        return
    for each in names:
        name, facts = f"{folder}/{each}", (top / each).lstat()
        if stat.S_ISDIR(facts.st_mode):
            yield from _walk(data_folder, name, left_out)
        elif not stat.S_ISREG(facts.st_mode) or not name.isprintable():
            left_out.append(name.encode("utf-8", "backslashreplace").decode())
        elif not _is_unfinished(folder, each, facts.st_size):
            inode = (facts.st_dev, facts.st_ino) if facts.st_nlink > 1 else None
            yield Found(name, top / each, facts.st_size, inode)


def _is_unfinished(folder: str, name: str, size: int) -> bool:
    """What somebody was writing when it died; an upload of which nothing has come needs no file in a bucket."""
    if folder == UPLOADS:
        return size == 0 or not _is_upload(name)
    return name.startswith(".") or (folder == STAGED and name.endswith(PART))


def _is_upload(name: str) -> bool:
    """What has another name is not ours, and is left alone there."""
    with suppress(ValueError):
        return str(UUID(name)) == name
    return False


def cut_unchecked(data_folder: Path) -> None:
    """Uploads whose writer was killed within a chunk that has a checksum end before it, as when they go on."""
    for note in sorted((data_folder / UPLOADS).glob(f"*{UNCHECKED}")):
        with suppress(ValueError), hold_part(data_folder, UUID(note.name.removesuffix(UNCHECKED))):
            pass


def in_batches_of(files: Iterator[Found]) -> Iterator[list[Found]]:
    """A few files, or one large one, at a time."""
    batch: list[Found] = []
    for found in files:
        batch.append(found)
        if len(batch) == BATCH_FILES or sum(each.bytes for each in batch) >= BATCH_BYTES:
            yield batch
            batch = []
    if batch:
        yield batch


def next_batch(batches: Iterator[list[Found]]) -> list[Found]:
    """For a thread; empty at the end."""
    return next(iter(islice(batches, 1)), [])


@contextmanager
def first_error() -> Iterator[None]:
    """Of several at once, the first is told: the others mostly have the same cause."""
    try:
        yield
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def is_same(path: Path, pieces: Sequence[Piece]) -> bool:
    """Is this the file that these pieces make up? Every byte is looked at, if the size fits."""
    file = open_plain(path) if pieces else None
    if file is None:
        return False
    try:
        if file.length != size_of(pieces):
            return False
        return all(digest_of(file.descriptor, piece) == piece.sha256 for piece in pieces)
    finally:
        file.close()


def check_name(name: str) -> str | None:
    """Why a name cannot be a path below the data folder; None if it can."""
    bad = any(part in ("", ".", "..") for part in name.split("/")) or "\0" in name or "/" not in name
    return f"{name[:200]!r} cannot be the name of a file" if bad else None

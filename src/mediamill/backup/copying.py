"""One pass over the data folder: what did not change since an earlier backup is taken over, the rest is copied.

A file is copied beside and renamed when it is whole; its line in the list follows. So whoever is killed leaves files
that are whole and a list of them, and the next pass takes them over.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from mediamill.backup.durable import CHUNK_BYTES, make_folder, open_plain
from mediamill.backup.listing import Earlier, ListingWriter, read_listing
from mediamill.backup.model import (
    FILES,
    FIRST_LISTING,
    LISTING,
    OTHER_BACKUP,
    BackupDamagedError,
    Entry,
    order_of,
)
from mediamill.backup.walk import Found, walk

SETTLED_NS = 2_000_000_000  # the times of a file system are coarse: what has just changed may change unseen
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EXDEV, errno.EMLINK, errno.ENOENT, errno.EACCES)


class StoppedError(Exception):
    """Whoever asked for it has gone."""


@dataclass
class Progress:
    """How far a pass is; shown from its thread. `stop`: it is not wanted any more."""

    show: Callable[[Progress], None] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)
    files: int = 0
    bytes: int = 0
    copied_files: int = 0
    copied_bytes: int = 0

    def add(self, count: int, *, copied: bool) -> None:
        """So many bytes more."""
        if self.stop.is_set():
            raise StoppedError
        self.bytes += count
        self.copied_bytes += count if copied else 0
        self.show(self)


@dataclass(frozen=True)
class Pass:
    """What came of it."""

    count: int
    total_bytes: int
    left_out: list[str]


def copy_files(data_folder: Path, target: Path, earlier: Sequence[Earlier], progress: Progress) -> Pass:
    """All files into `target/files`, with their list."""
    make_folder(target / FILES)
    return _copy_all(data_folder, target, earlier, progress)


def copy_again(data_folder: Path, target: Path, progress: Progress) -> Pass:
    """What changed since `copy_files`: in its place, with a new list; what is gone from there goes here too."""
    root, first = target / FILES, target / FIRST_LISTING

    def forget(entry: Entry) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            root.joinpath(*entry.parts).unlink()

    (target / LISTING).rename(first)
    earlier = Earlier(root, read_listing(first), gone=forget)
    done = _copy_all(data_folder, target, [earlier], progress)
    earlier.end()
    first.unlink()
    return done


def _copy_all(data_folder: Path, target: Path, earlier: Sequence[Earlier], progress: Progress) -> Pass:
    left_out: list[str] = []
    with _new_file(target / LISTING) as raw:
        listing = ListingWriter(raw)
        for found in walk(data_folder, left_out):
            entry = _take_over(found, target / FILES, earlier, progress) or _copy(found, target, progress)
            if entry is not None:
                listing.add(entry)
                progress.files += 1
        raw.flush()
        os.fsync(raw.fileno())
    return Pass(listing.count, listing.total_bytes, left_out)


def _new_file(path: Path) -> IO[str]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "w", encoding="ascii")


def _take_over(found: Found, root: Path, earlier: Sequence[Earlier], progress: Progress) -> Entry | None:
    key = order_of(found.parts)
    known = [(each, each.find(key)) for each in earlier]  # each one goes along, whoever has it
    for source, entry in known:
        if entry is None or not entry.settled:
            continue
        if (entry.bytes, entry.mtime_ns) != (found.bytes, found.mtime_ns):
            continue
        if _link(source.files.joinpath(*found.parts), root.joinpath(*found.parts), entry, source.consume):
            progress.add(entry.bytes, copied=False)
            return entry
    return None


def _link(old: Path, new: Path, entry: Entry, consume: bool) -> bool:
    """The same file under a second name, or moved; false if it cannot be had."""
    try:
        there = old.lstat()
        if not stat.S_ISREG(there.st_mode) or (there.st_size, there.st_mtime_ns) != (
            entry.bytes,
            entry.mtime_ns,
        ):
            return False
        if old == new:
            return True
        make_folder(new.parent)
        if consume:
            old.rename(new)
        else:
            os.link(old, new, follow_symlinks=False)
    except OSError as error:
        if error.errno in NO_LINKS:
            return False
        raise
    return True


def _copy(found: Found, target: Path, progress: Progress) -> Entry | None:
    """None: it is gone. Of a file that grows, what there was when it was opened."""
    part, place = target / "part", target.joinpath(FILES, *found.parts)
    try:
        source = open_plain(found.path)
    except FileNotFoundError:
        return None
    with source as file:
        facts, opened_at = os.fstat(file.fileno()), time.time_ns()
        copy = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(copy, "wb") as written:
            size, digest = _pour(file, written, facts.st_size, progress)
        os.utime(part, ns=(facts.st_mtime_ns, facts.st_mtime_ns))
    make_folder(place.parent)
    if place.is_dir():  # which it was in the first look
        shutil.rmtree(place)
    part.replace(place)
    progress.copied_files += 1
    settled = opened_at - facts.st_mtime_ns > SETTLED_NS and size == facts.st_size
    return Entry("/".join(found.parts), size, facts.st_mtime_ns, digest, settled)


def _pour(file: IO[bytes], written: IO[bytes], most: int, progress: Progress) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while size < most and (chunk := file.read(min(CHUNK_BYTES, most - size))):
        written.write(chunk)
        digest.update(chunk)
        size += len(chunk)
        progress.add(len(chunk), copied=True)
    return size, digest.hexdigest()


def receive_file(source: Path, target: Path, part: Path, entry: Entry, progress: Progress) -> None:
    """Out of a backup, to its place; one that is not what was backed up is not taken."""
    try:
        opened = open_plain(source)
    except OSError as error:
        raise BackupDamagedError(f"{entry.path} cannot be read: {error.strerror}", fix=OTHER_BACKUP) from None
    with opened as file:
        copy = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(copy, "wb") as written:
            found = _pour(file, written, entry.bytes, progress)
            more = file.read(1)
    if more or found != (entry.bytes, entry.sha256):
        part.unlink()
        raise BackupDamagedError(f"{entry.path} is not what was backed up", fix=OTHER_BACKUP)
    os.utime(part, ns=(entry.mtime_ns, entry.mtime_ns))
    make_folder(target.parent)
    part.replace(target)
    progress.copied_files += 1

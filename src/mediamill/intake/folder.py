"""Reads a watched folder: names and stat, nothing else. No link is followed, nothing is written, no bound is passed.

Every folder is opened by its name in the one above it, by no link: what is put in the way meanwhile leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from mediamill.intake.receive import UnreadableFileError, open_regular

MOST_FILES = 20_000
MOST_DEPTH = 32
PATH_BYTES = 2_000  # what an index of PostgreSQL takes, with some air
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UNFINISHED = (b".part", b".partial", b".crdownload", b".tmp", b".swp", b"~")


@dataclass(frozen=True, slots=True)
class Seen:
    """A file in a watched folder."""

    rel_path: bytes
    mtime_ns: int
    size: int


@dataclass(slots=True)
class Listing:
    """All that is in a folder and below it. `trouble`: what could not be read."""

    files: list[Seen] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


def read_folder(path: str, avoid: str) -> Listing:
    """OSError: the folder itself cannot be read. `avoid`: a folder that is not looked into, wherever it is."""
    if Path(path).resolve().is_relative_to(Path(avoid).resolve()):
        raise OSError(errno.EPERM, "this folder is mediamill's own")
    listing = Listing()
    root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _read(root, b"", 1, _identity(avoid), listing)
    finally:
        os.close(root)
    return listing


def open_below(path: str, rel_path: bytes) -> int:
    """A descriptor of a plain file below a folder, by no link."""
    *folders, name = rel_path.split(b"/")
    try:
        above = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for folder in folders:
            try:
                below = os.open(folder, _FOLDER, dir_fd=above)
            finally:
                os.close(above)
            above = below
    except OSError as error:
        raise UnreadableFileError(error.strerror or str(error)) from error
    try:
        return open_regular(name, dir_fd=above)
    finally:
        os.close(above)


def _read(folder: int, inside: bytes, depth: int, avoid: tuple[int, int] | None, listing: Listing) -> None:
    for name in sorted(os.fsencode(name) for name in os.listdir(folder)):
        if _is_skipped(name):
            continue
        path = inside + name
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(found.st_mode):
            _read_below(folder, name, path, depth, avoid, listing)
        elif stat.S_ISREG(found.st_mode) and _fits(path, listing):
            listing.files.append(Seen(path, found.st_mtime_ns, found.st_size))


def _read_below(
    folder: int, name: bytes, path: bytes, depth: int, avoid: tuple[int, int] | None, listing: Listing
) -> None:
    if depth >= MOST_DEPTH:
        listing.trouble.append(f"folders are looked into {MOST_DEPTH} deep, not deeper")
        return
    try:
        below = os.open(name, _FOLDER, dir_fd=folder)
    except OSError as error:
        listing.trouble.append(f"{os.fsdecode(path)}: {error.strerror}")
        return
    try:
        found = os.fstat(below)
        if (found.st_dev, found.st_ino) != avoid:
            _read(below, path + b"/", depth + 1, avoid, listing)
    except OSError as error:
        listing.trouble.append(f"{os.fsdecode(path)}: {error.strerror}")
    finally:
        os.close(below)


def _fits(path: bytes, listing: Listing) -> bool:
    if len(path) > PATH_BYTES:
        listing.trouble.append(f"a path is longer than {PATH_BYTES} bytes")
        return False
    if len(listing.files) >= MOST_FILES:
        listing.trouble.append(f"more than {MOST_FILES} files are there; the others are not looked at")
        return False
    return True


def _is_skipped(name: bytes) -> bool:
    """Hidden, or not finished by whoever writes it."""
    return name.startswith((b".", b"~")) or name.lower().endswith(_UNFINISHED)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""Small files that are there as a whole or not at all, and hashes of large ones."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import IO

CHUNK_BYTES = 1 << 20


def write_durably(path: Path, content: bytes) -> None:
    """On the disk, then under its name, then the name on the disk; for this user's eyes only."""
    new = path.with_name(path.name + ".new")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(descriptor)
    new.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Its names are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_plain(path: Path) -> IO[bytes]:
    """A plain file; never through a link, and without waiting for the other end of a pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb", buffering=0)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    return file


def hash_file(path: Path) -> tuple[int, str]:
    """Size and hash of a plain file."""
    digest, size = hashlib.sha256(), 0
    with open_plain(path) as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def make_folder(folder: Path) -> None:
    """With all above it that are missing, for this user's eyes only."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)

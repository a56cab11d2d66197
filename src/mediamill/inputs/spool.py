"""Images that arrive, each in a file of its own until the database has it: bounded, hashed, known by their bytes.

The files have names of ours and are gone when the request ends, however it ends. Those of a process that was killed
are deleted by the next one that starts.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from mediamill.errors import InvalidError, UnavailableError
from mediamill.inputs.model import (
    MAX_IMAGE_BYTES,
    MAX_IMAGES,
    MIME_TYPES,
    ImageBytesError,
    ImageCountError,
    ImagesOffError,
    ImageTypeError,
    SpooledImage,
)
from mediamill.media.sniff import sniff
from mediamill.staging.quota import StorageFullError

SPOOL_BYTES: Final = 20 * MAX_IMAGE_BYTES
STEP_BYTES: Final = 1024**2  # room is taken in steps by requests that do not say how long they are
LEFTOVER_SECONDS: Final = 3600.0
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class InputsBusyError(UnavailableError):
    """Too many images are arriving at once."""

    code = "inputs_busy"
    fix = "try again in a moment"


class SpoolError(UnavailableError):
    """Images cannot be written."""

    code = "spool_unavailable"
    fix = "look at the data folder: mediamill doctor"


class EmptyImageError(InvalidError):
    """The image is empty."""

    code = "image_base64_invalid"


def spool_folder(data_folder: Path) -> Path:
    """Where images arrive."""
    return data_folder / "inputs" / "incoming"


class Spool:
    """The folder, and how much of it is spoken for. One per process; may be used from several threads."""

    def __init__(self, folder: Path, limit_bytes: int = SPOOL_BYTES, *, takes_images: bool = True) -> None:
        self.folder, self.takes_images = folder, takes_images
        self._free_bytes = limit_bytes
        self._lock = threading.Lock()

    @contextmanager
    def open_tray(self, announced_bytes: int | None = None) -> Iterator[Tray]:
        """For the images of one message, at most `announced_bytes` if that is known. All are gone at the end."""
        tray = Tray(self)
        try:
            tray.make_room(min(announced_bytes or 0, MAX_IMAGE_BYTES))
            yield tray
        finally:
            tray.clear()

    def take(self, count: int) -> None:
        """Speak for some bytes, or find that there is no room."""
        with self._lock:
            if count > self._free_bytes:
                raise InputsBusyError
            self._free_bytes -= count

    def give_back(self, count: int) -> None:
        """They are free again."""
        with self._lock:
            self._free_bytes += count

    def delete_leftovers(self, older_than_seconds: float = LEFTOVER_SECONDS) -> int:
        """Files of processes that were killed; how many they were."""
        deleted, oldest = 0, time.time() - older_than_seconds
        if not self.folder.is_dir():
            return 0
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                if path.lstat().st_mtime < oldest:
                    path.unlink()
                    deleted += 1
        return deleted


class Tray:
    """The images of one message, within the limits of a message."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._files: list[SpoolFile] = []
        self._room_bytes = 0
        self._bytes = 0

    def begin_image(self) -> SpoolFile:
        """A new, empty file."""
        if not self._spool.takes_images:
            raise ImagesOffError
        if len(self._files) == MAX_IMAGES:
            raise ImageCountError
        file = SpoolFile(self, self._spool.folder)
        self._files.append(file)
        return file

    def count(self, more_bytes: int) -> None:
        """Before they are written."""
        self._bytes += more_bytes
        if self._bytes > MAX_IMAGE_BYTES:
            raise ImageBytesError
        if self._bytes > self._room_bytes:
            self.make_room(max(STEP_BYTES, self._bytes - self._room_bytes))

    def make_room(self, count: int) -> None:
        """So many bytes more."""
        self._spool.take(count)
        self._room_bytes += count

    def clear(self) -> None:
        """Delete the files. Twice does no harm."""
        for file in self._files:
            file.delete()
        self._files.clear()
        self._spool.give_back(self._room_bytes)
        self._room_bytes = 0


class SpoolFile:
    """One image while it arrives."""

    def __init__(self, tray: Tray, folder: Path) -> None:
        self.path = folder / secrets.token_hex(16)
        with _disk_may_fail():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._fd: int | None = os.open(
                self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600
            )
        self._tray = tray
        self._hash = hashlib.sha256()
        self.byte_size = 0

    def write(self, data: bytes) -> None:
        """The next bytes."""
        assert self._fd is not None
        self._tray.count(len(data))
        self._hash.update(data)
        rest = memoryview(data)
        with _disk_may_fail():
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        self.byte_size += len(data)

    def finish(self, filename: str | None = None) -> SpooledImage:
        """All bytes are there. The type is what they are, not what anybody says that they are."""
        self.close()
        if not self.byte_size:
            raise EmptyImageError(fix="send the bytes of an image, or leave it out")
        found = sniff(self.path).mime_type
        if found not in MIME_TYPES:
            raise ImageTypeError
        return SpooledImage(self.path, found, self.byte_size, self._hash.hexdigest(), filename)

    def close(self) -> None:
        """Twice does no harm."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def delete(self) -> None:
        """Twice does no harm."""
        self.close()
        self.path.unlink(missing_ok=True)


@contextmanager
def _disk_may_fail() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise StorageFullError("the disk is full", fix="free some space") from error
        raise SpoolError(f"images cannot be written: {error.strerror}") from error

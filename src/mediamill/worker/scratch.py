"""Scratch folders of the attempts that run in a sandbox, and what dead workers left of theirs.

Each sandbox owns one home folder, `<scratch>/<pid>-<random>`, and holds a lock on `<home>.lock` while it
lives. The kernel drops the lock with the process, so a home whose lock is free belongs to nobody; process ids
alone would not tell, as they are reused and may come from another container.

In it each child has a folder, which no other child can see, with one for each attempt. What an attempt made is
moved from there into a folder that no child can reach, and looked at only then: a child that swaps its files for
links while the worker looks at them gains nothing. A file that somebody may still write to is replaced by a copy.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from io import BufferedWriter, FileIO
from pathlib import Path, PurePosixPath

from mediamill.worker.failures import InvalidOutputError
from mediamill.worker.process_tree import kill_marked

_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
EMPTY_SECONDS = 30.0
PIECE_BYTES = 1 << 20
# These say nothing about the file: another attempt may succeed, here or on another machine.
MACHINE_ERRORS = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO),
    *(errno.ENOMEM, errno.EMFILE, errno.ENFILE),
)


class Home:
    """The home folder of one sandbox."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            self.path = scratch.absolute() / f"{os.getpid()}-{secrets.token_hex(6)}"
            self._lock = os.open(_lock_of(self.path), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.fstat(self._lock).st_nlink:
                break
            os.close(self._lock)  # somebody took the new file for a leftover before it was locked
        self.path.mkdir(mode=0o700)

    @property
    def name(self) -> str:
        """Also the mark of the processes that belong here."""
        return self.path.name

    def remove(self) -> None:
        """Remove the folder with all that is in it; its lock comes last."""
        remove_folder(self.path)
        _lock_of(self.path).unlink(missing_ok=True)
        os.close(self._lock)


def clear_leftovers(scratch: Path) -> None:
    """Remove the homes of workers that are dead, and kill what still runs of theirs."""
    for lock in scratch.absolute().glob("*.lock"):
        with contextlib.suppress(OSError):
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                kill_marked(lock.stem + ".")
                remove_folder(lock.with_suffix(""))
                lock.unlink()
            finally:
                os.close(descriptor)


def remove_folder(folder: Path) -> None:
    """Remove a scratch folder, against processes that are dying but may still write a file."""
    for _ in range(20):
        with contextlib.suppress(OSError):
            if empty_folder(folder):
                folder.rmdir()
        if not folder.exists():
            return
        time.sleep(0.05)


def empty_folder(folder: Path) -> bool:
    """Remove all that is in it, however deep it is, whatever its modes are; never by a link. Is it empty now?

    A folder's own folders are moved up before it is removed, so that neither the stack nor descriptors run out.
    """
    top, end = os.open(folder, _FOLDER), time.monotonic() + EMPTY_SECONDS
    try:
        while names := os.listdir(top):  # noqa: PTH208 - by the descriptor
            if time.monotonic() > end:
                return False
            for name in names:
                with contextlib.suppress(FileNotFoundError):  # a child may still be at it
                    _remove(top, name)
        return True
    except OSError:
        return False
    finally:
        os.close(top)


def _remove(top: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=top)
        return
    except (IsADirectoryError, PermissionError):
        opened = _open_folder(top, name)
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    os.close(_open_folder(opened, entry.name))  # or it could not be moved
                    os.rename(entry.name, secrets.token_hex(16), src_dir_fd=opened, dst_dir_fd=top)
                else:
                    os.unlink(entry.name, dir_fd=opened)
    finally:
        os.close(opened)
    os.rmdir(name, dir_fd=top)


def _open_folder(within: int, name: str) -> int:
    """With all rights: a folder that can be read may still not give away what is in it."""
    with contextlib.suppress(PermissionError):
        opened = os.open(name, _FOLDER, dir_fd=within)
        os.fchmod(opened, 0o700)
        return opened
    found = os.open(name, os.O_PATH | _FOLDER, dir_fd=within)
    try:
        os.chmod(f"/proc/self/fd/{found}", 0o700)  # noqa: PTH101 - there is no name to go by
    finally:
        os.close(found)
    return os.open(name, _FOLDER, dir_fd=within)


def has_more_files(folder: Path, most: int) -> bool:
    """Are there more files and folders in it than that, or is it deeper than a path can say?"""
    count, waiting = 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > most:
                        return True
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return True
    return False


def take_files(folder: Path, files: Mapping[str, str], target: Path) -> None:
    """Move derivatives, which must be plain files inside the folder, into another one that their maker cannot reach."""
    for name, path in files.items():
        if not _is_inside(name) or not _is_inside(path):
            raise InvalidOutputError(f"derivative {name!r}: {path!r} is not a path inside the scratch folder")
    for path, name in {path: name for name, path in files.items()}.items():
        taken = target / path
        try:
            taken.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _move_out(folder, PurePosixPath(path).parts, taken)
            found = taken.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
                _settle(taken)
        except OSError as error:
            if error.errno in MACHINE_ERRORS:
                raise
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise InvalidOutputError(f"derivative {name!r}: a link is in the way of {path!r}") from error
            raise InvalidOutputError(f"derivative {name!r}: {error.strerror}: {path!r}") from error
        if stat.S_ISLNK(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink > 1):
            raise InvalidOutputError(f"derivative {name!r}: {taken.name!r} is a link")
        if not stat.S_ISREG(found.st_mode):
            raise InvalidOutputError(f"derivative {name!r}: {path!r} is not a file")


def _settle(path: Path) -> None:
    """From now on nobody can change the file: it is a copy, unless nobody has it open for writing."""
    with os.fdopen(os.open(path, _PLAIN), "rb", buffering=0) as source:
        if not _is_open_for_writing(source.fileno()):
            return
        copy = path.with_name(secrets.token_hex(16))
        with copy.open("xb") as into:
            _copy(source, into)
        copy.replace(path)


def _copy(source: FileIO, into: BufferedWriter) -> None:
    """Copy what the file holds now: whoever goes on writing to it cannot make the copy endless.

    The kernel does it, unless the file system or the container refuses that call.
    """
    left = os.fstat(source.fileno()).st_size
    with contextlib.suppress(OSError):  # a full disk, or whatever else is wrong, shows below as well
        while left > 0 and (count := os.copy_file_range(source.fileno(), into.fileno(), left)):
            left -= count
    while left > 0 and (piece := source.read(min(left, PIECE_BYTES))):
        into.write(piece)
        left -= len(piece)


def _is_open_for_writing(descriptor: int) -> bool:
    """By anybody, mapped memory included. The kernel tells by refusing a lease; where it knows none, it may be."""
    if sys.platform != "linux":
        return False  # children are not confined there, and can open it again
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    return False


def _move_out(folder: Path, parts: Sequence[str], target: Path) -> None:
    """Down to the file's folder by descriptors, never by a link, and from there by one rename."""
    opened = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER, dir_fd=opened)
            os.close(opened)
            opened = below
        os.rename(parts[-1], target, src_dir_fd=opened)
    finally:
        os.close(opened)


def _is_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    return bool(pure.parts) and not pure.is_absolute() and ".." not in pure.parts and "\0" not in path


def _lock_of(home: Path) -> Path:
    return home.with_name(home.name + ".lock")

"""Opens the file of a job for a child that cannot: the child gets the open file, and can open no other.

A share whose server is gone can hold whoever opens a file on it for good, so this happens in a thread that nobody
waits for longer than a while.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mediamill.media.source_file import open_quietly
from mediamill.worker.messages import MOST_FILES

PATIENCE_SECONDS = 30.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OpenInput:
    """Descriptors, and what they are: the file itself, or the members of a folder. `failed`: errno, or 0."""

    descriptors: tuple[int, ...] = ()
    members: tuple[str, ...] | None = None
    failed: int = 0

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        return sum(os.fstat(descriptor).st_size for descriptor in self.descriptors)

    def close(self) -> None:
        """The child has its own by now."""
        for descriptor in self.descriptors:
            os.close(descriptor)


async def open_input(path: Path, members: Sequence[str] | None = None) -> OpenInput:
    """A file; or, of a folder, the members that are there."""
    opening = _open if members is None else lambda at: _open_members(at, members[:MOST_FILES])
    try:
        return await run_unless_stuck(lambda: opening(path), PATIENCE_SECONDS)
    except TimeoutError:
        return OpenInput(failed=errno.ETIMEDOUT)


async def can_list(folder: Path) -> bool:
    """Does the place where a file should be answer at all?"""
    try:
        return await run_unless_stuck(lambda: _can_list(folder), PATIENCE_SECONDS)
    except TimeoutError:
        return False


async def run_unless_stuck(verb: Callable[[], T], seconds: float) -> T:
    """In a thread of its own, which is left behind if it takes longer."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():  # too late
            if isinstance(result, OpenInput):
                result.close()
        elif error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failed = None, None
        try:
            result = verb()
        except BaseException as error:
            failed = error
        try:
            loop.call_soon_threadsafe(settle, result, failed)
        except RuntimeError:  # the loop is closed
            if isinstance(result, OpenInput):
                result.close()

    threading.Thread(target=run, name="open input", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await done


def _open(path: Path) -> OpenInput:
    try:
        return OpenInput((open_quietly(path),))
    except OSError as error:
        number = error.errno or errno.EIO
        if number == errno.EIO and not _can_list(path.parent):
            number = errno.ESTALE  # not the file, but all that is around it
        return OpenInput(failed=number)


def _open_members(folder: Path, names: Sequence[str]) -> OpenInput:
    if not folder.is_dir():
        return OpenInput(failed=errno.ENOENT)
    opened: dict[str, int] = {}
    for name in names:
        try:
            opened[name] = open_quietly(folder / name)
        except OSError:
            continue  # whoever reads it says that it is missing
    return OpenInput(tuple(opened.values()), tuple(opened))


def _can_list(folder: Path) -> bool:
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
        return True
    except OSError:
        return False

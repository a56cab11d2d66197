"""Can the folder of a library be seen? One on a network may not answer for hours, and nobody may wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

T = TypeVar("T")

REACH_SECONDS = 5.0  # without an answer for so long, it is away


class Reach:
    """Each folder is asked in a thread of its own; one that does not answer is not asked a second time meanwhile."""

    def __init__(self, seconds: float = REACH_SECONDS) -> None:
        self._seconds = seconds
        self._asked: dict[str, asyncio.Future[bool]] = {}
        self._silent: set[str] = set()

    async def is_there(self, path: str) -> bool:
        """One that is not mounted, or hangs, is not."""
        asked = self._asked.get(path)
        if asked is None:
            asked = self._asked[path] = in_own_thread(lambda: _is_folder(path))
            asked.add_done_callback(lambda _: self._forget(path))
        await asyncio.wait({asked}, timeout=0 if path in self._silent else self._seconds)
        if not asked.done():
            self._silent.add(path)
            return False
        return asked.result()

    def _forget(self, path: str) -> None:
        self._asked.pop(path, None)
        self._silent.discard(path)


def in_own_thread(work: Callable[[], T]) -> asyncio.Future[T]:
    """For what may hang for ever: threads of a pool would all hang soon, and a process waits for them at its end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(result: T | None, error: Exception | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(cast(T, result))

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, name="may hang", daemon=True).start()
    return answer


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # not for us, or a mount that has gone stale
        return False

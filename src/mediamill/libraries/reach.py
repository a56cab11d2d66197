"""Can the folder of a library be seen? One on a network may not answer for hours, and nobody may wait for it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from pathlib import Path

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
            asked = self._asked[path] = self._ask(path)
            asked.add_done_callback(lambda _: self._forget(path))
        await asyncio.wait({asked}, timeout=0 if path in self._silent else self._seconds)
        if not asked.done():
            self._silent.add(path)
            return False
        return asked.result()

    def _ask(self, path: str) -> asyncio.Future[bool]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool] = loop.create_future()

        def tell(found: bool) -> None:
            if not answer.done():
                answer.set_result(found)

        def look() -> None:
            found = _is_folder(path)
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
                loop.call_soon_threadsafe(tell, found)

        # Not of a pool, whose threads would soon all hang; and none that the process would wait for at its end.
        threading.Thread(target=look, name=f"reach {path}", daemon=True).start()
        return answer

    def _forget(self, path: str) -> None:
        self._asked.pop(path, None)
        self._silent.discard(path)


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # not for us, or a mount that has gone stale
        return False

"""Lines in and out of a process: bounded, read by a thread of its own, and no stray print gets between them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator

MOST_BYTES = 1 << 20  # of one message
CHUNK_BYTES = 1 << 16


class Lines:
    """Cuts what comes into lines. None stands for one that was too long: it is dropped while it comes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._begun, self._lost = most_bytes, b"", False

    def cut(self, chunk: bytes) -> list[bytes | None]:
        """The lines that end in this chunk."""
        *whole, rest = (self._begun + chunk).split(b"\n")
        lines: list[bytes | None] = []
        for line in whole:
            lines.append(None if self._lost or len(line) > self._most else line)
            self._lost = False
        if len(rest) > self._most:
            self._lost, rest = True, b""
        self._begun = rest
        return lines

    def end(self) -> list[bytes | None]:
        """What came last, if it had no end."""
        return self.cut(b"\n") if self._begun or self._lost else []


async def read_lines(descriptor: int) -> AsyncIterator[bytes | None]:
    """Until the other side closes. By a thread that nobody waits for: a read of a pipe or a file cannot be stopped."""
    chunks: asyncio.Queue[bytes] = asyncio.Queue(4)
    loop = asyncio.get_running_loop()

    def pump() -> None:
        chunk = b"begun"
        while chunk:
            try:
                chunk = os.read(descriptor, CHUNK_BYTES)
            except OSError:
                chunk = b""
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()

    threading.Thread(target=pump, name="stdin", daemon=True).start()
    lines = Lines()
    while chunk := await chunks.get():
        for line in lines.cut(chunk):
            yield line
    for line in lines.end():
        yield line


def write_whole(descriptor: int, data: bytes) -> None:
    """All of it; waits for whoever reads."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def take_stdout() -> int:
    """A descriptor for messages alone: whatever else prints, here or in a child, goes to stderr from now on."""
    ours = os.dup(1)
    os.dup2(2, 1)
    return ours

"""A file as an answer (RFC 9110): whole, a range, or the news that it is known. Read in a thread, bit by bit."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

CHUNK_BYTES = 1 << 18
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


class FileAnswer(StreamingResponse):
    """Part of an open file; whatever becomes of the answer, the file is closed."""

    def __init__(
        self, descriptor: int, first: int, length: int, status: int, headers: Mapping[str, str]
    ) -> None:
        self._descriptor = descriptor
        super().__init__(_chunks(descriptor, first, length), status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)


def open_plain(path: Path, *, follow: bool = False) -> int | None:
    """A descriptor of a plain file; None if it is not there, a link, or anything else."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def answer_file(
    request: Request,
    descriptor: int,
    media_type: str = "application/octet-stream",
    headers: Mapping[str, str] | None = None,
    mark: str | None = None,
) -> Response:
    """The file, or what the Range header asks for. It is closed with the answer.

    `mark`: what is different if the file is; unset, it is made from where the file lies and when it was written.
    """
    found = os.fstat(descriptor)
    size = found.st_size
    tag = f'"{mark or f"{found.st_ino:x}-{size:x}-{found.st_mtime_ns:x}"}"'
    every = {"ETag": tag, "Accept-Ranges": "bytes", "Content-Type": media_type, **(headers or {})}
    if _is_known(request, tag):
        os.close(descriptor)
        return Response(status_code=304, headers=every)
    if request.method == "HEAD":  # ranges are for GET only
        os.close(descriptor)
        return Response(headers={**every, "Content-Length": str(size)})
    asked = _asked(request, tag, size)
    if asked is None:
        return FileAnswer(descriptor, 0, size, 200, {**every, "Content-Length": str(size)})
    first, last = asked
    if first > last:
        os.close(descriptor)
        return Response(status_code=416, headers={**every, "Content-Range": f"bytes */{size}"})
    length = last - first + 1
    ranged = {"Content-Range": f"bytes {first}-{last}/{size}", "Content-Length": str(length)}
    return FileAnswer(descriptor, first, length, 206, {**every, **ranged})


def answer_text(request: Request, text: str, media_type: str) -> Response:
    """A short text that may change: its mark is that of what it says now."""
    tag = f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Content-Type": media_type}
    if _is_known(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(text, headers=headers)


def _is_known(request: Request, tag: str) -> bool:
    """Does whoever asks have it already, by If-None-Match? Caches on the way may have made the mark a weak one."""
    given = ",".join(request.headers.getlist("if-none-match"))
    return given.strip() == "*" or tag in [each.strip().removeprefix("W/") for each in given.split(",")]


def _asked(request: Request, tag: str, size: int) -> tuple[int, int] | None:
    """The first and last byte of the range that is asked for; None: all of it. First > last: there is no such range."""
    match = _RANGE.fullmatch(request.headers.get("range", "").replace(" ", ""))
    if match is None or match[0] == "bytes=-" or request.headers.get("if-range", tag) != tag:
        return None  # none, several, or of a file that is another by now
    if not match[1]:
        return (max(0, size - int(match[2])), size - 1) if int(match[2]) else (1, 0)
    last = min(size - 1, int(match[2])) if match[2] else size - 1
    if match[2] and int(match[2]) < int(match[1]):
        return None
    return int(match[1]), last


async def _chunks(descriptor: int, first: int, length: int) -> AsyncIterator[bytes]:
    """By position: the file may be shorter by now, and then the answer breaks off."""
    while length and (
        chunk := await asyncio.to_thread(os.pread, descriptor, min(length, CHUNK_BYTES), first)
    ):
        first, length = first + len(chunk), length - len(chunk)
        yield chunk

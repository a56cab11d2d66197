"""A file as an answer (RFC 9110): whole, a range, or the news that it is known. Read bit by bit, wherever it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeAlias

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from mediamill.storage.contract import OpenFile

Responses: TypeAlias = dict[int | str, dict[str, Any]]
OTHER = "application/octet-stream"
_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")


class FileAnswer(StreamingResponse):
    """Part of an open file; whatever becomes of the answer, the file is closed."""

    def __init__(
        self, file: OpenFile, first: int, length: int, status: int, headers: Mapping[str, str]
    ) -> None:
        self._file, self._chunks = file, file.chunks(first, length)
        super().__init__(self._chunks, status, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it. The first bytes are there before the first header: what cannot be read at all is an error."""
        try:
            coming = aiter(self._chunks)
            first = await anext(coming, b"")
            self.body_iterator = _together(first, coming)
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def sent_as(*media_types: str, what: str = "The whole file.", binary: bool = True) -> Responses:
    """How the document describes an answer that is no JSON."""
    schema = {"type": "string", "format": "binary"} if binary else {"type": "string"}
    return {200: {"description": what, "content": {media: {"schema": schema} for media in media_types}}}


def sent_in_ranges(*media_types: str) -> Responses:
    """Likewise, of a file that `answer_file` sends."""
    return {
        **sent_as(*media_types),
        206: {"description": "The range that was asked for."},
        304: {"description": "It is what If-None-Match says."},
        416: {"description": "The file has no such range."},
    }


def answer_file(
    request: Request,
    file: OpenFile,
    media_type: str = OTHER,
    headers: Mapping[str, str] | None = None,
    mark: str | None = None,
) -> Response:
    """The file, or what the Range header asks for. It is closed with the answer.

    `mark`: what is different if the file is; unset, the file has one of its own.
    """
    size = file.length
    tag = f'"{mark or file.mark}"'
    every = {"ETag": tag, "Accept-Ranges": "bytes", "Content-Type": media_type, **(headers or {})}
    if _is_known(request, tag):
        file.close()
        return Response(status_code=304, headers=every)
    if request.method == "HEAD":  # ranges are for GET only
        file.close()
        return Response(headers={**every, "Content-Length": str(size)})
    asked = _asked(request, tag, size)
    if asked is None:
        return FileAnswer(file, 0, size, 200, {**every, "Content-Length": str(size)})
    first, last = asked
    if first > last:
        file.close()
        return Response(status_code=416, headers={**every, "Content-Range": f"bytes */{size}"})
    length = last - first + 1
    ranged = {"Content-Range": f"bytes {first}-{last}/{size}", "Content-Length": str(length)}
    return FileAnswer(file, first, length, 206, {**every, **ranged})


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


async def _together(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in rest:
        yield chunk

"""A model server on this machine that notes what it is sent and misbehaves on request: for tests of adapters.

`server.then(rate_limited(1), BROKEN)` scripts the next answers; after those it answers well again.
"""

from __future__ import annotations

import json
import socket
import struct
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

KEPT_BYTES = 32 << 20  # of each body; the rest is counted and dropped
HUGE_BYTES = 12_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    """What is sent back."""

    body: bytes = b"{}"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, told: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
        """An answer as JSON."""
        return cls(json.dumps(told).encode(), status, {"Content-Type": "application/json", **(headers or {})})


@dataclass(slots=True)
class Seen:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    chunked: bool = False
    body_bytes: int = 0
    body: bytes = b""

    def json(self) -> Any:
        """The body, if it is JSON."""
        return json.loads(self.body)


Act = Callable[["Handler"], None]
Answer = Callable[[Seen], Reply]


class ModelServer:
    """Give it a subclass's `answer`, or any function from a request to a reply."""

    def __init__(self, answer: Answer | None = None, *, port: int = 0) -> None:
        self.seen: list[Seen] = []
        self.closed = threading.Event()
        self._answer = answer or self.answer
        self._acts: deque[Act] = deque()
        self._always: Act | None = None
        self._http = _Http(("127.0.0.1", port), Handler)
        self._http.daemon_threads, self._http.block_on_close = True, False
        self._http.model_server = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def then(self, *acts: Act) -> None:
        """The next requests are answered like this, one after the other."""
        self._acts.extend(acts)

    def always(self, act: Act) -> None:
        """All requests are answered like this from now on."""
        self._always = act

    def answer(self, seen: Seen) -> Reply:
        """A good answer."""
        raise NotImplementedError(seen.path)

    def next_act(self, seen: Seen) -> Act:
        """What to do with this request."""
        self.seen.append(seen)
        if self._acts:
            return self._acts.popleft()
        return self._always or (lambda handler: handler.reply(self._answer(seen)))

    def close(self) -> None:
        """Stop; those who still wait for an answer are let go."""
        self.closed.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Http(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that is gone, as tests have it, is no error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Handler(BaseHTTPRequestHandler):
    """Reads a request to its end, then does what the script says."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def handle_any(self) -> None:
        """Every method."""
        server: ModelServer = self.server.model_server  # type: ignore[attr-defined]
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, self.path, headers, headers.get("transfer-encoding") == "chunked")
        self._read_body(seen)
        try:
            server.next_act(seen)(self)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    do_GET = do_HEAD = do_POST = do_DELETE = handle_any  # noqa: N815

    def _read_body(self, seen: Seen) -> None:
        kept = bytearray()
        left = int(seen.headers.get("content-length", 0))
        while True:
            if seen.chunked:
                size = int(self.rfile.readline().split(b";")[0], 16)
                part = self.rfile.read(size)
                self.rfile.readline()
            else:
                part = self.rfile.read(min(left, 65536))
                left -= len(part)
            if not part:
                break
            seen.body_bytes += len(part)
            kept += part[: KEPT_BYTES - len(kept)]
        seen.body = bytes(kept)

    def reply(self, reply: Reply) -> None:
        """Send it."""
        self.send_response(reply.status)
        headers = {"Content-Length": str(len(reply.body)), **reply.headers}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing to the terminal."""


def reply(reply: Reply) -> Act:
    """Exactly this answer."""
    return lambda handler: handler.reply(reply)


def failing(status: int = 500, message: str = "scripted failure") -> Act:
    """An error as model servers tell it."""
    return reply(Reply.json({"error": {"message": message}}, status))


def rate_limited(retry_after: str | float | None = None) -> Act:
    """Too many requests."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return reply(Reply.json({"error": {"message": "slow down"}}, 429, headers))


def _silent(handler: Handler) -> None:
    server: ModelServer = handler.server.model_server  # type: ignore[attr-defined]
    server.closed.wait()
    handler.close_connection = True


def _reset(handler: Handler) -> None:
    """Half an answer, then a reset instead of an end."""
    handler.wfile.write(b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{"half')
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def _drip(handler: Handler) -> None:
    """An answer that never ends, a byte at a time."""
    server: ModelServer = handler.server.model_server  # type: ignore[attr-defined]
    handler.send_response(200)
    handler.end_headers()
    handler.close_connection = True
    while not server.closed.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


SILENT: Act = _silent
RESET: Act = _reset
DRIP: Act = _drip
BROKEN = failing(500)
NONSENSE = reply(Reply(b"}{ this is not JSON", headers={"Content-Type": "application/json"}))
WRONG_SHAPE = reply(Reply.json({"unexpected": True}))
WEB_PAGE = reply(Reply(b"<html>Welcome</html>", headers={"Content-Type": "text/html"}))
HUGE = reply(Reply(b'{"text": "' + b"a" * HUGE_BYTES + b'"}'))
ELSEWHERE = reply(Reply(status=307, headers={"Location": "http://127.0.0.1:9/elsewhere"}))

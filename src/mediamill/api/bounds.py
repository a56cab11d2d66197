"""A connection of uvicorn that bounds what it costs before anybody knows whose it is.

The head of a request has a limit of size and of time; so has the rest of a body that nobody wants. While there are
many connections on which nobody was recognised yet (`strangers.py`), the application gets their requests only once the
body is there, so that a slow body costs no more than a slow head.
"""

from __future__ import annotations

import asyncio
import math
from http import HTTPStatus
from typing import Any

from starlette.types import Scope
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mediamill.access.limits import neighbourhood
from mediamill.api.strangers import Strangers

HEAD_BYTES, HEAD_LINES, HEAD_SECONDS = 64 * 1024, 100, 10.0
# What still comes after an answer: to close on somebody who sends loses them the answer.
LINGER_SECONDS, LINGER_BYTES = 10.0, 1 << 20
# The pace at which a body must come: so many seconds, and one more for each so many bytes (Apache's mod_reqtimeout).
BODY_GRACE_SECONDS, BODY_BYTES_PER_SECOND = 20.0, 500
# How long a request waits for its body before the application sees it: who may not ask is refused without it.
DISPATCH_SECONDS = 1.0
KNOWN = "mediamill.known"


class Bounded(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *given: Any, strangers: Strangers | None = None, **more: Any) -> None:
        super().__init__(*given, **more)
        self._strangers = Strangers() if strangers is None else strangers
        self._in_head, self._head_bytes, self._refused = True, 0, False
        self._deadline: asyncio.TimerHandle | None = None
        self._running: RequestResponseCycle | None = None
        self._waiting_since = self._unread_since = 0.0
        self._undispatched: tuple[RequestResponseCycle, ASGI3Application] | None = None
        self._dispatch_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Nobody knows yet who this is."""
        super().connection_made(transport)
        self._waiting_since = self.loop.time()
        self._strangers.add(self, neighbourhood(self.client[0] if self.client else None))
        self.close_in(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody else may come."""
        self._strangers.discard(self)
        self._clear_deadline()
        self._clear_undispatched()
        self._stop_answering()
        super().connection_lost(exc)

    def handle_websocket_upgrade(self) -> None:
        """From here on the connection is another protocol's, with bounds of its own."""
        self._strangers.discard(self)
        self._clear_deadline()
        self._in_head = False
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        """A head may come in pieces, up to a size and a time."""
        if self._in_head or self._refused:
            self._head_bytes += len(data)
        if self._refused:
            if self._head_bytes > LINGER_BYTES:
                self.transport.abort()
            return
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            if self._head_bytes > HEAD_BYTES:
                self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            elif self._deadline is None and self._is_idle():
                self.close_in(HEAD_SECONDS)

    def on_headers_complete(self) -> None:
        """The request is answered, if its head is not too long."""
        if self._refused:
            return
        self._in_head, self._head_bytes = False, 0
        self._waiting_since = self.loop.time()
        self._clear_deadline()
        length = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if length > HEAD_BYTES or len(self.headers) > HEAD_LINES:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return
        self.scope["state"][KNOWN] = self.is_known
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Of a refused request nobody wants it."""
        if self._refused:
            return
        super().on_body(body)
        earned = self._waiting_since + len(body) / BODY_BYTES_PER_SECOND
        self._waiting_since = min(earned, self.loop.time())
        if self.flow.read_paused:  # no more of it is read until the application takes some
            self._dispatch()

    def on_message_complete(self) -> None:
        """What comes next is a head."""
        if not self._refused:
            self.expect_head()
            super().on_message_complete()
            self._dispatch()

    def expect_head(self) -> None:
        """A request may begin here."""
        self._in_head, self._head_bytes = True, 0
        self._clear_deadline()

    def on_response_complete(self) -> None:
        """A body that goes on after its answer ends soon, or the connection does."""
        self._waiting_since = self.loop.time()
        super().on_response_complete()
        if not self._in_head and not self.pipeline and not self.transport.is_closing():
            self.close_in(LINGER_SECONDS)

    def is_known(self) -> None:
        """Somebody was recognised: this connection does not make room for strangers."""
        self._strangers.discard(self)

    def pause_writing(self) -> None:
        """The client does not read its answer, or not as fast as it comes."""
        self._unread_since = self.loop.time()
        super().pause_writing()

    @property
    def waiting_since(self) -> float:
        """Since when the server waits for the client; of a body, later the more of it has come."""
        if self.flow.write_paused:
            return self._unread_since
        return math.inf if self.is_answering and self._in_head else self._waiting_since

    @property
    def is_answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def abort(self) -> None:
        """It makes room."""
        self._strangers.discard(self)
        self._clear_undispatched()
        self._stop_answering()
        self.transport.abort()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        waits = cycle.more_body and not cycle.waiting_for_100_continue and not self.flow.read_paused
        if waits and self._strangers.is_crowded_beside(self):
            self._undispatched = (cycle, app)
            self._dispatch_timer = self.loop.call_later(DISPATCH_SECONDS, self._dispatch)
        else:
            super()._start_asgi_task(cycle, app)

    def _dispatch(self) -> None:
        """Give a request to the application, if one waits for its body."""
        if self._undispatched is not None:
            cycle, app = self._undispatched
            self._clear_undispatched()
            super()._start_asgi_task(cycle, app)

    def _clear_undispatched(self) -> None:
        self._undispatched = None
        if self._dispatch_timer is not None:
            self._dispatch_timer.cancel()
            self._dispatch_timer = None

    def _stop_answering(self) -> None:
        """Of several requests that came at once, uvicorn stops the last one, not the one that is being answered."""
        self.pipeline.clear()
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()

    def _is_idle(self) -> bool:
        """Whether nothing of it is being answered, and no other time is running."""
        return not self.is_answering and self.timeout_keep_alive_task is None

    def _refuse(self, status: HTTPStatus) -> None:
        """An answer without the application, unless another answer is on its way; whatever still comes is dropped."""
        self._refused = True
        if self.is_answering:
            self.transport.close()
            return
        text = f"{status.phrase}\n"
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: text/plain\r\nConnection: close\r\n"
        self.transport.write(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())
        self.transport.write_eof()
        self.close_in(LINGER_SECONDS)

    def close_in(self, seconds: float) -> None:
        """Unless something comes before that."""
        self._clear_deadline()
        self._deadline = self.loop.call_later(seconds, self.transport.close)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def note_known(scope: Scope) -> None:
    """Whoever sent this request was recognised."""
    known = scope.get("state", {}).get(KNOWN)
    if known is not None:
        known()

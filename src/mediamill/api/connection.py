"""A connection of uvicorn that lends the rest of a long body: whoever borrows it reads from the socket himself.

What comes through uvicorn is copied four times on the event loop. A borrower waits on the loop until something is
there, and takes it in a thread. The parser never sees those bytes; a new one goes on with what follows them.
"""

from __future__ import annotations

import asyncio
import select
import socket
import time
from functools import partial

import httptools
from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from mediamill.api.bounds import LINGER_SECONDS, Bounded

LENDER = "mediamill.body"
LONG_BYTES = 1 << 20  # less is not worth it
TURN_BYTES, TURN_SECONDS = 16 << 20, 0.25  # of a thread; then another's turn comes
FAST_BYTES, MOMENT_SECONDS = 1 << 18, 0.02  # who sent so much in this turn has more in a moment


class BorrowedBody:
    """The rest of a body. `left`: bytes that were not taken yet; `broken`: they will never come."""

    def __init__(self, connection: Connection, cycle: RequestResponseCycle, left: int) -> None:
        self.left, self.broken = left, False
        self._connection, self._cycle = connection, cycle
        theirs: socket.socket = connection.transport.get_extra_info("socket")
        self._line = socket.socket(fileno=socket.dup(theirs.fileno()))
        self._line.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._line, select.POLLIN)
        self._dry = True
        self._turn_bytes, self._turn_ends = 0, 0.0

    async def wait(self) -> None:
        """Until there is something, or the line is broken. Then a turn begins."""
        if self._dry:
            loop, there = asyncio.get_running_loop(), asyncio.Event()
            loop.add_reader(self._line, there.set)
            try:
                await there.wait()
            finally:
                loop.remove_reader(self._line)
        self._dry, self._turn_bytes = False, 0

    def read_into(self, buffer: memoryview) -> int:
        """What there is; 0: the turn is over. For a thread: for somebody fast it waits a moment."""
        now = time.monotonic()
        if not self._turn_bytes:  # a thread may have been waited for
            self._turn_ends = now + TURN_SECONDS
        most = min(self.left, TURN_BYTES - self._turn_bytes)
        if not most or self.broken or now > self._turn_ends:
            return 0
        try:
            got = self._line.recv_into(buffer[:most])
        except BlockingIOError:
            if self._comes_soon():
                return self.read_into(buffer)
            self._dry = True
            return 0
        except OSError:
            got = 0
        self.broken = not got
        self._turn_bytes += got
        self.left -= got
        return got

    def _comes_soon(self) -> bool:
        seconds = min(MOMENT_SECONDS, self._turn_ends - time.monotonic())
        return self._turn_bytes >= FAST_BYTES and seconds > 0 and bool(self._poll.poll(seconds * 1000))

    def give_back(self) -> None:
        """The connection goes on behind the body; what of it was not taken is not wanted."""
        self._line.close()
        self._connection.take_back(self._cycle, self.left)


def borrow_body(request: Request) -> BorrowedBody | None:
    """What is still to come of it. None: little, or nobody knows how much, or some of it waits to be received."""
    lend = request.scope.get("state", {}).get(LENDER)
    borrowed: BorrowedBody | None = lend() if lend else None
    return borrowed


class Connection(Bounded):
    """As uvicorn has it, with bounds, and it lends."""

    _to_come = 0  # of the body that is parsed
    _to_drop = 0  # of a body that was given back

    def on_headers_complete(self) -> None:
        """Who answers the request may borrow its body."""
        super().on_headers_complete()
        lengths = [value for name, value in self.headers if name == b"content-length"]
        self._to_come = int(lengths[0]) if lengths else 0
        if self._to_come >= LONG_BYTES:
            self.scope["state"][LENDER] = partial(self._lend, self.cycle)

    def on_body(self, body: bytes) -> None:
        """What came through the parser."""
        super().on_body(body)
        self._to_come -= len(body)

    def data_received(self, data: bytes) -> None:
        """Requests, and what nobody wanted of a body."""
        dropped = min(self._to_drop, len(data))
        self._to_drop -= dropped
        self._unset_keepalive_if_required()
        if dropped:
            self.close_in(LINGER_SECONDS)
        if len(data) > dropped:
            super().data_received(data[dropped:])

    def _lend(self, cycle: RequestResponseCycle) -> BorrowedBody | None:
        ours = self.cycle is cycle and not cycle.body and self._to_come >= LONG_BYTES
        if not ours or self.scheme != "http" or self.transport.is_closing():
            return None
        self.is_known()  # no handler takes a long body of a stranger, and its pace cannot be seen from here
        self.flow.pause_reading()
        return BorrowedBody(self, cycle, self._to_come)

    def take_back(self, cycle: RequestResponseCycle, left: int) -> None:
        """Go on behind the body."""
        if self.transport.is_closing():
            return
        self._to_come, self._to_drop = 0, left
        self.expect_head()
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's own
        cycle.more_body = False
        self.flow.resume_reading()

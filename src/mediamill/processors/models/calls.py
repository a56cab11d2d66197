"""One HTTP call to a model server, and who makes it.

An ordinary process makes its calls itself. A process that decodes media has no network: it was given a socket to a
caller (worker/caller.py), a process without media that makes the call and sends back what the server said.
Both ways run the same code, so they mean the same: bounded in bytes and in the server's time, no redirects.
"""

from __future__ import annotations

import functools
import logging
import os
import socket
import ssl
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol

import httpx
import msgspec

from mediamill.processors.contract import CALLER, NO_CALLER

PLACEHOLDER = "held-by-the-caller"  # what a process that decodes has instead of each key
LARGEST_ANSWER_BYTES = 10_000_000
LARGEST_REQUEST_BYTES = 64 << 20
LONGEST_CONNECT_SECONDS = 10.0
ENVELOPE_BYTES = 1 << 20  # most that a message adds to the body it carries: address and headers
HEADER = struct.Struct("<I")

# At DEBUG it writes the headers of answers, and Gemini's may hold the key.
logging.getLogger("httpcore").setLevel(logging.INFO)

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
Headers = list[tuple[str, str]]
FailureKind = Literal[
    "timeout",
    "unreachable",  # nobody was reached: nothing was sent
    "transport",  # the connection was lost
    "certificate",  # it is refused, which no waiting makes right
    "busy",  # not sent: the server refused others just now
    "caller_gone",
    "decoding",
    "too_large",
    "request_too_large",
    "forbidden",
    "no_caller",
]


class ModelServer(msgspec.Struct, frozen=True):
    """A server that may be called, and what opens it. Nothing of it reaches a process that decodes."""

    url: str
    key_header: str = ""
    key_prefix: str = ""
    key: str = ""

    def __repr__(self) -> str:
        return f"ModelServer({self.url!r})"


class Call(msgspec.Struct, array_like=True, frozen=True):
    """One request; its body goes beside it. `patience_seconds`: the server's time, not counting what sending takes."""

    method: Method
    url: str
    headers: Headers
    body_bytes: Annotated[int, msgspec.Meta(ge=0, le=LARGEST_REQUEST_BYTES)]
    patience_seconds: Annotated[float, msgspec.Meta(gt=0)]


class Reply(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """What the server answered, whatever its status."""

    status: int
    headers: Headers
    body: bytes
    sending_seconds: float
    wait_seconds: float | None = None  # how long not to ask this server again; None: nobody keeps count


class CallFailed(msgspec.Struct, array_like=True, frozen=True, tag=True):
    """There is no answer, or none that can be used."""

    kind: FailureKind
    text: str
    sending_seconds: float = 0.0
    wait_seconds: float | None = None


Outcome = Reply | CallFailed
decode_call = msgspec.msgpack.Decoder(Call).decode
_outcomes: msgspec.msgpack.Decoder[Outcome] = msgspec.msgpack.Decoder(Outcome)
_encoder = msgspec.msgpack.Encoder()
_REQUEST_TOO_LARGE = CallFailed("request_too_large", f"it has more than {LARGEST_REQUEST_BYTES >> 20} MiB")


class Calls(Protocol):
    """Makes calls, one at a time."""

    def perform(self, call: Call, body: Iterable[bytes]) -> Outcome:
        """Make this call; nothing that a server or the network does is raised."""
        ...


@dataclass(slots=True)
class _Clock:
    """How long the server may still take. It stands still while we send."""

    until: float
    sending_since: float = 0.0
    sending_seconds: float = 0.0

    @property
    def left_seconds(self) -> float:
        return self.until + self.sending_seconds - time.monotonic()

    def trace(self, event: str, _info: Mapping[str, Any]) -> None:
        """The HTTP library reports each of its steps."""
        if event.endswith("send_request_body.started"):
            self.sending_since = time.monotonic()
        elif event.endswith("send_request_body.complete"):
            self.sending_seconds += time.monotonic() - self.sending_since


class DirectCalls:
    """Calls made by this process. Proxies and certificates are those of its environment."""

    def __init__(self) -> None:
        self._client = httpx.Client(follow_redirects=False)

    def perform(self, call: Call, body: Iterable[bytes]) -> Outcome:
        """See Calls."""
        if call.body_bytes > LARGEST_REQUEST_BYTES:
            return _REQUEST_TOO_LARGE
        clock = _Clock(time.monotonic() + call.patience_seconds)
        try:
            return self._send(call, body, clock)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            kind: FailureKind = "certificate" if _is_about_certificates(error) else "unreachable"
            return CallFailed(kind, str(error) or type(error).__name__, clock.sending_seconds)
        except httpx.TimeoutException:
            return CallFailed("timeout", "no answer", clock.sending_seconds)
        except httpx.TransportError as error:
            return CallFailed("transport", str(error) or type(error).__name__, clock.sending_seconds)
        except httpx.DecodingError:
            return CallFailed("decoding", "the answer cannot be decoded", clock.sending_seconds)

    def _send(self, call: Call, body: Iterable[bytes], clock: _Clock) -> Outcome:
        patience = call.patience_seconds
        request = self._client.build_request(
            call.method,
            call.url,
            headers=[*call.headers, ("Content-Length", str(call.body_bytes))]
            if call.body_bytes
            else call.headers,
            content=body if call.body_bytes else None,
            timeout=httpx.Timeout(patience, connect=min(LONGEST_CONNECT_SECONDS, patience)),
            extensions={"trace": clock.trace},
        )
        response = self._client.send(request, stream=True)
        try:
            return _take(response, clock)
        finally:
            response.close()


def _is_about_certificates(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _take(response: httpx.Response, clock: _Clock) -> Outcome:
    body = bytearray()
    for chunk in response.iter_bytes():  # as it comes: with a size it would wait until so much is there
        body += chunk
        if len(body) > LARGEST_ANSWER_BYTES:
            text = f"the answer is larger than {LARGEST_ANSWER_BYTES} bytes"
            return CallFailed("too_large", text, clock.sending_seconds)
        if clock.left_seconds < 0:
            return CallFailed("timeout", "no whole answer", clock.sending_seconds)
    headers = list(response.headers.multi_items())
    return Reply(response.status_code, headers, bytes(body), clock.sending_seconds)


class CallerCalls:
    """Calls made by the caller at the other end of this socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()

    def perform(self, call: Call, body: Iterable[bytes]) -> Outcome:
        """See Calls."""
        head = frame(call)
        if call.body_bytes > LARGEST_REQUEST_BYTES or len(head) > ENVELOPE_BYTES:
            return _REQUEST_TOO_LARGE
        with self._lock:
            try:
                answer = self._exchange(head, body)
            except (OSError, ValueError):
                answer = None
            except BaseException:  # the answer to this call must not become that of the next one
                self._sock.close()
                raise
        if answer is None:
            self._sock.close()
            return CallFailed("caller_gone", "the process that calls model servers has ended")
        return _outcomes.decode(answer)

    def _exchange(self, head: bytearray, body: Iterable[bytes]) -> bytearray | None:
        self._sock.sendall(head)
        for part in body:
            self._sock.sendall(part)
        return read_message(self._sock, LARGEST_ANSWER_BYTES + ENVELOPE_BYTES)


class NoCalls:
    """For a process that has nobody to call for it."""

    def perform(self, call: Call, body: Iterable[bytes]) -> Outcome:  # noqa: ARG002 - see Calls
        """See Calls."""
        text = "no model server is set, or the processor does not declare `network = True`"
        return CallFailed("no_caller", text)


def open_calls() -> Calls:
    """By the caller, if this process was started with one; else directly."""
    return _inherited_calls() or DirectCalls()


@functools.cache
def _inherited_calls() -> Calls | None:
    number = os.environ.get(CALLER)
    if number is None:
        return None
    if number == NO_CALLER:
        return NoCalls()
    sock = socket.socket(fileno=int(number))
    sock.set_inheritable(False)  # programs that this process runs have no business with it
    return CallerCalls(sock)


def frame(message: Call | Outcome) -> bytearray:
    """The message as it goes over the socket, its length in front."""
    out = bytearray(HEADER.size)
    _encoder.encode_into(message, out, HEADER.size)
    HEADER.pack_into(out, 0, len(out) - HEADER.size)
    return out


def read_message(sock: socket.socket, limit_bytes: int) -> bytearray | None:
    """The next message, or None when the other end is closed; ValueError if it is larger than allowed."""
    header = read_exactly(sock, HEADER.size)
    if header is None:
        return None
    size = HEADER.unpack(header)[0]
    if size > limit_bytes:
        raise ValueError(f"a message of {size} bytes; at most {limit_bytes} are allowed")
    return read_exactly(sock, size)


def read_exactly(sock: socket.socket, size: int) -> bytearray | None:
    """So many bytes, or None when the other end is closed before."""
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = sock.recv_into(rest)
        if count == 0:
            return None
        rest = rest[count:]
    return data

"""Clients that take their time: a head or a body that comes by the byte, an answer that is read by the byte."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

STEP_SECONDS = 1.0
OPEN_SECONDS = 10.0
READ_BYTES = 16
RECEIVE_BYTES = 4096  # of the kernel, so that the rest of an answer waits in the server
ANSWERS = 200


@dataclass(frozen=True)
class Client:
    """What it sends at first, and what it does every second; False if the connection is closed."""

    first: bytes
    step: Callable[[socket.socket], bool]


def _send_byte(line: socket.socket) -> bool:
    try:
        return _read(line, RECEIVE_BYTES) and line.send(b"x") == 1
    except OSError:
        return False


def _read_few(line: socket.socket) -> bool:
    return _read(line, READ_BYTES)


def _read(line: socket.socket, amount: int) -> bool:
    """Whatever has come, up to an amount; False at the end."""
    try:
        return line.recv(amount) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


CLIENTS = {
    "heads": Client(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ", _send_byte),
    "bodies": Client(
        b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 100000\r\n\r\nname=",
        _send_byte,
    ),
    "readers": Client(b"GET /static/mediamill.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * ANSWERS, _read_few),
}


@contextmanager
def slow_clients(port: int, kind: str, count: int) -> Iterator[list[socket.socket]]:
    """So many for a block; one that the server closes is opened again. All that were opened so far."""
    ended, ready, opened = threading.Event(), threading.Event(), list[socket.socket]()

    def keep_open() -> None:
        client, lines = CLIENTS[kind], list[socket.socket]()
        with ExitStack() as stack:
            while not ended.is_set():
                lines = [line for line in lines if _goes_on(client, line)]
                while len(lines) < count and (line := _open(port, client.first)):
                    lines.append(stack.enter_context(line))
                    opened.append(line)
                ready.set()
                ended.wait(STEP_SECONDS)

    thread = threading.Thread(target=keep_open)
    thread.start()
    ready.wait()
    try:
        yield opened
    finally:
        ended.set()
        thread.join()


def _goes_on(client: Client, line: socket.socket) -> bool:
    if client.step(line):
        return True
    line.close()
    return False


def _open(port: int, first: bytes) -> socket.socket | None:
    """None if the server does not take it."""
    line = socket.socket()
    try:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        line.settimeout(OPEN_SECONDS)
        line.connect(("127.0.0.1", port))
        line.sendall(first)
        line.setblocking(False)
    except OSError:
        line.close()
        return None
    return line

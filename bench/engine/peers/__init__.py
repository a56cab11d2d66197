"""The engines that are measured: one module each, all with the functions of `Peer`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from importlib import import_module
from typing import Any, Protocol, TypeVar

NAMES = ("limit", "mediamill", "pgqueuer", "procrastinate")
OURS = "mediamill"
LIMIT = "limit"  # a ceiling, not an engine: no ratio counts it among the peers

T = TypeVar("T")


class PeerFailedError(Exception):
    """The peer could not be measured; the run goes on without this figure."""


class NotWiredError(PeerFailedError):
    """The peer's adapter is not written yet; the run leaves the peer out."""


class Submitter(Protocol):
    """An open client that submits one job at a time, from the runner's synchronous code."""

    def send(self, number: int) -> None:
        """Submit one `stamp` job and return when it is durably stored."""

    def close(self) -> None:
        """Close the connections."""


class Peer(Protocol):
    """What a peer's module offers. `url` is always the address of a database of its own.

    Job kinds, by the function of `bench.engine.bodies` that the handler calls:
    `noop` (run_noop), `stamp` (run_stamp with its number), `slow` (run_slow with its number) and, for a peer
    with the phase `sandbox`, `sandbox` (nothing, in a sandboxed child process, and run_noop in its worker).
    """

    PHASES: frozenset[str]
    """The phases that mean something for this peer; the others are left out."""
    CONCURRENCY: int
    """The setting at which one worker process drains fastest."""
    MAX_JOBS: int | None
    """At most so many jobs per drain, for a peer whose rate is clear after few; None: no such limit."""

    def prepare(self, url: str) -> None:
        """Put the schema into the empty database."""

    def enqueue(self, url: str, kind: str, count: int) -> float:
        """Submit jobs 0..count-1 by the best bulk call; returns the seconds, without connecting."""

    def open_submitter(self, url: str) -> Submitter:
        """A client for the latency phase."""

    def run_worker(self, url: str, concurrency: int) -> None:
        """Work in this process until killed."""

    def count_unfinished(self, url: str) -> int:
        """Jobs that the store does not yet call finished."""

    def fill_finished(self, url: str, count: int) -> None:
        """Leave `count` finished jobs behind, as after a long life, vacuumed."""

    def fill_waiting(self, url: str, count: int) -> None:
        """Leave `count` `noop` jobs waiting, ready to run, vacuumed."""


EVERY_PEER = frozenset({"enqueue", "drain1", "drain2", "latency", "finished", "waiting", "memory"})


def load_peer(name: str) -> Peer:
    """The module of that name."""
    if name not in NAMES:
        raise SystemExit(f"unknown peer {name!r}; there are: {', '.join(NAMES)}")
    peer: Peer = import_module(f"{__name__}.{name}")
    return peer


class LoopThread:
    """An event loop in a thread, for clients that exist only as async code."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end in the loop's thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        """Stop the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

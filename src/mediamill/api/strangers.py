"""Connections on which nobody was recognised yet: how many there may be, and which are closed to make room.

Beyond a limit, those are closed that have kept the server waiting for the longest: idle ones, heads and bodies that
come by the byte, answers that nobody reads. A client that sends its request at once is not closed because of slow ones
from the same address, such as a proxy or a NAT. A client that waits for its answer is the last to be closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from heapq import nsmallest
from typing import Protocol

STRANGERS_OF_ADDRESS, MOST_STRANGERS = 128, 512
# What a new connection has sent is read before any is closed: of many that are accepted at once, none has been read.
SETTLE_SECONDS = 0.05
MOST_UNSETTLED = 256  # beyond MOST_STRANGERS; even more are closed at once, so that file descriptors last


class Stranger(Protocol):
    """What is needed of a connection."""

    @property
    def waiting_since(self) -> float:
        """Since when the server waits for the client; infinite while the client waits for the server."""

    def abort(self) -> None:
        """Close it, without sending what is still to be sent, and discard it."""


class Strangers:
    """Of each address, and in all; from the oldest to the newest."""

    def __init__(self) -> None:
        self._all: dict[Stranger, str] = {}
        self._of: dict[str, dict[Stranger, None]] = {}
        self._settling = False

    def add(self, connection: Stranger, address: str) -> None:
        """Others may soon have to go."""
        self._all[connection] = address
        neighbours = self._of.setdefault(address, {})
        neighbours[connection] = None
        if len(self._all) > MOST_STRANGERS + MOST_UNSETTLED:
            self._make_room()
        elif not self._settling and (
            len(neighbours) > STRANGERS_OF_ADDRESS or len(self._all) > MOST_STRANGERS
        ):
            self._settling = True
            asyncio.get_running_loop().call_later(SETTLE_SECONDS, self._settle)

    def discard(self, connection: Stranger) -> None:
        """It is closed, or it is known whose it is."""
        address = self._all.pop(connection, None)
        if address is not None:
            del self._of[address][connection]
            if not self._of[address]:
                del self._of[address]

    def is_crowded_beside(self, connection: Stranger) -> bool:
        """Whether half of a limit is reached: then requests of strangers cost as little as possible."""
        address = self._all.get(connection)
        return address is not None and (
            2 * len(self._of[address]) >= STRANGERS_OF_ADDRESS or 2 * len(self._all) >= MOST_STRANGERS
        )

    def __len__(self) -> int:
        return len(self._all)

    def _settle(self) -> None:
        self._settling = False
        self._make_room()

    def _make_room(self) -> None:
        for neighbours in list(self._of.values()):
            _close_slowest(neighbours, len(neighbours) - STRANGERS_OF_ADDRESS)
        _close_slowest(self._all, len(self._all) - MOST_STRANGERS)


def _close_slowest(connections: Iterable[Stranger], count: int) -> None:
    if count > 0:
        for each in nsmallest(count, connections, key=lambda stranger: stranger.waiting_since):
            each.abort()

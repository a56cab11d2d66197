"""A switch in this process: frames between the machines, as they come, late, or not at all.

Each machine's cable ends in a raw socket here. So a fault needs nothing of the kernel (no netem, no firewall), is as
silent as a broken cable, and can be for one direction alone.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import random
import selectors
import socket
import threading
import time
from dataclasses import dataclass

ETH_P_ALL = 0x0003
SOL_PACKET = 263
PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING = 15, 23
HEADER_BYTES = 10  # what a large frame is to be cut into, and whose checksum is still to be made
FRAME_BYTES = 70_000
BUFFER_BYTES = 8 << 20
BROADCAST = 1  # of the first byte of an address


@dataclass(slots=True)
class Way:
    """From one machine to another."""

    is_cut: bool = False
    loss: float = 0.0
    delay_seconds: float = 0.0


class Switch:
    """Between named interfaces of this machine; `macs` are the addresses at their other ends."""

    def __init__(self, interfaces: dict[str, str], macs: dict[str, bytes], seed: int = 1) -> None:
        self._names = {mac: name for name, mac in macs.items()}
        self.ways = {pair: Way() for pair in itertools.permutations(interfaces, 2)}
        self._random = random.Random(seed)
        self._doors = {name: _open_door(interface) for name, interface in interfaces.items()}
        self._late: list[tuple[float, int, str, bytes]] = []
        self._numbers = itertools.count()
        self._stop, self._stopped = os.pipe()
        self._thread = threading.Thread(target=self._run, name="switch", daemon=True)
        self._thread.start()

    def around(self, name: str, *, out: bool = True, back: bool = True) -> list[Way]:
        """The ways from and to a machine."""
        return [
            way
            for (first, second), way in self.ways.items()
            if (out and first == name) or (back and second == name)
        ]

    def close(self) -> None:
        """No frame passes any more."""
        os.close(self._stopped)
        self._thread.join()
        for door in self._doors.values():
            door.close()
        os.close(self._stop)

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop, selectors.EVENT_READ)
            for name, door in self._doors.items():
                selector.register(door, selectors.EVENT_READ, name)
            while True:
                for key, _ in selector.select(self._pause()):
                    if key.data is None:
                        return
                    self._take(key.data)
                self._send_late()

    def _pause(self) -> float | None:
        return max(self._late[0][0] - time.monotonic(), 0) if self._late else None

    def _take(self, source: str) -> None:
        """Some of what waits at a door."""
        for _ in range(64):
            try:
                frame = self._doors[source].recv(FRAME_BYTES)
            except OSError:  # nothing more, or the cable is out
                return
            target = frame[HEADER_BYTES : HEADER_BYTES + 6]
            if target[0] & BROADCAST:
                for name in self._doors:
                    if name != source:
                        self._pass(source, name, frame)
            elif target in self._names and self._names[target] != source:
                self._pass(source, self._names[target], frame)

    def _pass(self, source: str, target: str, frame: bytes) -> None:
        way = self.ways[source, target]
        if way.is_cut or (way.loss and self._random.random() < way.loss):
            return
        if way.delay_seconds:
            heapq.heappush(
                self._late, (time.monotonic() + way.delay_seconds, next(self._numbers), target, frame)
            )
        else:
            self._send(target, frame)

    def _send_late(self) -> None:
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, target, frame = heapq.heappop(self._late)
            self._send(target, frame)

    def _send(self, target: str, frame: bytes) -> None:
        with contextlib.suppress(OSError):  # a full queue drops frames, as any switch does
            self._doors[target].send(frame)


def _open_door(interface: str) -> socket.socket:
    door = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    door.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    door.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    door.bind((interface, ETH_P_ALL))
    door.setblocking(False)
    return door

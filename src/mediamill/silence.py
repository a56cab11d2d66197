"""What a socket needs so that a peer that vanished without a word (cut off, without power) is noticed in ten seconds.

Without it, whoever waits for an answer would wait for ever.
"""

from __future__ import annotations

import socket

IDLE_SECONDS, INTERVAL_SECONDS, PROBES, SILENCE_SECONDS = 3, 2, 3, 9

_WANTED = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", IDLE_SECONDS),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", INTERVAL_SECONDS),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", PROBES),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", SILENCE_SECONDS * 1000),
)
# Not every system has all of them.
SOCKET_OPTIONS = tuple(
    (level, int(getattr(socket, name)), value) for level, name, value in _WANTED if hasattr(socket, name)
)

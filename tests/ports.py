"""Ports for servers that a test starts itself."""

from __future__ import annotations

import os
import random
import socket

# Below the ports that the system hands out for connections, and a thousand for each worker process of a test run:
# between the look and the start of the server nobody else takes it.
_FIRST, _EACH = 20_000, 1_000


def free_port() -> int:
    """One that nobody listens on."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
    numbers = range(_FIRST + worker * _EACH, _FIRST + (worker + 1) * _EACH)
    for port in random.sample(numbers, len(numbers)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")

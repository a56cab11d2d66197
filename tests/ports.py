"""Ports for servers that a test starts itself."""

from __future__ import annotations

import itertools
import os
import random
import socket

# Below the ports that the system hands out for connections, and a thousand for each worker process of a test run:
# between the look and the start of the server nobody else takes it.
_FIRST, _EACH = 20_000, 1_000
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
_first = _FIRST + _worker * _EACH
_numbers = itertools.cycle(random.sample(range(_first, _first + _EACH), _EACH))  # none is given twice soon


def free_port() -> int:
    """One that nobody listens on."""
    for port in itertools.islice(_numbers, _EACH):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")

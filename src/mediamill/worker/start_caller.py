"""Starts the caller of a child process: see caller.py.

To be called by the event loop's own thread: the kernel ends a caller together with the thread that started it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec

from mediamill.processors.models.calls import ModelServer
from mediamill.processors.models.pace import open_paces
from mediamill.worker.caller import Setup

# What the interpreter needs to start; and what the operator set about the way to the servers.
_FOR_PYTHON = ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH")
_FOR_CALLS = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "ssl_cert_file", "ssl_cert_dir")


def start_caller(
    callers: socket.socket, servers: Iterable[ModelServer], paces: Path | None = None
) -> subprocess.Popen[bytes]:
    """The process, at this end of a pair of sockets, which is closed here. It ends when the other end is closed.

    `paces`: the file in which the callers of a machine share when each server may be asked next.
    """
    pace = open_paces(paces)
    environment = {name: value for name, value in os.environ.items() if name.lower() in _FOR_CALLS}
    setup = Setup(os.getpid(), callers.fileno(), list(servers), environment, pace)
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "mediamill.worker.caller"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(callers.fileno(), pace),
            start_new_session=True,
            env={name: os.environ[name] for name in _FOR_PYTHON if name in os.environ},
        )
    finally:
        callers.close()
        os.close(pace)
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError), process.stdin:  # if it died, the child finds its socket closed
        process.stdin.write(msgspec.msgpack.encode(setup))
    return process

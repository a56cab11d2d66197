"""Processes of mediamill that start in milliseconds: forked from one that has imported its code.

Importing it takes a second of CPU for each server that a test starts, and tests start hundreds. Such a process is as
real as any other (its own pid, session and environment, killed with -9), except that /proc shows the fork server's
command line and environment. Tests that look at those, or at the start itself, run the command as a user does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]
LONGEST_REQUEST = 1 << 17
START_SECONDS = 120.0
# What a child process runs is imported there, and nowhere else.
NOT_IMPORTED = ("processors", "testing", "worker.child", "worker.caller", "mcp", "__main__")


class Forked:
    """Like subprocess.Popen, as far as tests use it."""

    def __init__(
        self, server: ForkServer, module: str, words: list[str], environment: dict[str, str], output: int
    ) -> None:
        self.args = ["python", "-m", module, *words]
        self.returncode: int | None = None
        self._server = server
        self.pid, self._pidfd = server.fork(module, words, environment, output)

    def poll(self) -> int | None:
        """Its exit code, once it has ended."""
        if self.returncode is None:
            self.returncode = self._server.exit_code(self.pid)
            if self.returncode is not None and self._pidfd is not None:
                os.close(self._pidfd)
                self._pidfd = None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Until it has ended."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._server.wait_for_news(min(1.0, left if left is not None else 1.0))
        return code

    def send_signal(self, number: int) -> None:
        """To this process, even if its pid belongs to another by now."""
        if self.poll() is None and self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """The process that has everything imported; it ends with the one that started it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket, self._codes, self._pids = ours, dict[int, int](), list[int]()
        self._forking, self._reading = threading.Lock(), threading.Lock()  # tests wait in threads, too
        plain = {name: value for name, value in os.environ.items() if not name.startswith("MEDIAMILL_")}
        subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
            cwd=ROOT,
            env={**plain, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def start(self, module: str, words: list[str], environment: dict[str, str], output: IO[bytes]) -> Forked:
        """Runs `python -m module` with these words; what it says goes to `output`."""
        return Forked(self, module, words, environment, output.fileno())

    def fork(
        self, module: str, words: list[str], environment: dict[str, str], output: int
    ) -> tuple[int, int | None]:
        """The pid of a new process, and a descriptor of it unless it has ended already."""
        request = json.dumps([module, words, environment, str(Path.cwd())]).encode()
        deadline = time.monotonic() + START_SECONDS
        with self._forking:
            socket.send_fds(self._socket, [request], [output])
            while not self._pids:
                if time.monotonic() > deadline:
                    raise TimeoutError("the fork server does not answer")
                self.wait_for_news(1)
            pid = self._pids.pop()
        try:
            return pid, os.pidfd_open(pid)
        except ProcessLookupError:
            return pid, None

    def exit_code(self, pid: int) -> int | None:
        """None while it runs."""
        while self.wait_for_news(0):
            pass
        return self._codes.get(pid)

    def wait_for_news(self, seconds: float | None) -> bool:
        """One message of the server: a process has started, or has ended."""
        select.select([self._socket], [], [], seconds)
        with self._reading:
            try:
                said = self._socket.recv(LONGEST_REQUEST, socket.MSG_DONTWAIT)
            except BlockingIOError:  # another thread may have had it
                return False
            if not said:
                raise EOFError("the fork server has ended")
            news: dict[str, Any] = json.loads(said)
            if "started" in news:
                self._codes.pop(news["started"], None)  # of an earlier process with this pid
                self._pids.append(news["started"])
            else:
                self._codes[news["ended"]] = news["code"]
        return True


@cache
def fork_server() -> ForkServer:
    """One for each process that runs tests."""
    return ForkServer()


# --- the other side ---


def import_everything() -> None:
    """What servers, workers and commands import."""
    package = importlib.import_module("mediamill")
    for found in pkgutil.walk_packages(package.__path__, "mediamill."):
        name = found.name.removeprefix("mediamill.")
        if not any(name == other or name.startswith(f"{other}.") for other in NOT_IMPORTED):
            importlib.import_module(found.name)
    gc.collect()
    gc.freeze()  # pages that the collector does not touch stay shared


def serve(door: socket.socket) -> tuple[str, list[str]] | None:
    """Forks for each request. In the child: the module to run and its words; None when nobody asks any more."""
    woken, wake = socket.socketpair()
    for each in (woken, wake):
        each.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    while True:
        ready = select.select([door, woken], [], [])[0]
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _report_ends(door)
        if door not in ready:
            continue
        request, descriptors, _, _ = socket.recv_fds(door, LONGEST_REQUEST, 1)
        if not request:
            return None
        module, words, environment, folder = json.loads(request)
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(descriptors[0], environment, folder)
            door.send(json.dumps({"started": os.getpid()}).encode())
            for each in (woken, wake, door):
                each.close()
            return module, words
        os.close(descriptors[0])


def _report_ends(door: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while (found := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = found
            door.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _become(output: int, environment: dict[str, str], folder: str) -> None:
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)


def main() -> None:
    """The fork server, or the process that it became."""
    door = socket.socket(fileno=int(sys.argv[1]))
    import_everything()
    wanted = serve(door)
    if wanted is not None:
        module, words = wanted
        sys.argv[1:] = words
        runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()

"""Worker processes of a peer: started in a process group of their own, so that kill -9 takes all of it.

Run as `python -m bench.engine.workers PEER CONCURRENCY`, with the database's address in the environment.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bench.engine.peers import PeerFailedError, load_peer

URL_VARIABLE = "MEDIAMILL_BENCH_URL"
ROOT = Path(__file__).parents[2]
LOG = ROOT / "bench" / "run" / "workers.log"


class WorkerGroup:
    """Workers of one peer that live and die together."""

    def __init__(
        self, peer_name: str, url: str, concurrency: int, processes: int, elsewhere: bool = False
    ) -> None:
        self._peer_name = peer_name
        self._processes = [_start_worker(peer_name, url, concurrency, elsewhere) for _ in range(processes)]

    @property
    def pids(self) -> list[int]:
        """The leaders of the process groups."""
        return [process.pid for process in self._processes]

    def check_alive(self) -> None:
        """A worker must run until it is killed."""
        if any(process.poll() is not None for process in self._processes):
            raise PeerFailedError(f"a worker of {self._peer_name} died; see {LOG.relative_to(ROOT)}")

    def kill(self) -> None:
        """SIGKILL, children included."""
        for process in self._processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def running_workers(
    peer_name: str, url: str, concurrency: int, processes: int = 1, elsewhere: bool = False
) -> Iterator[WorkerGroup]:
    """Workers for the length of the block. `elsewhere`: in a space of process ids that nobody here can look into,
    which is all that an engine can know of a worker on another machine.
    """
    group = WorkerGroup(peer_name, url, concurrency, processes, elsewhere)
    try:
        yield group
    finally:
        group.kill()


def _start_worker(
    peer_name: str, url: str, concurrency: int, elsewhere: bool = False
) -> subprocess.Popen[bytes]:
    LOG.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "bench.engine.workers", peer_name, str(concurrency)]
    if elsewhere:
        rights = [] if os.geteuid() == 0 else ["--map-current-user"]
        command = ["unshare", *rights, "--pid", "--fork", "--kill-child", "--mount-proc", *command]
    environment = {**os.environ, URL_VARIABLE: url, "PYTHONWARNINGS": "ignore"}
    with LOG.open("ab") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )


if __name__ == "__main__":
    load_peer(sys.argv[1]).run_worker(os.environ[URL_VARIABLE], int(sys.argv[2]))

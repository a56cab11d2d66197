"""The site: a server with PostgreSQL, a worker by database beside Redis, a worker by HTTP and one more by database."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.machines.network import Network, network
from bench.machines.nodes import ProcessNode, clean_environment, mill_command
from bench.machines.postgres_server import PostgresServer

ROOT = Path(__file__).parents[2]
MACHINES = ("home", "alpha", "beta")
WORKERS = {"anna": "alpha", "ben": "beta", "carl": "beta"}  # by name, and where
OVER_HTTP = "ben"
PORT, REDIS_PORT = 8420, 6379
SECRET = "known to the server and to whoever may register"
LEASE_SECONDS = 6.0
# All that waits is shorter than usual, so that a run sees hundreds of faults; what it waits for is the same.
QUICK = {
    "heartbeat_seconds": "1",
    "offline_after_seconds": "4",
    "sweep_seconds": "2",
    "startup_grace_seconds": "5",
    "log_level": "WARNING",
}
POOLS: list[dict[str, Any]] = [
    {
        "name": "chaos",
        "matches": ["chaos.settled", "chaos.delivered"],
        "concurrency": 8,
        "lease_seconds": LEASE_SECONDS,
        "stale_seconds": 2 * LEASE_SECONDS,
        "max_attempts": 1000,
        "backoff_seconds": 0.05,
    },
    {
        "name": "chaos-processed",
        "matches": ["chaos.processed"],
        "processor": "scripted",
        "concurrency": 2,
        "lease_seconds": LEASE_SECONDS,
        "stale_seconds": 2 * LEASE_SECONDS,
        "max_attempts": 1000,
        "backoff_seconds": 0.05,
    },
    {
        "name": "image",
        "concurrency": 1,
        "lease_seconds": 2 * LEASE_SECONDS,
        "stale_seconds": 2 * LEASE_SECONDS,
        "max_attempts": 100,
        "backoff_seconds": 0.05,
    },
]


class PostgresNode:
    """PostgreSQL as a node."""

    name = "postgresql"

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    def start(self) -> None:
        self.server.start(wait=False)

    def kill(self) -> None:
        self.server.kill()

    def pause(self) -> None:
        self.server.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.server.signal(signal.SIGCONT)

    def has_ended(self) -> bool:
        return self.server.has_ended()


class Site:
    """All nodes, on their machines, in one dispatch mode."""

    def __init__(self, folder: Path, net: Network) -> None:
        self.folder, self.network = folder, net
        home = net.machines["home"]
        self.postgres = PostgresServer(
            folder / "postgres", address=home.address, inside=home.inside, settings={"jit": "off"}
        )
        self.nodes: dict[str, ProcessNode | PostgresNode] = {}
        self._key = ""

    @property
    def url(self) -> str:
        """Past every cable: the run itself looks from outside."""
        return self.postgres.socket_url

    @property
    def logs(self) -> list[Path]:
        return sorted(self.folder.glob("said-*.txt"))

    def begin(self, mode: str) -> None:
        """Every node, started; the database must be there."""
        home, alpha = self.network.machines["home"], self.network.machines["alpha"]
        beside = {
            **QUICK,
            "database_url": self.postgres.url,
            "data": str(self.folder / "data"),
            "queue_mode": mode,
            "redis_url": f"redis://{alpha.address}:{REDIS_PORT}",
        }
        served = {**beside, "host": "0.0.0.0", "port": str(PORT), "admin_secret": SECRET}
        self._register(served)
        self.nodes["postgresql"] = PostgresNode(self.postgres)
        if mode != "database":
            self._start("redis", self._redis_words(), {})
        self._start("server", mill_command(home.inside, "up", "--workers", "0"), served)
        for name, machine in WORKERS.items():
            words = mill_command(self.network.machines[machine].elsewhere, "worker")
            if name == OVER_HTTP:
                self._start(name, words, self._far_settings(name))
            else:
                self._start(name, [*words, "--name", name], beside)

    def end(self) -> None:
        """Every process but PostgreSQL."""
        for name in [name for name in self.nodes if name != "postgresql"]:
            node = self.nodes.pop(name)
            node.go_on()
            node.kill()

    def _start(self, name: str, words: list[str], settings: dict[str, str]) -> None:
        said = self.folder / f"said-{name}.txt"
        self.nodes[name] = ProcessNode(name, words, clean_environment(**settings), said)
        self.nodes[name].start()

    def _far_settings(self, name: str) -> dict[str, str]:
        """Of a worker that has a folder of its own, a server's address and a key, and nothing else."""
        address = f"http://{self.network.machines['home'].address}:{PORT}"
        return {**QUICK, "data": str(self.folder / name), "server": address, "worker_key": self._key}

    def _redis_words(self) -> list[str]:
        alpha = self.network.machines["alpha"]
        program = os.environ.get("REDIS_SERVER") or (ROOT / ".tools" / "redis").read_text().strip()
        given = {
            "bind": alpha.address,
            "port": str(REDIS_PORT),
            "save": "",
            "appendonly": "no",
            "protected-mode": "no",
        }
        words = [word for name, value in given.items() for word in (f"--{name}", value)]
        return [*alpha.inside, program, *words, "--dir", str(self.folder)]

    def _register(self, settings: dict[str, str]) -> None:
        """The worker over HTTP, once."""
        if self._key:
            return
        words = mill_command(self.network.machines["home"].inside, "workers", "register", OVER_HTTP, "--json")
        done = subprocess.run(
            words, env=clean_environment(**settings), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the worker could not be registered: {done.stderr}")
        self._key = json.loads(done.stdout)["key"]


@contextmanager
def open_site(folder: Path, seed: int) -> Iterator[Site]:
    """Machines and PostgreSQL; all of it goes at the end."""
    with network(MACHINES, seed) as net:
        site = Site(folder, net)
        try:
            site.postgres.make()
            yield site
        finally:
            site.end()
            site.postgres.kill()
            shutil.rmtree(folder / "postgres", ignore_errors=True)

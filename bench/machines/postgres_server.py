"""A PostgreSQL beside mediamill, as somebody runs one of their own: started, killed with -9, started again."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psutil

from mediamill.db.postmaster import ENVIRONMENT, binaries
from mediamill.db.root_user import open_way, server_account

PORT = 5432
NAME = "mediamill"
START_SECONDS = 60.0
SETTINGS = {"shared_buffers": "64MB", "max_connections": "100", "timezone": "UTC"}
HOSTS = "local all all trust\nhost all all all scram-sha-256\n"
PASSWORD = "known-to-all-machines"


class PostgresServer:
    """In `folder`, by the programs of a folder. It listens on a socket there, and on `address` if there is one.

    `inside` are the words to run a command with (`ip netns exec …`).
    """

    def __init__(
        self,
        folder: Path,
        programs: Path | None = None,
        *,
        address: str = "",
        inside: Sequence[str] = (),
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder, self._programs = folder, programs or binaries()
        self._address, self._inside = address, tuple(inside)
        self._settings = {**SETTINGS, **(settings or {})}
        folder.mkdir(parents=True, exist_ok=True)
        self._cluster = folder / "cluster"
        self.account = server_account(self._cluster)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket_url(self) -> str:
        """From this machine, whatever became of its network."""
        return f"postgresql://postgres@{quote(str(self.folder / 'run'), safe='')}:{PORT}/{NAME}"

    @property
    def url(self) -> str:
        """From other machines."""
        return f"postgresql://postgres:{PASSWORD}@{self._address}:{PORT}/{NAME}"

    def make(self) -> None:
        """The files of the server, with one empty database."""
        (self.folder / "run").mkdir(mode=0o700)
        (self.folder / "password").write_text(PASSWORD)
        for path in (self.folder, self.folder / "run", self.folder / "password"):
            self.account.own(path)
        open_way([self._cluster, self._programs / "postgres"], self.account)
        password = f"--pwfile={self.folder / 'password'}"
        self._run(
            "initdb",
            f"--pgdata={self._cluster}",
            "--username=postgres",
            password,
            "--encoding=UTF8",
            "--no-sync",
        )
        (self._cluster / "pg_hba.conf").write_text(HOSTS)
        given = {
            **self._settings,
            "unix_socket_directories": str(self.folder / "run"),
            "listen_addresses": self._address,
            "port": str(PORT),
        }
        with (self._cluster / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in given.items())
        self.start()
        self._run(
            "psql",
            "--no-psqlrc",
            "-q",
            "-h",
            str(self.folder / "run"),
            "-U",
            "postgres",
            "-c",
            f"create database {NAME}",
        )

    def start(self, *, wait: bool = True) -> None:
        """Start it; with `wait`, until it answers."""
        (self._cluster / "postmaster.pid").unlink(
            missing_ok=True
        )  # whoever it names is dead, or is another by now
        command = [
            *self._inside,
            *self._as_its_user(),
            str(self._programs / "postgres"),
            "-D",
            str(self._cluster),
        ]
        with (self.folder / "said.txt").open("ab") as said:
            self._process = subprocess.Popen(
                command, stdout=said, stderr=said, start_new_session=True, cwd=self.folder, env=ENVIRONMENT
            )
        deadline = time.monotonic() + START_SECONDS
        while wait and not self.answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError(
                    f"PostgreSQL does not start: {(self.folder / 'said.txt').read_text()[-2000:]}"
                )
            time.sleep(0.05)

    def answers(self) -> bool:
        """Does it take connections?"""
        words = [self._programs / "pg_isready", "-q", "-h", self.folder / "run"]
        return subprocess.run(list(map(str, words)), env=ENVIRONMENT, check=False).returncode == 0

    def signal(self, number: signal.Signals) -> None:
        """To all of its processes: each of them is a session of its own."""
        if self._process is not None:
            _signal_all(self._process.pid, number)

    def has_ended(self) -> bool:
        """By itself."""
        return self._process is not None and self._process.poll() is not None

    def kill(self) -> None:
        """-9, as when the power goes, with all of its backends: one that lives would share memory with the next."""
        process, self._process = self._process, None
        if process is not None:
            backends = _signal_all(process.pid, signal.SIGKILL)
            process.wait()
            psutil.wait_procs(backends, timeout=START_SECONDS)

    def _as_its_user(self) -> list[str]:
        if not self.account.switch:
            return []
        return ["setpriv", f"--reuid={self.account.uid}", f"--regid={self.account.gid}", "--clear-groups"]

    def _run(self, name: str, *words: str) -> None:
        program = str(self._programs / name)
        done = subprocess.run(
            [program, *words], capture_output=True, text=True, env=ENVIRONMENT, check=False,
            cwd=self.folder, **self.account.process_options(),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr}")


def _signal_all(pid: int, number: signal.Signals) -> list[psutil.Process]:
    """The children that were told, too."""
    try:
        postmaster = psutil.Process(pid)
        children = postmaster.children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    for process in (postmaster, *children):
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    return children

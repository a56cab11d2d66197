"""The embedded PostgreSQL of a data folder, shared by all processes that use the folder.

Each user holds a shared lock on `postgres.use`; starting and stopping happen alone, under `postgres.lock`.
Who can turn its share into an exclusive lock is the last user and stops the server. The kernel frees the
share of a killed process, so there are no lists that could go stale; a server whose users were all killed
runs on, and the next start finds it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mediamill.db import file_lock, postmaster
from mediamill.db.cluster import Cluster
from mediamill.db.postmaster import PidFile
from mediamill.db.roles import ensure_set_up, role_url
from mediamill.db.root_user import EmbeddedServerError, server_account
from mediamill.files import tighten

__all__ = ["EmbeddedServer", "EmbeddedServerError", "ServerUse", "postmaster_pid", "stop_immediately"]

START_SECONDS = 600.0  # crash recovery may have gigabytes to replay
LEFTOVERS_SECONDS = 60.0
ATTEMPTS = 3
LOG_LINES = 12


@dataclass(frozen=True)
class EmbeddedServer:
    """The server of one data folder; with a port also on 127.0.0.1, where it wants the password."""

    data_folder: Path
    port: int | None = None

    def start(self) -> ServerUse:
        """Make the cluster if it is new, start the server if it is not running, wait until it answers."""
        with _clear_errors(self.data_folder):
            data = _make_data_folder(self.data_folder)
            with file_lock.exclusive(data / "postgres.lock"):
                share = file_lock.open_lock(data / "postgres.use")
                try:
                    file_lock.share(share)
                    url = self._bring_up(data, share)
                except BaseException:
                    file_lock.release(share)
                    raise
        return ServerUse(data, url, share)

    def _bring_up(self, data: Path, share: int) -> str:
        cluster = Cluster(data, server_account(data / "postgres"))
        for name in ("postgres.lock", "postgres.use"):
            cluster.account.own(data / name)
        until = time.monotonic() + LEFTOVERS_SECONDS
        attempt = 0
        while True:
            attempt += 1
            try:
                return role_url(cluster, self._bring_up_once(cluster, share))
            except EmbeddedServerError as error:
                # A server that was killed under our hands deserves another try, one that lives does not.
                leftovers = "shared memory block" in error.message and time.monotonic() < until
                alive = postmaster.living_postmaster(cluster.folder) is not None
                if not leftovers and (attempt == ATTEMPTS or alive or error.fix):
                    raise
                time.sleep(0.2)

    def _bring_up_once(self, cluster: Cluster, share: int) -> PidFile:
        cluster.open_way()
        cluster.make()
        found = postmaster.living_postmaster(cluster.folder)
        if found and found.status == "stopping":
            postmaster.wait_until_gone(cluster.folder, found.pid)
            found = None
        if found and self._other_port(found):
            self._stop_for_other_port(cluster, found, share)
            found = None
        if found and not cluster.superuser_password.exists() and _is_alone(share):
            postmaster.stop(cluster.folder, signal.SIGINT)  # the next launch makes another password
            found = None
        pid = found.pid if found else 0
        log_size = cluster.log.stat().st_size if cluster.log.exists() else 0
        try:
            pid = pid or _launch(cluster, self.port)
            server = postmaster.wait_until_ready(cluster.folder, pid, START_SECONDS)
            ensure_set_up(cluster, server)
        except EmbeddedServerError as error:
            raise _with_log(error, cluster, log_size) from None
        return server

    def _other_port(self, found: PidFile) -> bool:
        return self.port is not None and not (found.listens and found.port == self.port)

    def _stop_for_other_port(self, cluster: Cluster, found: PidFile, share: int) -> None:
        """A server that everybody else has left may be started anew with our port."""
        if not _is_alone(share):
            has = f"port {found.port}" if found.listens else "no TCP port"
            raise EmbeddedServerError(
                f"The embedded database is in use with {has}, not with port {self.port}.",
                fix="stop every mediamill process of this data folder first, or ask for the same port",
            )
        postmaster.stop(cluster.folder, signal.SIGINT)


class ServerUse:
    """This process's share in the running server."""

    def __init__(self, data: Path, url: str, share: int) -> None:
        self.url = url
        self._data = data
        self._share: int | None = share
        self._process = os.getpid()

    def close(self) -> None:
        """Give the share up; the last user stops the server. A forked child has no share to give up."""
        share, self._share = self._share, None
        if share is None or os.getpid() != self._process:
            return
        try:
            with suppress(FileNotFoundError), file_lock.exclusive(self._data / "postgres.lock"):
                if file_lock.try_exclusive(share):
                    postmaster.stop(self._data / "postgres", signal.SIGINT)
        finally:
            file_lock.release(share)


def postmaster_pid(data_folder: Path) -> int | None:
    """The pid of the living server of this data folder, if there is one."""
    found = postmaster.living_postmaster(data_folder.resolve() / "postgres")
    return found.pid if found else None


def stop_immediately(data_folder: Path) -> None:
    """Stop the server at once, as a crash would: the next start recovers what was committed."""
    postmaster.stop(data_folder.resolve() / "postgres", signal.SIGQUIT)


def _make_data_folder(folder: Path) -> Path:
    folder = folder.resolve()
    if folder.exists() and not folder.is_dir():
        raise EmbeddedServerError(
            f"The data folder {folder} is a file.", fix="set MEDIAMILL_DATA to a folder"
        )
    if "\n" in str(folder):
        raise EmbeddedServerError(
            "The data folder's name has a line break.", fix="choose another MEDIAMILL_DATA"
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    tighten(folder)
    return folder


def _is_alone(share: int) -> bool:
    """Whether nobody else uses the server; we hold the lock that keeps others from coming."""
    alone = file_lock.try_exclusive(share)
    file_lock.share(share)
    return alone


def _launch(cluster: Cluster, port: int | None) -> int:
    alive = _wait_for_leftovers(cluster)
    try:
        cluster.prepare_start(port)
        log = cluster.open_log()
        try:
            return postmaster.launch(cluster.folder, log, alive, cluster.account)
        finally:
            os.close(log)
    finally:
        file_lock.close_lock(alive)  # not released: the server holds it from now on


def _wait_for_leftovers(cluster: Cluster) -> int:
    """Wait for the last backend of a killed server, and take the lock that the new server will inherit."""
    path = cluster.data / "postgres.alive"
    alive = file_lock.open_lock(path)
    cluster.account.own(path)
    until = time.monotonic() + LEFTOVERS_SECONDS
    while not file_lock.try_exclusive(alive):
        if time.monotonic() > until:
            file_lock.close_lock(alive)
            raise EmbeddedServerError(
                f"Processes of a former database server still use {cluster.folder}.",
                fix="end them; they may run in another container or have moved with the folder",
            )
        time.sleep(postmaster.POLL_SECONDS)
    return alive


@contextmanager
def _clear_errors(folder: Path) -> Iterator[None]:
    """Whatever goes wrong reaches the user as one sentence and what to do."""
    try:
        yield
    except EmbeddedServerError as error:
        error.fix = error.fix or _fix_for(error.message)
        raise
    except (OSError, subprocess.SubprocessError) as error:
        raise EmbeddedServerError(
            f"The embedded database cannot use the data folder {folder}: {error}.", fix=_fix_for(str(error))
        ) from error


def _fix_for(complaint: str) -> str:
    more_space = "free some space on the disk of MEDIAMILL_DATA, or choose another MEDIAMILL_DATA"
    for sign, fix in (
        ("No space left", more_space),
        ("free disk space", more_space),  # PostgreSQL's hint when only a part of a block fits
        ("quota exceeded", "free some space in your quota, or choose another MEDIAMILL_DATA"),
        ("Address already in use", "another program has the port: choose another one"),
        ("Read-only file system", "set MEDIAMILL_DATA to a folder that can be written"),
        ("Not a directory", "set MEDIAMILL_DATA to a folder"),
        ('failed for user "postgres"', "remove postgres.password from MEDIAMILL_DATA: a start makes another"),
        ("look up effective user", "give the user that runs mediamill a name in /etc/passwd"),
        ("ermission", "let this user write there, or choose another MEDIAMILL_DATA"),
    ):
        if sign in complaint:
            return fix
    return "see logs/postgres.log in MEDIAMILL_DATA; `mediamill doctor` checks the rest"


def _with_log(error: EmbeddedServerError, cluster: Cluster, since: int) -> EmbeddedServerError:
    """Add what the server wrote since this attempt began."""
    if not cluster.log.exists():
        return error
    with cluster.log.open("rb") as log:
        size = cluster.log.stat().st_size
        log.seek(max(since if since <= size else 0, size - 4000, 0))
        lines = log.read().decode(errors="replace").splitlines()[-LOG_LINES:]
    message = "\n".join([error.message, *(["The end of its log:", *lines] if lines else [])])
    return EmbeddedServerError(message, fix=error.fix)

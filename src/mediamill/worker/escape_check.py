"""Tries all ways out of a child process on this machine, and says which are closed."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from mediamill.errors import MediamillError
from mediamill.testing.escape import DATAGRAMS, LIMITS, By, Targets
from mediamill.testing.escape_attempts import ATTEMPTS
from mediamill.worker.failures import MemoryLimitError, TooManyThreadsError, TooMuchWrittenError
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob

_LIMITS = Limits(timeout_seconds=60, memory_bytes=1 << 30)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one attempt ended."""

    name: str
    what: str
    by: Sequence[By]  # what should keep it from that
    refused: bool
    said: str


async def try_escapes(
    folder: Path,
    *,
    names: Sequence[str] = tuple(ATTEMPTS),
    thread: bool = False,
    processor: str = "hostile",
) -> list[Outcome]:
    """Each attempt in a real child, whose scratch folder is in this one. `thread`: by one that libraries started."""
    scratch = folder / "scratch"
    sandbox = Sandbox(processor, size=1, limits=_LIMITS, scratch=scratch)
    await sandbox.start()
    try:
        with _targets(folder, next(path for path in scratch.iterdir() if path.is_dir())) as targets:
            return [await _try(sandbox, name, targets, folder, thread) for name in names]
    finally:
        await sandbox.close()


async def _try(sandbox: Sandbox, name: str, targets: Targets, folder: Path, thread: bool) -> Outcome:
    _lay_out(folder, targets)
    attempt = ATTEMPTS[name]
    payload = {"attempt": name, "targets": asdict(targets), "thread": thread}
    try:
        result = (await sandbox.run(SandboxJob(payload, file=folder / "inbox" / "input.txt"))).result
    except (TooManyThreadsError, TooMuchWrittenError, MemoryLimitError) as error:
        result = {"refused": attempt.by == LIMITS, "said": error.message}
    except MediamillError as error:  # the attempt took its own child down
        result = {"refused": False, "said": error.message}
    return Outcome(name, attempt.what, attempt.by, bool(result["refused"]), str(result["said"]))


def _lay_out(folder: Path, targets: Targets) -> None:
    """Anew for each attempt, as those that get through may have taken it away."""
    for path, text in (
        (folder / "inbox" / "input.txt", "input"),
        (folder / "inbox" / "other.txt", "other"),
        (Path(targets.secret), "secret"),
        (Path(targets.neighbour), "neighbour"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for left in Path(targets.folder).iterdir():
        if left != Path(targets.secret):
            left.rmdir() if left.is_dir() and not left.is_symlink() else left.unlink()


@contextmanager
def _targets(folder: Path, home: Path) -> Iterator[Targets]:
    wanted = folder / "wanted"
    wanted.mkdir()
    abstract = f"mediamill-{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        # The path of a socket may have 108 bytes, and a temporary folder of one's own may be deep.
        sockets = stack.enter_context(tempfile.TemporaryDirectory(prefix="mill-", dir="/tmp"))
        for address in (f"{sockets}/socket", "\0" + abstract):
            unix = stack.enter_context(socket.socket(socket.AF_UNIX))
            unix.bind(address)
            unix.listen()
            datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            datagrams.bind(address + DATAGRAMS)
        yield Targets(
            secret=str(wanted / "secret.txt"),
            folder=str(wanted),
            neighbour=str(home / "child-another" / "1" / "made.txt"),
            worker=os.getpid(),
            port=listening.getsockname()[1],
            unix_socket=f"{sockets}/socket",
            abstract_socket=abstract,
        )

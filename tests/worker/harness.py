"""What the tests of the sandbox share: opening one, running a script in it, waiting for a state."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from mediamill.db.root_user import open_way, server_account
from mediamill.testing.escape import LIMITS
from mediamill.testing.escape_attempts import ATTEMPTS
from mediamill.worker.sandbox import Limits, Report, Sandbox, SandboxJob

LIMIT_SECONDS = 120  # free, as long as things go well
GENEROUS = Limits(timeout_seconds=60, memory_bytes=1 << 30)
SHORT = Limits(timeout_seconds=2, memory_bytes=1 << 30)
QUICK = [name for name, attempt in ATTEMPTS.items() if attempt.by != LIMITS]  # the others wait for a look
needs_root = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can become somebody else; everything else runs as a user here"
)


@contextmanager
def as_user() -> Iterator[tuple[Path, dict[str, Any]]]:
    """A folder of an ordinary user, and the options to start a process as that user."""
    quick = next((each for each in ("/dev/shm", "/tmp") if os.access(each, os.W_OK)), None)
    with tempfile.TemporaryDirectory(prefix="mediamill-", dir=quick) as name:
        folder = Path(name).resolve()
        account = server_account(folder / "none yet")  # a user that root lends to others
        python = Path(sys.executable)
        open_way([folder / "x", python, python.resolve(), Path(__file__)], account)
        account.own(folder)
        yield folder, dict(account.process_options())


def add_plugin(folder: Path, *processors: str) -> Path:
    """A folder, to be put on the path, with a package that declares these processors."""
    info = folder / "plugin" / "plugin-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[mediamill.processors]", *processors, ""]))
    return info.parent


@asynccontextmanager
async def opened(
    scratch: Path, limits: Limits = GENEROUS, size: int = 1, processor: str = "scripted", **more: Any
) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(processor, size=size, limits=limits, scratch=scratch, **more)
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def do(sandbox: Sandbox, word: str = "succeed", **payload: Any) -> dict[str, Any]:
    output = await sandbox.run(SandboxJob(payload={"do": word, **payload}))
    return dict(output.result)


async def pid_of(sandbox: Sandbox) -> int:
    return int((await do(sandbox, about=True))["pid"])


def programs_of(pid: int) -> list[int]:
    """The programs that a child runs, as this process sees them: a namespace has numbers of its own."""
    found = psutil.Process(pid).children(recursive=True)
    return [each.pid for each in found if "mediamill.worker.child" not in " ".join(each.cmdline())]


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def wait_until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + LIMIT_SECONDS
    while not true():
        assert time.monotonic() < end, f"not within {LIMIT_SECONDS} s: {what}"
        await asyncio.sleep(0.02)


class Reports(list[Report]):
    """Collects reports, and can be waited on for the first one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = asyncio.Event()

    def __call__(self, report: Report) -> None:
        self.append(report)
        self.first.set()

    async def part(self, name: str) -> int:
        async with asyncio.timeout(LIMIT_SECONDS):
            await self.first.wait()
        assert self[0].parts is not None
        return int(self[0].parts[name])


def age(sandbox: Sandbox, seconds: float) -> None:
    """What its children do now, they have done for so much longer."""
    for child in sandbox._children:
        child._deadline -= seconds


def opened_now() -> set[str]:
    """The files that this process has open."""
    found = set()
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - names
        try:
            found.add(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115
        except FileNotFoundError:
            continue
    return found


def homes(scratch: Path) -> list[Path]:
    return [path for path in scratch.iterdir() if path.is_dir()]


def everything_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def folders(scratch: Path) -> list[Path]:
    """Of jobs: where children work, and where what they made is taken to."""
    inside = [folder for home in homes(scratch) for folder in home.iterdir()]
    working = [folder for child in inside for folder in _listed(child) if folder.name.isdigit()]
    return working + [folder for folder in inside if folder.name.startswith("taken-")]


def _listed(folder: Path) -> list[Path]:
    """Nothing where it is being removed just now."""
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []

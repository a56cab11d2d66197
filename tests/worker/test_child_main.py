"""A child process from its first line to its last, forked from this one: it has everything loaded already."""

from __future__ import annotations

import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mediamill.errors import GiveUpError
from mediamill.processors.contract import CALLER, NO_CALLER, ProcessorOutput
from mediamill.processors.settings import GIVEN
from mediamill.worker import child, seccomp
from mediamill.worker.landlock import landlock_version
from mediamill.worker.messages import HEADER, Done, Failed, Ready, Start, Work, decode_from_child, frame
from mediamill.worker.spawn import PROCESSOR_SETTINGS

pytestmark = [
    pytest.mark.spec("C26"),
    pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc"),
]
GIGABYTE = 1 << 30


class Curious:
    """Tells what it is and may."""

    network = False

    def __init__(self, mime_types: Any, timeout_seconds: float) -> None:
        self._made_with = [list(mime_types), timeout_seconds]

    def process(self, given: Any) -> ProcessorOutput:
        if given.payload.get("read"):
            Path(given.payload["read"]).read_bytes()
        if given.payload.get("fork") and os.fork() == 0:
            os._exit(0)
        told = {
            **{"made_with": self._made_with, "folder": str(Path.cwd()), "caller": os.environ[CALLER]},
            **{"settings": GIVEN in os.environ, "session": os.getppid()},
            "descriptors": sorted(os.listdir("/proc/self/fd")) if given.payload.get("list") else [],  # noqa: PTH208
        }
        return ProcessorOutput(told)


class Asking(Curious):
    """It asks model servers."""

    network = True


class Broken:
    """It cannot be made."""

    def __init__(self, *_: object) -> None:
        raise GiveUpError("no model", fix="fetch one")


@dataclass
class Forked:
    """Such a child, and the worker's end of its line."""

    pid: int
    line: socket.socket

    def hear(self) -> Any:
        size = HEADER.unpack(self.line.recv(HEADER.size, socket.MSG_WAITALL))[0]
        return decode_from_child(self.line.recv(size, socket.MSG_WAITALL))

    def ask(self, number: int = 1, **payload: Any) -> Any:
        self.line.sendall(frame(Work(number, payload, None, None, None, 1, 9_999)))
        return self.hear()

    def wait(self) -> int:
        """For its end; its exit code."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def limits(self) -> dict[str, list[str]]:
        lines = Path(f"/proc/{self.pid}/limits").read_text().splitlines()[1:]
        return {line[:25].strip(): line[25:].split()[:2] for line in lines}


@contextmanager
def forked(folder: Path, declared: str, *, caller: int | None = None, **more: Any) -> Iterator[Forked]:
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    plan = {
        **{"processor": "p", "declared": declared, "mime_types": ("a/b",), "timeout_seconds": 7.5},
        **{"descriptor": theirs.fileno(), "parent": os.getpid(), "memory_bytes": 8 * GIGABYTE},
        **{"file_bytes": GIGABYTE, "folder": str(folder), "programs": False, "models": str(folder)},
        **{"landlock": False, "seccomp": False, **more},
    }
    if (pid := os.fork()) == 0:
        try:
            ours.close()
            os.environ[CALLER] = NO_CALLER if caller is None else str(caller)
            os.environ[GIVEN] = msgspec.json.encode(dict.fromkeys(PROCESSOR_SETTINGS)).decode()
            os.environ["MEDIAMILL_MODELS"] = str(folder)
            child.main([msgspec.json.encode(Start(**plan)).decode()])
            os._exit(0)
        except BaseException:
            os._exit(70)
    theirs.close()
    with ours:
        yield Forked(pid, ours)
    os.kill(pid, signal.SIGKILL) if _lives(pid) else None


def _lives(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


async def test_a_child_works_within_its_limits_until_its_worker_hangs_up(tmp_path: Path) -> None:
    with forked(tmp_path, f"{__name__}:Curious") as made:
        assert made.hear() == Ready(False)
        first = made.ask(3)
        assert isinstance(first, Done)
        assert (first.number, first.folder) == (3, False)
        assert first.result == {
            **{"made_with": [["a/b"], 7.5], "folder": str(tmp_path), "caller": NO_CALLER},
            **{"settings": False, "session": os.getpid(), "descriptors": []},
        }
        limits = made.limits()
        assert limits["Max data size"] == [str(8 * GIGABYTE)] * 2
        assert limits["Max file size"] == [str(GIGABYTE)] * 2
        assert limits["Max core file size"] == ["0", "0"]
        assert limits["Max open files"] == ["1024", "1024"]
        assert made.ask(4, fork=True).number == 4, "it is neither confined nor filtered"
        made.line.shutdown(socket.SHUT_WR)
        assert made.wait() == 0


@pytest.mark.parametrize(
    ("name", "network", "caller"), [("Asking", True, True), ("Curious", False, True), ("Asking", True, False)]
)
async def test_only_who_asks_servers_keeps_the_line_to_them(
    tmp_path: Path, name: str, network: bool, caller: bool
) -> None:
    one, two = socket.socketpair()
    with one, two, forked(tmp_path, f"{__name__}:{name}", caller=two.fileno() if caller else None) as made:
        assert made.hear() == Ready(network)
        kept = str(two.fileno()) if network and caller else NO_CALLER
        assert made.ask().result["caller"] == kept
        made.line.shutdown(socket.SHUT_WR)
        assert made.wait() == 0


@pytest.mark.parametrize(
    ("declared", "says", "fix"),
    [
        ("nowhere:Nothing", "cannot be loaded: ModuleNotFoundError", None),
        (f"{__name__}:Broken", "cannot be loaded: GiveUpError: no model", None),
        (f"{__name__}:Nothing", "cannot be loaded: AttributeError", None),
    ],
)
async def test_a_processor_that_cannot_be_loaded_is_said_before_any_job(
    tmp_path: Path, declared: str, says: str, fix: str | None
) -> None:
    with forked(tmp_path, declared) as made:
        failed = made.hear()
        assert isinstance(failed, Failed)
        assert (failed.number, failed.folder, failed.fix) == (0, False, fix)
        assert says in failed.message
        assert "Traceback" in (failed.traceback or "")
        assert made.wait() == 1


async def test_a_folder_that_is_gone_is_said_before_any_job(tmp_path: Path) -> None:
    with forked(tmp_path / "gone", f"{__name__}:Curious") as made:
        assert "No such file or directory" in made.hear().message
        assert made.wait() == 1


@pytest.mark.skipif(
    not landlock_version() or not seccomp.is_available(), reason="no Landlock, or no seccomp here"
)
@pytest.mark.parametrize("landlock", [False, True])
@pytest.mark.parametrize("filtered", [False, True])
async def test_a_child_is_confined_as_its_plan_says(tmp_path: Path, landlock: bool, filtered: bool) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "secret").write_text("x")
    plan = {"landlock": landlock, "seccomp": filtered}
    with forked(tmp_path / "own", f"{__name__}:Curious", **plan) as made:
        assert made.hear() == Ready(False)
        said = [made.ask(1, read=str(tmp_path / "secret")), made.ask(2, fork=True)]
        assert [isinstance(one, Failed) for one in said] == [landlock, filtered]
        assert all("PermissionError" in one.message for one in said if isinstance(one, Failed))


async def test_a_child_whose_worker_is_another_process_does_nothing(tmp_path: Path) -> None:
    with forked(tmp_path, f"{__name__}:Curious", parent=os.getppid()) as made:
        assert made.wait() == 1
        assert made.line.recv(9) == b""


def test_a_limit_is_never_above_that_of_the_worker(tmp_path: Path) -> None:
    if (pid := os.fork()) == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
            child.set_limits(1 << 40, 1_000)
            assert resource.getrlimit(resource.RLIMIT_FSIZE) == (500, 500)
            assert resource.getrlimit(resource.RLIMIT_DATA) == (1 << 40, 1 << 40)
            child.set_limits(1 << 39, 400)
            assert resource.getrlimit(resource.RLIMIT_FSIZE) == (400, 400)
            os._exit(0)
        finally:
            os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

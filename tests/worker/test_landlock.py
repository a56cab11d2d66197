"""What is left to a thread that restricted itself: other threads of this process are not held."""

from __future__ import annotations

import errno
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mediamill.worker import landlock
from mediamill.worker.landlock import Allowed, landlock_version, restrict

pytestmark = [
    pytest.mark.spec("C26"),
    pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock"),
]
needs_ports = pytest.mark.skipif(landlock_version() < 4, reason="this kernel's Landlock knows no ports")
needs_scopes = pytest.mark.skipif(landlock_version() < 6, reason="this kernel's Landlock knows no scopes")


def said_of(allowed: Allowed, attempts: dict[str, Callable[[], Any]]) -> dict[str, str]:
    """What comes of each in a thread that has restricted itself; the thread ends with it."""

    def attempt_all() -> dict[str, str]:
        restrict(allowed)
        return {name: _said(attempt) for name, attempt in attempts.items()}

    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    with ThreadPoolExecutor(max_workers=1) as thread:
        found = thread.submit(attempt_all).result()
    assert len(os.listdir("/proc/self/fd")) <= before, "the rules are not left open"  # noqa: PTH208
    return found


def _said(attempt: Callable[[], Any]) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "done"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("read", "run", "write", "other"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "file").write_text("x")
        shutil.copy2("/bin/true", tmp_path / name / "true")
    return tmp_path


def test_each_folder_is_read_run_or_written_as_it_was_allowed_to(place: Path) -> None:
    loader = map(Path, ("/lib", "/lib64", "/usr/lib"))
    run = [place / "run", *loader]
    allowed = Allowed([place / "read", place / "missing"], run, [place / "write"], [Path("/dev/null")])

    def start(folder: str) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                os.execv(place / folder / "true", ["true"])
            except OSError as error:
                os._exit(error.errno or 1)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code == errno.EACCES:
            raise OSError(code, "no")

    attempts: dict[str, Callable[[], Any]] = {}
    for name in ("read", "run", "write", "other"):
        folder = place / name
        attempts |= {
            f"{name}: read": (folder / "file").read_text,
            f"{name}: list": lambda at=folder: [*at.iterdir()],  # type: ignore[misc]
            f"{name}: write": lambda at=folder: (at / "file").open("a").close(),  # type: ignore[misc]
            f"{name}: truncate": lambda at=folder: os.truncate(at / "file", 0),  # type: ignore[misc]
            f"{name}: make": lambda at=folder: (at / "new").touch(),  # type: ignore[misc]
            f"{name}: make folder": lambda at=folder: (at / "folder").mkdir(),  # type: ignore[misc]
            f"{name}: link": lambda at=folder: (at / "link").symlink_to("file"),  # type: ignore[misc]
            f"{name}: pipe": lambda at=folder: os.mkfifo(at / "pipe"),  # type: ignore[misc]
            f"{name}: device": lambda at=folder: os.mknod(at / "device", 0o20600, os.makedev(1, 3)),  # type: ignore[misc]
            f"{name}: move": lambda at=folder: (at / "deep").rename(at / "moved"),  # type: ignore[misc]
            f"{name}: remove": lambda at=folder: (at / "file").unlink(),  # type: ignore[misc]
        }
    attempts |= {
        "read: move in": lambda: (place / "write" / "true").rename(place / "read" / "taken"),
        "null: write": lambda: Path("/dev/null").write_text("x"),
        "null: read": lambda: Path("/dev/null").read_text(),
        "zero: read": lambda: Path("/dev/zero").open().close(),
        "run: start": lambda: start("run"),
        "read: start": lambda: start("read"),
        "write: start": lambda: start("write"),
    }
    said = said_of(allowed, attempts)
    able = {name for name, what in said.items() if what == "done"}
    writing = ("read", "list", "write", "truncate", "make", "make folder", "link", "pipe", "move", "remove")
    assert able == {
        *("read: read", "read: list", "run: read", "run: list", "run: start", "null: write", "null: read"),
        *(f"write: {what}" for what in writing),
    }
    assert set(said.values()) - {"done"} <= {"EACCES", "EXDEV", "EPERM"}


def test_a_file_may_be_allowed_by_itself(place: Path) -> None:
    allowed = Allowed(read=[place / "read" / "file"], write=[place / "write" / "file"])
    attempts: dict[str, Callable[[], Any]] = {
        "read": (place / "read" / "file").read_text,
        "read the neighbour": (place / "read" / "true").read_bytes,
        "list": lambda: [*(place / "read").iterdir()],
        "write": lambda: (place / "write" / "file").write_text("y"),
        "write to what is read": lambda: (place / "read" / "file").write_text("y"),
    }
    assert said_of(allowed, attempts) == {
        **{"read": "done", "read the neighbour": "EACCES", "list": "EACCES", "write": "done"},
        "write to what is read": "EACCES",
    }


@needs_ports
def test_only_the_named_ports_are_connected_to_and_none_is_listened_at() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:

        def connect(to: socket.socket) -> None:
            with socket.create_connection(to.getsockname(), timeout=30):
                pass

        def listen() -> None:
            with socket.create_server(("127.0.0.1", 0)):
                pass

        attempts = {"one": lambda: connect(one), "two": lambda: connect(two), "listen": listen}
        allowed = Allowed(connect=[one.getsockname()[1]])
        assert said_of(allowed, attempts) == {"one": "done", "two": "EACCES", "listen": "EACCES"}


@needs_scopes
def test_neither_processes_nor_nameless_sockets_outside_are_reached(tmp_path: Path) -> None:
    name = f"\0mediamill-{os.getpid()}-{tmp_path.name}"
    with (
        subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as other,
        socket.socket(socket.AF_UNIX) as listening,
        socket.socket(socket.AF_UNIX) as asking,
    ):
        listening.bind(name)
        listening.listen()
        attempts: dict[str, Callable[[], Any]] = {
            "signal": lambda: os.kill(other.pid, signal.SIGCONT),
            "itself": lambda: os.kill(os.getpid(), 0),
            "socket": lambda: asking.connect(name),
        }
        assert said_of(Allowed(), attempts) == {"signal": "EPERM", "itself": "done", "socket": "EPERM"}
        other.kill()


def test_what_the_kernel_refuses_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "_CREATE_RULESET", 0x7FFF)  # no such call
    assert landlock_version() == 0, "it is switched off, or the kernel is too old"
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    with pytest.raises(OSError, match="Landlock: ") as refused:
        restrict(Allowed())
    assert refused.value.errno == errno.ENOSYS
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_of_an_unknown_machine_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "sparc64")
    assert landlock_version() == 0
    monkeypatch.undo()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert landlock_version() == 0

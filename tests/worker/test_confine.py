"""Children are confined: no network, no writes outside their folder, whoever tries and however."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.worker import seccomp
from mediamill.worker.confine import told
from mediamill.worker.landlock import landlock_version
from mediamill.worker.sandbox import Sandbox, SandboxJob
from tests.worker.harness import GENEROUS, everything_in

needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
needs_seccomp = pytest.mark.skipif(not seccomp.is_available(), reason="no filter on system calls here")

# A thread that the constructor started, as libraries do, tries as well; "program" is a process of its own.
PLUGIN = """
import ctypes, os, queue, socket, subprocess, sys, tempfile, threading
from pathlib import Path
from mediamill.processors.contract import ProcessorOutput

class Curious:
    network = False

    def __init__(self, mime_types=(), timeout_seconds=0):
        self.asked, self.told = queue.Queue(), queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            self.told.put(attempt(*self.asked.get()))

    def process(self, given):
        do, target, who = given.payload["do"], given.payload.get("target"), given.payload.get("who", "child")
        if target is None:
            target = str(given.folder / "own.txt")
        if who == "thread":
            self.asked.put((do, target))
            said = self.told.get()
        elif who == "program":
            code = f"import sys; sys.path[:] = {sys.path!r}; import curious; print(curious.attempt({do!r}, {target!r}))"
            said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        else:
            said = attempt(do, target)
        return ProcessorOutput({"said": said, "temporary": tempfile.gettempdir()})

class Connected(Curious):
    network = True

def attempt(do, target):
    try:
        return str(ACTS[do](target))
    except OSError as error:
        return type(error).__name__

def connect(target):
    with socket.create_connection(("127.0.0.1", int(target)), timeout=20) as link:
        return link.recv(5).decode()

def connect_unix(target):
    with socket.socket(socket.AF_UNIX) as link:
        return link.connect(target)

def call(number):
    def act(_):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(number, *[ctypes.c_ulong(0)] * 6) < 0:
            raise OSError(ctypes.get_errno(), "refused")
    return act

def write_through_link(target):
    link = Path(tempfile.mkdtemp()) / "link"
    link.symlink_to(target)
    return (link / "new.txt").write_text("x")

ACTS = {
    "connect": connect,
    "connect_unix": connect_unix,
    "pair": lambda _: [ours.send(b"x") for ours, theirs in [socket.socketpair()]][0],
    "read": lambda target: Path(target).read_text(),
    "write": lambda target: Path(target).write_text("x"),
    "truncate": lambda target: os.truncate(target, 0),
    "unlink": lambda target: Path(target).unlink(),
    "rename": lambda target: Path(target).rename(target + ".moved"),
    "hard_link": lambda target: os.link(target, Path(tempfile.gettempdir()) / "linked"),
    "write_through_link": write_through_link,
    "make_folder": lambda target: Path(target, "new").mkdir(),
    "temporary_file": lambda _: tempfile.NamedTemporaryFile().write(b"x"),
    "signal": lambda target: os.kill(int(target), 0),
    "spy": lambda target: Path("/proc", target, "mem").open("rb").close(),
    "ptrace": call(101 if os.uname().machine == "x86_64" else 117),
    "io_uring": call(425),
}
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "plugins"
    info = folder / "curious-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: curious\nVersion: 1.0\n")
    points = "[mediamill.processors]\ncurious = curious:Curious\nconnected = curious:Connected\n"
    (info / "entry_points.txt").write_text(points)
    (folder / "curious.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


@pytest.fixture
def server() -> Iterator[int]:
    """The port of a server that greets whoever comes, as far as its backlog goes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


async def ask(tmp_path: Path, *asked: dict[str, Any], processor: str = "curious") -> list[str]:
    sandbox = Sandbox(processor, size=1, limits=GENEROUS, scratch=tmp_path / "scratch")
    await sandbox.start()
    try:
        return [str((await sandbox.run(SandboxJob(payload=each))).result["said"]) for each in asked]
    finally:
        await sandbox.close()


def targets(tmp_path: Path) -> tuple[Path, Path]:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "source.txt").write_text("source")
    return outside, outside / "source.txt"


@needs_landlock
@pytest.mark.spec("C26")
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("who", ["child", "thread", "program"])
async def test_a_processor_reads_its_source_but_writes_nowhere_outside(tmp_path: Path, who: str) -> None:
    outside, source = targets(tmp_path)
    wishes = {
        "read": source,
        "write": outside / "new.txt",
        "truncate": source,
        "unlink": source,
        "rename": source,
        "hard_link": source,
        "write_through_link": outside,
        "make_folder": tmp_path,
    }
    if who == "program":
        wishes = {name: wishes[name] for name in ("read", "write", "unlink")}
    asked = [{"do": do, "target": str(target), "who": who} for do, target in wishes.items()]
    read, *refused = await ask(tmp_path, *asked)
    assert read == "source"
    assert set(refused) <= {"PermissionError", "OSError"}, dict(zip(wishes, [read, *refused], strict=True))
    assert everything_in(outside) == [source]
    assert source.read_text() == "source"
    assert {each.name for each in everything_in(tmp_path)} == {"plugins", "outside", "scratch"}


@needs_landlock
@pytest.mark.usefixtures("plugin")
async def test_a_processor_writes_in_its_folder_and_puts_temporary_files_there(tmp_path: Path) -> None:
    said = await ask(
        tmp_path,
        {"do": "write"},
        {"do": "write", "target": "/dev/null"},
        {"do": "temporary_file"},
        {"do": "pair"},
    )
    assert said == ["1", "1", "1", "1"]
    assert everything_in(tmp_path / "scratch") == []


@needs_seccomp
@pytest.mark.spec("C26")
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("who", ["child", "thread", "program"])
async def test_a_processor_has_no_network(tmp_path: Path, server: int, who: str) -> None:
    asked = [
        {"do": "connect", "target": str(server), "who": who},
        {"do": "connect_unix", "target": str(tmp_path / "socket"), "who": who},
        {"do": "ptrace", "who": who},
        {"do": "io_uring", "who": who},
    ]
    assert await ask(tmp_path, *asked) == ["PermissionError"] * 4


@pytest.mark.spec("C26")
@pytest.mark.usefixtures("plugin")
async def test_a_processor_that_declares_the_network_has_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        import threading

        def greet() -> None:
            link, _ = listening.accept()
            with link:
                link.sendall(b"hello")

        greeting = threading.Thread(target=greet, daemon=True)
        greeting.start()
        port = str(listening.getsockname()[1])
        said = await ask(
            tmp_path,
            {"do": "connect", "target": port},
            {"do": "ptrace"},
            processor="connected",
        )
        greeting.join(30)
    assert said == ["hello", "PermissionError"] if seccomp.is_available() else said[0] == "hello"


@pytest.mark.skipif(landlock_version() < 6, reason="signals are confined since Landlock 6")
@pytest.mark.usefixtures("plugin")
async def test_a_processor_reaches_no_process_outside(tmp_path: Path) -> None:
    me = str(os.getpid())
    said = await ask(tmp_path, {"do": "signal", "target": me}, {"do": "spy", "target": me})
    assert said == ["PermissionError", "PermissionError"]


def test_what_is_in_force_is_told_in_words() -> None:
    words = told()
    assert ("no network unless declared" in words) == seccomp.is_available()
    assert (f"Landlock {landlock_version()}" in words) == bool(landlock_version())

"""How a child hangs together with its worker: its line, its voice, its session, and nothing left open."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import msgspec
import pytest

from mediamill.processors.contract import CALLER, NO_CALLER
from mediamill.processors.models.calls import ModelServer
from mediamill.settings import Settings
from mediamill.worker import spawn
from mediamill.worker.caller import Setup
from mediamill.worker.process_tree import MARK
from mediamill.worker.spawn import ChildPlan, Limits, start_child
from mediamill.worker.start_caller import start_caller

PLAN = ChildPlan("p", "a:B", "m.1", Limits(7, 64 << 20), 30, Path("/scratch/1"))


def opened() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only


CHILD = """
import os, sys
link = int(sys.argv[1])
told = [os.environ["MEDIAMILL_SANDBOX"], os.getsid(0) == os.getpid(), os.read(0, 9)]
os.write(1, b"out")
os.write(2, b"err")
os.write(link, repr(told).encode() + os.read(link, 4))
"""


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the place of a child: it says on its line what it has, and then what it reads there."""

    def command(_plan: ChildPlan, descriptor: int, _settings: Settings) -> list[str]:
        return [sys.executable, "-S", "-c", CHILD, str(descriptor)]

    monkeypatch.setattr(spawn, "_command", command)


@pytest.mark.parametrize("asks", [False, True])
def test_a_child_has_a_line_a_voice_and_a_session_of_its_own(
    other: None, monkeypatch: pytest.MonkeyPatch, asks: bool
) -> None:
    if asks:
        monkeypatch.setenv("MEDIAMILL_VISION", "openai")
        monkeypatch.setenv("MEDIAMILL_OPENAI_URL", "http://127.0.0.1:9/v1")
    before = opened()
    started = start_child(PLAN)
    assert not started.link.getblocking()
    assert not os.get_blocking(started.noise)
    started.link.setblocking(True)
    started.link.settimeout(60)
    os.set_blocking(started.noise, True)
    started.link.sendall(b"four")
    said = b""
    while not said.endswith(b"four"):
        said += started.link.recv(999) or pytest.fail(f"it ended: {said!r}")
    assert said == b"['m.1', True, b'']four", "its mark, its session, and nothing to read"
    noise = b""
    while more := os.read(started.noise, 999):
        noise += more
    assert noise == b"outerr"
    assert started.process.wait(60) == 0
    assert (started.callers is not None) is asks
    assert opened() == before + 2 + asks, "the child's ends are closed here"
    for end in (started.link, started.callers):
        if end is not None:
            end.close()
    os.close(started.noise)
    assert opened() == before


@pytest.mark.parametrize("asks", [False, True])
def test_a_child_that_cannot_be_started_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asks: bool
) -> None:
    if asks:
        monkeypatch.setenv("MEDIAMILL_VISION", "openai")
        monkeypatch.setenv("MEDIAMILL_OPENAI_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nowhere"))
    before = opened()
    with pytest.raises(FileNotFoundError):
        start_child(PLAN)
    assert opened() == before


def test_the_line_to_a_caller_is_named_in_the_environment() -> None:
    class End:
        def fileno(self) -> int:
            return 77

    found = spawn._environment(PLAN, End(), Settings())  # type: ignore[arg-type]
    assert (found[CALLER], found[MARK]) == ("77", "m.1")
    assert spawn._environment(PLAN, None, Settings())[CALLER] == NO_CALLER


def test_a_caller_hears_what_it_needs_on_its_input_and_has_no_secret_for_others_to_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/words\nenv > {tmp_path}/env\ncat > {tmp_path}/setup\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    for name in ("HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE", "ssl_cert_dir", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "the way")
    for name in ("AWS_SECRET_ACCESS_KEY", "FTP_PROXY", "MEDIAMILL_OPENAI_KEY"):
        monkeypatch.setenv(name, "s3cret")
    for name in ("PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH"):
        monkeypatch.setenv(name, "for python")
    server = ModelServer("http://h/v1", "Authorization", "Bearer ", "key")
    before = opened()
    ours, callers = socket.socketpair()
    with ours:
        process = start_caller(callers, iter([server]))
        assert callers.fileno() == -1, "it is the caller's now"
        assert process.wait(60) == 0
    assert opened() == before
    assert (tmp_path / "words").read_text() == "-P -m mediamill.worker.caller\n"
    setup = msgspec.msgpack.decode((tmp_path / "setup").read_bytes(), type=Setup)
    assert (setup.parent, setup.servers) == (os.getpid(), [server])
    assert set(setup.environment.values()) == {"the way"}
    assert len(setup.environment) == 6
    environment = (tmp_path / "env").read_text()
    assert environment.count("=for python") == 3
    assert "s3cret" not in environment
    assert "the way" not in environment

"""What a caller makes of each call of its child, and which files and ports are left to it."""

from __future__ import annotations

import os
import resource
import socket
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mediamill
from mediamill.processors.models.calls import (
    ENVELOPE_BYTES,
    HEADER,
    PLACEHOLDER,
    Call,
    CallFailed,
    ModelServer,
    Reply,
    frame,
)
from mediamill.worker import caller, seccomp
from mediamill.worker.call_rules import SHORTEST_SECRET, CallRules, hide_key
from mediamill.worker.caller import hide_memory, ports_of, serve
from mediamill.worker.landlock import Allowed

pytestmark = pytest.mark.spec("C26")
KEY = "sk-very-secret-0123456789"
SERVER = ModelServer("http://h:9/v1", "Authorization", "Bearer ", KEY)


class Played:
    """In the place of the network."""

    def __init__(self, end: Reply | CallFailed) -> None:
        self.end = end
        self.made: list[tuple[Call, bytes]] = []

    def perform(self, call: Call, body: list[bytes]) -> Reply | CallFailed:
        self.made.append((call, b"".join(body)))
        return self.end


@pytest.fixture
def line() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The child's end, and the caller's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(30)
        theirs.settimeout(30)
        yield ours, theirs


def ask(line: tuple[socket.socket, socket.socket], played: Any, url: str, body: bytes = b"") -> bytes:
    """The answer as it comes to the child."""
    ours, theirs = line
    ours.sendall(frame(Call("POST", url, [("authorization", "Bearer guessed")], len(body), 9)) + body)
    assert serve(theirs, CallRules([SERVER]), played)
    size = HEADER.unpack(ours.recv(HEADER.size, socket.MSG_WAITALL))[0]
    return ours.recv(size, socket.MSG_WAITALL)


def test_a_call_is_made_with_the_key_and_answered_without_it(
    line: tuple[socket.socket, socket.socket],
) -> None:
    played = Played(Reply(200, [("x", f"a {KEY}")], f"b {KEY}".encode(), 0.5))
    answer = ask(line, played, "http://h:9/v1/chat", b"body")
    ((made, body),) = played.made
    assert (made.url, made.headers, body) == (
        *("http://h:9/v1/chat", [("Authorization", f"Bearer {KEY}")]),
        b"body",
    )
    assert KEY.encode() not in answer
    assert answer.count(PLACEHOLDER.encode()) == 2
    played.end = CallFailed("transport", f"{KEY} was refused")
    assert PLACEHOLDER.encode() in ask(line, played, "http://h:9/v1/chat")


def test_a_call_that_is_not_allowed_is_not_made(line: tuple[socket.socket, socket.socket]) -> None:
    played = Played(CallFailed("transport", "made"))
    assert b"forbidden" in ask(line, played, "http://h:9/admin", b"body")
    assert played.made == []


def test_a_child_that_is_gone_ends_its_caller(line: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = line
    played: Any = Played(CallFailed("transport", "made"))
    ours.sendall(frame(Call("POST", "http://h:9/v1/chat", [], 9, 9)) + b"half")
    ours.shutdown(socket.SHUT_WR)
    assert not serve(theirs, CallRules([SERVER]), played)
    assert not serve(theirs, CallRules([SERVER]), played)
    assert played.made == []


def test_a_call_that_is_too_large_ends_the_caller(line: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = line
    ours.sendall(HEADER.pack(ENVELOPE_BYTES + 1))
    with pytest.raises(ValueError, match="at most"):
        serve(theirs, CallRules([SERVER]), Played(CallFailed("transport", "")))  # type: ignore[arg-type]


def test_a_word_that_is_too_short_for_a_secret_is_left_in_answers() -> None:
    for length, hidden in ((SHORTEST_SECRET - 1, False), (SHORTEST_SECRET, True)):
        key = "k" * length
        found = hide_key(Reply(200, [("a", key)], key.encode(), 0), key)
        assert isinstance(found, Reply)
        assert (found.body == PLACEHOLDER.encode(), found.headers == [("a", PLACEHOLDER)]) == (hidden, hidden)


@pytest.mark.parametrize(
    ("urls", "proxies", "ports"),
    [
        (["http://h/v1"], {}, {80}),
        (["https://h/v1", "http://h:11434"], {}, {443, 11434}),
        ([], {"http_proxy": "http://p:3128", "no_proxy": "x:7"}, {3128}),
        ([], {"https_proxy": "p:8080"}, {8080}),
        ([], {"https_proxy": "https://p"}, {443}),
        ([], {"all_proxy": "socks5://p"}, {1080}),
        ([], {"all_proxy": "socks5h://p"}, {1080}),
        ([], {"ftp_proxy": "http://p:2121"}, set()),
    ],
)
def test_only_ports_of_servers_proxies_and_names_are_connected_to(
    monkeypatch: pytest.MonkeyPatch, urls: list[str], proxies: dict[str, str], ports: set[int]
) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    assert ports_of([ModelServer(url) for url in urls]) == ports | {53}


READ = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/ld.so.cache", "/dev/urandom"),
    *("/etc/ssl/certs/a.pem", "/etc/pki/tls/a.pem", "/etc/ca-certificates/a", "/own/ca.pem", "/own/certs/a"),
    *("/usr/share/ca-certificates/a", "/usr/local/share/ca-certificates/a"),
    *("/lib/a.so", "/lib64/a.so", "/usr/lib/a.so", "/usr/lib64/a.so", "/usr/local/lib/a.so"),
    *(f"{sysconfig.get_paths()[name]}/a" for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    *(mediamill.__file__, str(Path(caller.__file__))),
)
NEVER = (
    *(
        "/etc/passwd",
        "/etc/shadow",
        *(f"/{home}/a" for home in ("root", "home")),
        "/own/key.pem",
        "/proc/1/environ",
        "/proc/self/mem",
    ),
    *("/var/lib/a", "/tmp/a", "/usr/share/a", "/bin/sh", "/dev/sda", "/dev/random", "/run/secrets/a"),
)


@pytest.mark.parametrize(("landlock", "filtered"), [(7, True), (0, True), (7, False)])
def test_a_caller_reads_what_names_and_certificates_need_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, landlock: int, filtered: bool
) -> None:
    restricted: list[Allowed] = []
    filters: list[dict[str, Any]] = []
    monkeypatch.setenv("SSL_CERT_FILE", "/own/ca.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "/own/certs")
    monkeypatch.setattr(caller, "restrict", restricted.append)
    monkeypatch.setattr(caller, "landlock_version", lambda: landlock)
    monkeypatch.setattr(seccomp, "is_available", lambda: filtered)
    monkeypatch.setattr(seccomp, "filter_calls", lambda **more: filters.append(more))
    caller.confine([53, 443])
    assert filters == ([{"families": (socket.AF_INET, socket.AF_INET6)}] if filtered else [])
    assert bool(restricted) is bool(landlock)
    for allowed in restricted:
        read = [*allowed.read]
        assert [path for path in READ if not any(Path(path).is_relative_to(each) for each in read)] == []
        assert [path for path in NEVER if any(Path(path).is_relative_to(each) for each in read)] == []
        assert [[*each] for each in (allowed.connect, allowed.write, allowed.run, allowed.devices)] == [
            *([53, 443], [], [], []),
        ]


def test_a_caller_leaves_no_core_and_shows_its_memory_to_nobody() -> None:
    if (pid := os.fork()) == 0:
        try:
            hide_memory()
            import ctypes

            hidden = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0  # PR_GET_DUMPABLE
            os._exit(0 if hidden and resource.getrlimit(resource.RLIMIT_CORE) == (0, 0) else 1)
        finally:
            os._exit(70)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_caller_ends_when_its_child_hangs_up_in_the_middle_of_a_call() -> None:
    ours, theirs = socket.socketpair()
    if (pid := os.fork()) == 0:
        try:
            ours.close()
            caller._exit_with(theirs)
        finally:
            os._exit(70)
    theirs.close()
    ours.sendall(b"a call is no hang-up")
    ours.close()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0

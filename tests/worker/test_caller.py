"""The caller with a real child-like process, real servers on loopback, and real confinement."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.processors.contract import CALLER, NO_CALLER
from mediamill.processors.models import calls
from mediamill.processors.models.calls import (
    ENVELOPE_BYTES,
    HEADER,
    LARGEST_REQUEST_BYTES,
    PLACEHOLDER,
    Call,
    CallerCalls,
    CallFailed,
    ModelServer,
    Reply,
)
from mediamill.processors.models.servers import model_servers, placeholder_keys
from mediamill.settings import Settings
from mediamill.testing import model_server
from mediamill.testing.model_server import SILENT, Seen
from mediamill.testing.model_server import ModelServer as HttpServer
from mediamill.worker import seccomp
from mediamill.worker.failures import ProcessorFailedError
from mediamill.worker.landlock import landlock_version
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob
from mediamill.worker.start_caller import start_caller

PHOTO = Path(__file__).parents[2] / "samples" / "photo.jpg"
KEY = "sk-very-secret-0123456789"
needs_landlock = pytest.mark.skipif(not landlock_version(), reason="this kernel has no Landlock")
needs_ports = pytest.mark.skipif(landlock_version() < 4, reason="this kernel's Landlock knows no ports")
needs_seccomp = pytest.mark.skipif(not seccomp.is_available(), reason="no filter on system calls here")
pytestmark = pytest.mark.spec("C26")


def echo(seen: Seen) -> model_server.Reply:
    """A chat completion that repeats the key, as some servers do, and the size of what came."""
    said = f"{seen.headers.get('authorization')} {seen.body_bytes} {seen.headers.get('x-number')}"
    told = {"choices": [{"message": {"content": said}}]}
    return model_server.Reply.json(told, headers={"X-Repeated": str(seen.headers.get("authorization"))})


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(echo) as server:
        yield server


@pytest.fixture
def victim() -> Iterator[HttpServer]:
    """Another server on loopback, such as mediamill's own."""
    with HttpServer(echo) as server:
        yield server


class Started:
    """A caller, and the calls that its child would make."""

    def __init__(self, *servers: ModelServer, paces: Path | None = None) -> None:
        self.sock, callers = socket.socketpair()
        self.process = start_caller(callers, servers, paces)
        self.calls = CallerCalls(self.sock)

    def ask(self, url: str, body: bytes = b"", patience_seconds: float = 30, **headers: str) -> Any:
        sent = [(name.replace("_", "-"), value) for name, value in headers.items()]
        return self.calls.perform(Call("POST", url, sent, len(body), patience_seconds), [body])


@pytest.fixture
def caller(server: HttpServer) -> Iterator[Started]:
    started = Started(ModelServer(f"{server.url}/v1", "Authorization", "Bearer ", KEY))
    yield started
    started.sock.close()
    started.process.wait(30)


def run_python(code: str, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **more,
    )


def wait_until(holds: Callable[[], object]) -> None:
    limit = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


CHILD = """
import socket, sys
from mediamill.processors.models.openai_text import OpenAiText
from mediamill.settings import Settings
from mediamill.worker import seccomp

if seccomp.is_available():
    seccomp.filter_calls()
try:
    socket.socket()
    print("a socket")
except PermissionError:
    print("no socket")
print(OpenAiText(Settings()).complete("Repeat the key.", "please"), flush=True)
sys.stdin.read()
"""


@needs_seccomp
def test_a_process_without_network_asks_a_model_and_never_has_the_key(server: HttpServer) -> None:
    settings = Settings(openai_url=f"{server.url}/v1", openai_key=KEY, model_timeout_seconds=60)
    sock, callers = socket.socketpair()
    process = start_caller(callers, model_servers(settings))
    environment = {
        **os.environ,
        **placeholder_keys(settings),
        "MEDIAMILL_OPENAI_URL": f"{server.url}/v1",
        CALLER: str(sock.fileno()),
    }
    with sock, run_python(CHILD, env=environment, pass_fds=(sock.fileno(),)) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "no socket\n"
        said = child.stdout.readline()
        assert said.startswith(f"Bearer {PLACEHOLDER} ")
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
        assert PLACEHOLDER.encode() in Path(f"/proc/{child.pid}/environ").read_bytes()
        assert PLACEHOLDER.encode() in memory_of(child.pid)
        assert KEY.encode() not in memory_of(child.pid)
        child.kill()
    assert process.wait(30) == 0


def memory_of(pid: int) -> bytes:
    """All that the process has written; its environment and stack too."""
    found = bytearray()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights, *_ = line.split()
            if rights.startswith("rw"):
                start, end = (int(each, 16) for each in span.split("-"))
                memory.seek(start)
                found += memory.read(end - start) or b""
    return bytes(found)


def test_the_key_is_neither_on_the_command_line_nor_in_the_environment_of_the_caller(
    server: HttpServer, caller: Started
) -> None:
    assert caller.ask(f"{server.url}/v1/chat").status == 200
    for name in ("cmdline", "environ"):
        try:
            assert KEY.encode() not in Path(f"/proc/{caller.process.pid}/{name}").read_bytes()
        except PermissionError:
            assert os.getuid() != 0  # the memory is closed to this user


def test_a_server_of_this_machine_that_is_not_configured_is_not_called(
    server: HttpServer, victim: HttpServer, caller: Started
) -> None:
    for url in (f"{victim.url}/api/tokens", f"{server.url}/api/tokens", f"{server.url}/v1/../api/tokens"):
        refused = caller.ask(url, b'{"scope": "admin"}')
        assert isinstance(refused, CallFailed)
        assert refused.kind == "forbidden"
    assert server.seen == victim.seen == []
    assert caller.ask(f"{server.url}/v1/chat").status == 200  # it goes on


@pytest.mark.spec("C31")
def test_a_server_that_refused_others_is_left_alone_as_a_shared_file_says(
    server: HttpServer, victim: HttpServer, tmp_path: Path
) -> None:
    server.then(model_server.rate_limited(60))
    servers = (ModelServer(f"{server.url}/v1"), ModelServer(f"{victim.url}/v1"))
    one, other = (Started(*servers, paces=tmp_path / "paces") for _ in range(2))
    with one.sock, other.sock:
        assert one.ask(f"{server.url}/v1/chat").status == 429
        left = other.ask(f"{server.url}/v1/embeddings")
        assert (left.kind, len(server.seen)) == ("busy", 1)
        assert 50 < left.wait_seconds <= 60
        assert other.ask(f"{victim.url}/v1/chat").status == 200
    for started in (one, other):
        started.process.wait(30)


def test_a_redirect_is_not_followed(server: HttpServer, victim: HttpServer, caller: Started) -> None:
    elsewhere = {"Location": f"{victim.url}/api/tokens"}
    server.then(model_server.reply(model_server.Reply(status=307, headers=elsewhere)))
    answer = caller.ask(f"{server.url}/v1/chat")
    assert isinstance(answer, Reply)
    assert answer.status == 307
    assert victim.seen == []


def test_the_key_in_an_answer_is_hidden(server: HttpServer, caller: Started) -> None:
    answer = caller.ask(f"{server.url}/v1/chat", Authorization="Bearer another")
    assert dict(answer.headers)["x-repeated"] == f"Bearer {PLACEHOLDER}"
    assert KEY.encode() not in answer.body
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


def test_a_name_of_this_machine_is_looked_up(server: HttpServer) -> None:
    port = server.url.rpartition(":")[2]
    caller = Started(ModelServer(f"http://localhost:{port}/v1"))
    with caller.sock:
        assert caller.ask(f"http://localhost:{port}/v1/chat").status == 200
    caller.process.wait(30)


def test_a_large_body_arrives_and_one_that_is_too_large_is_not_sent(
    server: HttpServer, caller: Started
) -> None:
    assert caller.ask(f"{server.url}/v1/files", b"x" * (20 << 20)).status == 200
    assert server.seen[0].body_bytes == 20 << 20
    too_large = Call("POST", f"{server.url}/v1/files", [], LARGEST_REQUEST_BYTES + 1, 10)
    refused = caller.calls.perform(too_large, [])
    assert isinstance(refused, CallFailed)
    assert refused.kind == "request_too_large"
    assert caller.ask(f"{server.url}/v1/files").status == 200


def test_a_process_with_neither_network_nor_caller_says_why_it_cannot_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CALLER, NO_CALLER)
    calls._inherited_calls.cache_clear()
    try:
        refused = calls.open_calls().perform(Call("GET", "http://127.0.0.1:9/v1", [], 0, 10), [])
    finally:
        calls._inherited_calls.cache_clear()
    assert isinstance(refused, CallFailed)
    assert refused.kind == "no_caller"


def test_threads_get_their_own_answers(server: HttpServer, caller: Started) -> None:
    answers: dict[int, bytes] = {}

    def ask(number: int) -> None:
        answers[number] = caller.ask(f"{server.url}/v1/chat", x_number=str(number)).body

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(f' {number}"'.encode() in answers[number] for number in range(8))


@pytest.mark.parametrize(
    "garbage",
    [
        HEADER.pack(ENVELOPE_BYTES + 1),
        HEADER.pack(3) + b"\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n" * 10,
    ],
    ids=["too-large", "no-message", "http"],
)
def test_a_child_that_talks_nonsense_loses_its_caller(garbage: bytes) -> None:
    caller = Started()
    with caller.sock:
        caller.sock.sendall(garbage)
        caller.process.wait(30)
        refused = caller.ask("http://127.0.0.1:9/v1")
    assert isinstance(refused, CallFailed)
    assert refused.kind == "caller_gone"


def test_the_caller_ends_when_the_child_does_even_in_the_middle_of_a_call(server: HttpServer) -> None:
    caller = Started(ModelServer(f"{server.url}/v1"))
    server.always(SILENT)
    asking = threading.Thread(target=caller.ask, args=(f"{server.url}/v1/chat", b"", 600))
    asking.start()
    wait_until(lambda: server.seen)
    assert caller.process.poll() is None
    caller.sock.shutdown(socket.SHUT_RDWR)  # as when the last process that has it dies
    assert caller.process.wait(30) == 0
    asking.join()
    caller.sock.close()


WORKER = """
import socket, subprocess, sys
from mediamill.worker.start_caller import start_caller

sock, callers = socket.socketpair()
process = start_caller(callers, [])
child = subprocess.Popen(["sleep", "600"], pass_fds=(sock.fileno(),), stdout=subprocess.DEVNULL)
print(process.pid, child.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends with the child")
def test_the_caller_ends_when_the_worker_is_killed() -> None:
    with run_python(WORKER) as worker:
        assert worker.stdout is not None
        caller, child = map(int, worker.stdout.readline().split())
        try:
            wait_until(lambda: "caller" in Path(f"/proc/{caller}/cmdline").read_text())
            worker.kill()
            wait_until(lambda: is_dead(caller))
            assert not is_dead(child)  # which still has the socket
        finally:
            os.kill(child, signal.SIGKILL)


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


CONFINED = """
import os, socket, ssl, sys
from pathlib import Path
from mediamill.worker.caller import confine

allowed, other, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])

def connect(port, *kind):
    with socket.socket(*kind) as link:
        link.connect(("127.0.0.1", port))
        return "connected"

def listen():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

ATTEMPTS = {
    "connect": lambda: connect(allowed),
    "resolve": lambda: bool(socket.getaddrinfo("localhost", allowed)),
    "certificates": lambda: bool(ssl.create_default_context()),
    "connect_other": lambda: connect(other),
    "connect_multipath": lambda: connect(other, socket.AF_INET, socket.SOCK_STREAM, 262),
    "raw": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 6),
    "unix": lambda: socket.socket(socket.AF_UNIX),
    "unix_datagram": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
    "listen": listen,
    "read": lambda: (folder / "secret.txt").read_text(),
    "passwords": lambda: Path("/etc/passwd").read_text(),
    "list": lambda: os.listdir(folder),
    "write": lambda: (folder / "new.txt").write_text("x"),
    "run": lambda: os.posix_spawn("/bin/true", ["true"], {}),
    "spy": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
    "signal": lambda: os.kill(os.getppid(), 0),
}
confine([allowed, 53])
for name, attempt in ATTEMPTS.items():
    try:
        print(name, attempt())
    except OSError as error:
        print(name, type(error).__name__)
"""


@needs_landlock
@needs_ports
@needs_seccomp
def test_the_caller_reads_no_files_and_connects_nowhere_else(
    server: HttpServer, victim: HttpServer, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    ports = [each.url.rpartition(":")[2] for each in (server, victim)]
    with run_python(CONFINED, *ports, str(tmp_path)) as confined:
        said = dict(line.split() for line in confined.communicate(timeout=60)[0].splitlines())
    able = {"connect": "connected", "resolve": "True", "certificates": "True"}
    assert {name: said.pop(name) for name in able} == able
    assert len(said) == 13
    assert set(said.values()) == {"PermissionError"}, said
    assert [each.name for each in tmp_path.iterdir()] == ["secret.txt"]


async def test_a_real_child_asks_a_model_server_without_having_the_network_or_the_key(
    server: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_VISION", "openai")
    monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"{server.url}/v1")
    monkeypatch.setenv("MEDIAMILL_OPENAI_KEY", KEY)
    limits = Limits(timeout_seconds=60, memory_bytes=2 << 30)
    sandbox = Sandbox("image", size=1, spare=0, limits=limits, scratch=tmp_path / "scratch")
    await sandbox.start()
    try:
        done = await sandbox.run(SandboxJob(mime_type="image/jpeg", file=PHOTO))
        (child,) = sandbox._children
        caller = child._caller
        assert caller is not None
        environment = (Path("/proc") / str(child.pid) / "environ").read_bytes()
    finally:
        await sandbox.close()
    assert "Bearer" in str(done.result["content"])  # the server repeats what it was shown
    assert KEY not in str(done.result)
    assert KEY.encode() not in environment
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    await asyncio.to_thread(caller.wait, 30)


async def test_a_child_whose_caller_died_is_replaced(
    server: HttpServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_VISION", "openai")
    monkeypatch.setenv("MEDIAMILL_OPENAI_URL", f"{server.url}/v1")
    limits = Limits(timeout_seconds=60, memory_bytes=2 << 30)
    sandbox = Sandbox("image", size=1, spare=0, limits=limits, scratch=tmp_path / "scratch")
    await sandbox.start()
    try:
        await sandbox.run(SandboxJob(mime_type="image/jpeg", file=PHOTO))
        (child,) = sandbox._children
        assert child._caller is not None
        child._caller.kill()
        with pytest.raises(ProcessorFailedError, match="has ended"):
            await sandbox.run(SandboxJob(mime_type="image/jpeg", file=PHOTO))
        await sandbox.run(SandboxJob(mime_type="image/jpeg", file=PHOTO))
    finally:
        await sandbox.close()

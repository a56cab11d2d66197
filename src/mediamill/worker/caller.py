"""The caller: makes the calls to model servers for one child process, which decodes and has no network.

It never sees media: only what the child made of them. It has the keys, but reads no files, and connects only to
the ports of the configured servers. Started by start_caller.py as `python -m mediamill.worker.caller`; what it needs
to know comes through stdin, as command lines and environments can be read by other processes.
"""

from __future__ import annotations

import mediamill.worker.without_commands  # isort: split

import ctypes
import os
import resource
import select
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.request import getproxies

import httpx
import msgspec

import mediamill
from mediamill.processors.models.calls import (
    ENVELOPE_BYTES,
    Call,
    CallFailed,
    Calls,
    DirectCalls,
    ModelServer,
    Outcome,
    decode_call,
    frame,
    read_exactly,
    read_message,
)
from mediamill.processors.models.pace import Paces
from mediamill.worker import seccomp
from mediamill.worker.call_rules import CallRules, hide_key
from mediamill.worker.die_with_parent import die_with_parent
from mediamill.worker.landlock import Allowed, landlock_version, restrict

PR_SET_DUMPABLE = 4
DNS_PORT = 53
DEFAULT_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
RESOLVER_FILES = ("resolv.conf", "hosts", "nsswitch.conf", "host.conf", "gai.conf", "services", "protocols")
LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache")
CERTIFICATES = (
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
)


class Setup(msgspec.Struct, frozen=True):
    """From the worker, on stdin. `environment`: proxies and certificates, as the operator set them."""

    parent: int
    descriptor: int
    servers: list[ModelServer]
    environment: dict[str, str]
    paces: int  # a descriptor: when each server may be asked next


def main() -> None:
    """Make calls until the child is gone."""
    setup = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Setup)
    die_with_parent(setup.parent)
    hide_memory()
    os.environ.update(setup.environment)
    sock = socket.socket(fileno=setup.descriptor)
    rules, calls = CallRules(setup.servers), PacedCalls(Paces(setup.paces))
    os.close(setup.paces)
    confine(ports_of(setup.servers))
    threading.Thread(target=_exit_with, args=(sock,), daemon=True).start()
    while serve(sock, rules, calls):
        pass


class PacedCalls:
    """Calls that leave a server alone which refused somebody a moment ago."""

    def __init__(self, paces: Paces) -> None:
        self._paces, self._calls = paces, DirectCalls()

    def perform(self, call: Call, body: Iterable[bytes]) -> Outcome:
        """See Calls."""
        if wait := self._paces.take(call.url):
            return CallFailed("busy", "it was busy or unavailable a moment ago", wait_seconds=wait)
        began = time.time()
        outcome = self._calls.perform(call, body)
        wait = self._paces.learn(call.url, outcome, began)
        return msgspec.structs.replace(outcome, wait_seconds=wait)


def serve(sock: socket.socket, rules: CallRules, calls: Calls) -> bool:
    """One call; False when the child is gone."""
    message = read_message(sock, ENVELOPE_BYTES)
    if message is None:
        return False
    asked = decode_call(message)
    body = read_exactly(sock, asked.body_bytes)
    if body is None:
        return False
    applied = rules.apply(asked)
    if isinstance(applied, tuple):
        call, server = applied
        outcome = hide_key(calls.perform(call, [bytes(body)]), server.key)
    else:
        outcome = applied
    sock.sendall(frame(outcome))
    return True


def _exit_with(sock: socket.socket) -> None:
    """End the process when the child's end is closed, also in the middle of a call."""
    poll = select.poll()
    poll.register(sock, getattr(select, "POLLRDHUP", 0))  # a hang-up is always told
    poll.poll()
    os._exit(0)


def hide_memory() -> None:
    """The keys are in it: no core files, and no other process of this user may look."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def ports_of(servers: Iterable[ModelServer]) -> set[int]:
    """The TCP ports to connect to: of the servers, and of the proxies in the environment."""
    addresses = [server.url for server in servers]
    for scheme, address in getproxies().items():
        if scheme in ("http", "https", "all"):
            addresses.append(address if "://" in address else f"http://{address}")
    urls = [httpx.URL(address) for address in addresses]
    return {url.port or DEFAULT_PORTS.get(url.scheme, 80) for url in urls} | {DNS_PORT}


def confine(ports: Iterable[int]) -> None:
    """No file but code, certificates and what looking up names needs; no TCP but to these ports; no new process."""
    if landlock_version():
        restrict(Allowed(read=_readable(), connect=ports))
    if seccomp.is_available():
        seccomp.filter_calls(families=(socket.AF_INET, socket.AF_INET6))


def _readable() -> Iterator[Path]:
    paths = sysconfig.get_paths()
    yield from (Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    yield from map(Path, mediamill.__path__)
    yield from (Path("/etc", name) for name in RESOLVER_FILES)
    yield from map(Path, (*LIBRARIES, *CERTIFICATES))
    yield from (Path(os.environ[name]) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ)
    yield Path("/dev/urandom")


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)
    except BaseException as error:  # its text may hold a key
        print(f"the caller of model servers failed: {type(error).__name__}", file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)

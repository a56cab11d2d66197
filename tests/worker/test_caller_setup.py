"""What a caller may reach and read, decided before it is confined: ports, certificates, and the way to the servers."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from mediamill.processors.models.calls import ModelServer
from mediamill.worker.caller import _readable, ports_of

pytestmark = pytest.mark.spec("C26")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith("SSL_CERT_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("urls", "proxies", "ports"),
    [
        ([], {}, set()),
        (["http://a/v1"], {}, {80}),
        (["https://a"], {}, {443}),
        (["https://a:80", "http://b:11434/v1"], {}, {80, 11434}),
        (["https://a"], {"HTTPS_PROXY": "http://p"}, {443, 80}),
        (["https://a"], {"http_proxy": "p:3128", "no_proxy": "b:99"}, {443, 3128}),
        ([], {"ALL_PROXY": "socks5://p"}, {1080}),
        ([], {"all_proxy": "socks5h://p"}, {1080}),
        ([], {"all_proxy": "socks5h://p:9050"}, {9050}),
        ([], {"https_proxy": "https://p"}, {443}),
        ([], {"ftp_proxy": "http://p:21"}, set()),
    ],
)
def test_a_caller_connects_to_its_servers_their_proxies_and_name_servers(
    monkeypatch: pytest.MonkeyPatch, urls: list[str], proxies: dict[str, str], ports: set[int]
) -> None:
    for name, value in proxies.items():
        monkeypatch.setenv(name, value)
    assert ports_of(map(ModelServer, urls)) == ports | {53}


def test_a_caller_reads_code_certificates_and_what_names_are_looked_up_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = {str(path) for path in _readable()}
    assert {
        *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
        *("/etc/services", "/etc/protocols", "/dev/urandom"),
        *("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache"),
        *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/usr/share/ca-certificates"),
        "/usr/local/share/ca-certificates",
    } <= plain
    for module in (ssl, sys.modules["httpx"], sys.modules["mediamill"]):
        assert any(Path(module.__file__ or "").is_relative_to(path) for path in plain)
    for secret in ("/etc/passwd", "/etc/shadow", "/root/.ssh", "/proc/1/environ", "/tmp", "/home/somebody"):
        assert not any(Path(secret).is_relative_to(path) for path in plain), secret
    monkeypatch.setenv("SSL_CERT_FILE", "/own/authority.pem")
    monkeypatch.setenv("SSL_CERT_DIR", "/own/authorities")
    assert {str(path) for path in _readable()} - plain == {"/own/authority.pem", "/own/authorities"}


HIDDEN = """
import ctypes, resource
from mediamill.worker.caller import hide_memory
dumpable = lambda: ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
before = dumpable()
hide_memory()
print(before, dumpable(), *resource.getrlimit(resource.RLIMIT_CORE))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere memory is closed in other ways")
def test_nobody_looks_into_the_memory_of_a_caller() -> None:
    done = subprocess.run([sys.executable, "-c", HIDDEN], capture_output=True, check=True, timeout=60)
    assert done.stdout == b"1 0 0 0\n"

"""Network namespaces of their own for processes of a test: each sees this machine by one address, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pytest

_FIRST = 10 << 24 | 213 << 16  # 10.213.0.0/16, four addresses for each namespace


@dataclass(frozen=True, slots=True)
class Namespace:
    """`here`: this machine's address as seen from inside; `inside`: the words to run a command there with."""

    name: str
    here: str
    there: str

    @property
    def inside(self) -> tuple[str, ...]:
        return (_ip(), "netns", "exec", self.name)

    def cut(self) -> None:
        """As if the cable were pulled."""
        _run("link", "set", _outside(self.name), "down")

    def mend(self) -> None:
        _run("link", "set", _outside(self.name), "up")


def skip_unless_possible() -> None:
    """Skip the test where namespaces cannot be made."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the command ip")
    try:
        with namespaces(1):
            pass
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.decode().strip()}")


@contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
    """So many of them, gone at the end."""
    made: list[Namespace] = []
    try:
        for number in range(count):
            made.append(_make(number))
        yield made
    finally:
        for each in made:
            with suppress(subprocess.CalledProcessError):
                _run("netns", "del", each.name)  # its end of the pair goes with it, and so does ours
            with suppress(subprocess.CalledProcessError):
                _run("link", "del", _outside(each.name))


def _make(number: int) -> Namespace:
    # By the process, as its name: another run on this machine has namespaces of its own.
    first = _FIRST + (os.getpid() % 1024 * 16 + number) * 4
    space = Namespace(f"mm{os.getpid()}-{number}", _address(first + 1), _address(first + 2))
    outside, inner = _outside(space.name), "eth0"
    _run("netns", "add", space.name)
    try:
        _run("link", "add", outside, "type", "veth", "peer", "name", inner, "netns", space.name)
        _run("addr", "add", f"{space.here}/30", "dev", outside)
        _run("link", "set", outside, "up")
        for words in (
            ("addr", "add", f"{space.there}/30", "dev", inner),
            ("link", "set", inner, "up"),
            ("link", "set", "lo", "up"),
        ):
            _run("-n", space.name, *words)
    except subprocess.CalledProcessError:
        _run("netns", "del", space.name)
        raise
    return space


def _outside(name: str) -> str:
    return f"v{name}"  # an interface's name has at most 15 characters


def _address(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def _ip() -> str:
    found = shutil.which("ip")
    assert found is not None
    return found


def _run(*words: str) -> None:
    subprocess.run([_ip(), *words], check=True, capture_output=True, timeout=30)

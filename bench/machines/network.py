"""The machines' network: a namespace for each, with one cable to the switch, and addresses that exist only there."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from bench.machines.switch import Switch

SUBNET = "10.77.0"


@dataclass(frozen=True, slots=True)
class Machine:
    """`inside` are the words to run a command there with."""

    name: str
    space: str
    address: str

    @property
    def inside(self) -> tuple[str, ...]:
        return (_ip(), "netns", "exec", self.space)

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """The same, and in a space of process ids of its own: nobody on another machine can see them either."""
        return (*self.inside, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


@dataclass(frozen=True, slots=True)
class Network:
    """All of it."""

    machines: dict[str, Machine]
    switch: Switch


def why_impossible() -> str | None:
    """What keeps this machine from it, if anything does."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        return "network namespaces need root and the commands ip and unshare"
    try:
        with network(["probe"]):
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"network namespaces cannot be made here: {error}"


@contextmanager
def network(names: Sequence[str], seed: int = 1) -> Iterator[Network]:
    """So many machines, gone at the end."""
    machines: dict[str, Machine] = {}
    switch = None
    try:
        for number, name in enumerate(names, 1):
            machines[name] = Machine(name, f"mill{os.getpid()}-{number}", f"{SUBNET}.{number}")
            _make(machines[name], number)
        outside = {name: _outside(number) for number, name in enumerate(names, 1)}
        macs = {name: bytes.fromhex(_mac(number).replace(":", "")) for number, name in enumerate(names, 1)}
        switch = Switch(outside, macs, seed)
        yield Network(machines, switch)
    finally:
        if switch is not None:
            switch.close()
        for number, machine in enumerate(machines.values(), 1):
            with suppress(subprocess.CalledProcessError):
                _run("link", "del", _outside(number))  # the end inside goes with it
            with suppress(subprocess.CalledProcessError):
                _run("netns", "del", machine.space)


def _make(machine: Machine, number: int) -> None:
    _run("netns", "add", machine.space)
    _run("link", "add", _outside(number), "type", "veth", "peer", "name", "eth0", "netns", machine.space)
    _run("link", "set", _outside(number), "addrgenmode", "none")  # this machine itself has no address there
    _run("link", "set", _outside(number), "up")
    for words in (
        ("link", "set", "eth0", "address", _mac(number)),
        ("link", "set", "eth0", "addrgenmode", "none"),
        ("addr", "add", f"{machine.address}/24", "dev", "eth0"),
        ("link", "set", "eth0", "up"),
        ("link", "set", "lo", "up"),
    ):
        _run("-n", machine.space, *words)


def _outside(number: int) -> str:
    return f"vm{os.getpid()}-{number}"  # an interface's name has at most 15 characters


def _mac(number: int) -> str:
    return f"02:00:00:77:00:{number:02x}"


def _ip() -> str:
    found = shutil.which("ip")
    assert found is not None
    return found


def _run(*words: str) -> None:
    subprocess.run([_ip(), *words], check=True, capture_output=True, timeout=30)

"""Looking at this machine from outside: which ports take a connection, which unix sockets are there, for whom."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import psutil

ALL_PORTS = range(1, 65_536)
AT_ONCE = 32
CONNECT_SECONDS = 0.2
SAY_SECONDS = 5.0
LISTENS = 0x10000  # among the flags of /proc/net/unix


def own_addresses() -> list[str]:
    """Loopback, and those by which others reach this machine. No other machine is ever asked."""
    lines = [line for lines in psutil.net_if_addrs().values() for line in lines]
    found = {ip_address(line.address) for line in lines if line.family in (socket.AF_INET, socket.AF_INET6)}
    kept = [address for address in found if not address.is_link_local]
    return [str(each) for each in sorted(kept, key=lambda each: (not each.is_loopback, each.version, each))]


def scan(address: str, ports: Sequence[int] = ALL_PORTS) -> set[int]:
    """The ports that take a connection."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        shares = pool.map(
            lambda start: [port for port in ports[start::AT_ONCE] if _is_open(address, port)], range(AT_ONCE)
        )
        return {port for share in shares for port in share}


def _is_open(address: str, port: int) -> bool:
    with socket.socket(_family(address)) as probe:
        probe.settimeout(CONNECT_SECONDS)
        if probe.connect_ex((address, port)) != 0:
            return False
        with suppress(OSError):  # whoever took it may have closed already
            # A connection from a port to itself is no open port.
            return bool(probe.getsockname() != probe.getpeername())
        return True


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def first_line(address: str, port: int) -> str:
    """What is answered to whoever shows nothing."""
    with suppress(OSError), socket.create_connection((address, port), SAY_SECONDS) as line:
        line.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return line.recv(200).partition(b"\r\n")[0].decode(errors="replace")
    return ""


def listening_ports(processes: Iterable[psutil.Process]) -> set[tuple[str, int]]:
    """By what the kernel says of these processes: tcp that listens, udp that anybody may send to."""
    found = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            for line in process.net_connections("inet"):
                if line.status == psutil.CONN_LISTEN:
                    found.add(("tcp", line.laddr.port))
                elif line.type == socket.SOCK_DGRAM and not line.raddr:
                    found.add(("udp", line.laddr.port))
    return found


def count_connections(process: psutil.Process, port: int) -> int:
    """Those that it has accepted on a port, and not closed."""
    lines = process.net_connections("tcp")
    return sum(line.laddr.port == port and line.status == psutil.CONN_ESTABLISHED for line in lines)


def unix_sockets(processes: Iterable[psutil.Process]) -> dict[str, Any]:
    """All that these processes have: those with a name, and how many pairs without one, which nobody can reach."""
    ours = {inode for process in processes for inode in _inodes_of(process.pid)}
    named: dict[str, bool] = {}
    unnamed = 0
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        _, _, _, flags, _, _, inode, *name = line.split(maxsplit=7)
        if inode in ours and name:
            named[name[0]] = named.get(name[0], False) or bool(int(flags, 16) & LISTENS)
        unnamed += inode in ours and not name
    return {"named": [_told(name, listens) for name, listens in sorted(named.items())], "unnamed": unnamed}


def _inodes_of(pid: int) -> set[str]:
    found = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(str(entry.readlink()).removeprefix("socket:[").removesuffix("]"))
    return found


def _told(name: str, listens: bool) -> dict[str, Any]:
    """With the modes that decide who may connect. An abstract one, with an @, has none: anybody may."""
    path = Path(name)
    told: dict[str, Any] = {"name": f"{path.parent.name}/{path.name}".lstrip("/"), "listens": listens}
    with suppress(OSError):
        told |= {"mode": _mode(path), "folder_mode": _mode(path.parent)}
    return told


def _mode(path: Path) -> str:
    return oct(path.stat().st_mode & 0o777)

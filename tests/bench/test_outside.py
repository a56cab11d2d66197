"""The look from outside: what opens is found with its mode, slow clients are slow, a small run gives its figures."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bench.outside import slow
from bench.outside.__main__ import measure
from bench.outside.scan import count_connections, own_addresses, scan, unix_sockets
from bench.outside.slow import CLIENTS, slow_clients
from bench.serving import free_port
from tests.conftest import wait_until


@pytest.fixture
def door() -> Iterator[socket.socket]:
    """A server that takes every connection, and says more than anybody reads at once."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listener:
        taken = []

        def take() -> None:
            with suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])
                    taken[-1].sendall(b"x" * 10_000)

        thread = threading.Thread(target=take)
        thread.start()
        yield listener
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        for line in taken:
            line.close()


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def test_a_scan_finds_the_ports_that_take_connections_and_no_others(door: socket.socket) -> None:
    closed = free_port()
    assert scan("127.0.0.1", [closed, port_of(door)]) == {port_of(door)}
    assert scan("127.0.0.1", [closed]) == set()


def test_a_port_that_meets_itself_is_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = free_port()
    connect = socket.socket.connect_ex

    def from_the_same(self: socket.socket, address: tuple[str, int]) -> int:
        self.bind(address)
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect_ex", from_the_same)
    assert scan("127.0.0.1", [closed]) == set()


def test_only_addresses_of_this_machine_are_scanned() -> None:
    addresses = own_addresses()
    assert addresses[0] == "127.0.0.1"
    for address in addresses:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
            probe.bind((address, 0))  # nobody else's can be bound


def test_every_unix_socket_of_a_process_is_told_with_its_modes(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    name = f"\0mediamill-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as abstract:
        listener.bind(str(tmp_path / "door"))
        (tmp_path / "door").chmod(0o702)
        listener.listen()
        abstract.bind(name)
        told = unix_sockets([psutil.Process()])
    assert {
        "name": f"{tmp_path.name}/door",
        "listens": True,
        "mode": "0o702",
        "folder_mode": "0o750",
    } in told["named"]
    assert {"name": f"@{name[1:]}", "listens": False} in told["named"]


@pytest.mark.parametrize("kind", CLIENTS)
async def test_slow_clients_stand_for_as_long_as_they_are_let(
    door: socket.socket, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(slow, "STEP_SECONDS", 0.01)
    with slow_clients(port_of(door), kind, 5) as opened:

        async def are_held() -> bool:
            return count_connections(psutil.Process(), port_of(door)) == 5

        await wait_until(are_held)
    assert len(opened) == 5
    assert count_connections(psutil.Process(), port_of(door)) == 0


@pytest.mark.parametrize("kind", CLIENTS)
async def test_a_slow_client_that_is_closed_comes_again(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(slow, "STEP_SECONDS", 0.01)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        slow_clients(port_of(listener), kind, 1) as opened,
    ):
        listener.accept()[0].close()

        async def came_again() -> bool:
            return len(opened) == 2

        await wait_until(came_again)


@pytest.mark.timeout(300)
def test_a_small_look_from_outside_gives_its_figures(bench_folder: Path) -> None:
    """Two ports only: a scan of all would knock at the doors of other tests."""
    port = free_port()
    found = measure(bench_folder, port, [port, free_port()], [0, 3], 5)
    (opened,) = found["ports"]["opened"]
    assert (opened["address"], opened["port"]) == ("127.0.0.1", "the port")
    assert opened["says"].startswith("HTTP/1.1 ")
    assert found["ports"]["listening"] == ["tcp the port"]
    (database,) = (one for one in found["unix_sockets"]["named"] if ".s.PGSQL." in one["name"])
    assert (database["listens"], database["folder_mode"]) == (True, "0o700")
    rows = found["slow_clients"]
    assert [(row["kind"], row["slow"]) for row in rows] == [("none", 0), *((kind, 3) for kind in CLIENTS)]
    assert all(row["failed"] == 0 and row["median_ms"] > 0 for row in rows)
    assert all(row["slow_opened"] >= row["slow"] for row in rows)
    assert all(row["held_at_the_end"] >= row["slow"] for row in rows)

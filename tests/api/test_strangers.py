"""Which connections make room for others."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field

import pytest

from mediamill.api import strangers
from mediamill.api.strangers import Strangers
from tests.conftest import wait_until


@dataclass(eq=False)
class Client:
    """A connection that remembers when it was closed."""

    among: Strangers
    closed: list[Client]
    waiting_since: float = field(default=0.0)

    def abort(self) -> None:
        self.among.discard(self)
        self.closed.append(self)


class Crowd:
    """Clients of one set of limits, and those that were closed, in that order."""

    def __init__(self) -> None:
        self.strangers, self.closed = Strangers(), list[Client]()

    def add(self, address: str = "192.0.2.1", waiting_since: float = 0.0) -> Client:
        client = Client(self.strangers, self.closed, waiting_since)
        self.strangers.add(client, address)
        return client

    async def settle(self, count: int) -> None:
        async def is_settled() -> bool:
            return len(self.strangers) == count

        await wait_until(is_settled)


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Crowd:
    monkeypatch.setattr(strangers, "STRANGERS_OF_ADDRESS", 3)
    monkeypatch.setattr(strangers, "MOST_STRANGERS", 5)
    monkeypatch.setattr(strangers, "MOST_UNSETTLED", 4)
    return Crowd()


async def test_those_that_the_server_waits_for_the_longest_make_room(crowd: Crowd) -> None:
    times = [7.0, math.inf, 1.0, 5.0, 3.0]
    clients = [crowd.add(waiting_since=since) for since in times]
    await crowd.settle(3)
    assert crowd.closed == [clients[2], clients[4]]


async def test_if_all_wait_for_the_server_the_oldest_makes_room(crowd: Crowd) -> None:
    oldest, *_ = [crowd.add(waiting_since=math.inf) for _ in range(4)]
    await crowd.settle(3)
    assert crowd.closed == [oldest]


async def test_an_address_makes_room_among_its_own(crowd: Crowd) -> None:
    crowd.add("192.0.2.2", waiting_since=0.0)
    slow, *_ = [crowd.add(waiting_since=1.0 + number) for number in range(4)]
    await crowd.settle(4)
    assert crowd.closed == [slow]


async def test_who_was_recognised_meanwhile_makes_nobody_go(crowd: Crowd) -> None:
    clients = [crowd.add() for _ in range(4)]
    crowd.strangers.discard(clients[-1])
    settled = asyncio.Event()
    asyncio.get_running_loop().call_later(2 * strangers.SETTLE_SECONDS, settled.set)
    await settled.wait()
    assert crowd.closed == []


async def test_so_many_at_once_that_descriptors_could_run_out_are_closed_at_once(crowd: Crowd) -> None:
    for number in range(strangers.MOST_STRANGERS + strangers.MOST_UNSETTLED):
        crowd.add(f"192.0.2.{number}", waiting_since=float(number))
    assert crowd.closed == []
    crowd.add("192.0.2.100", waiting_since=100.0)
    assert [client.waiting_since for client in crowd.closed] == [0.0, 1.0, 2.0, 3.0, 4.0]


async def test_half_of_a_limit_is_a_crowd(crowd: Crowd) -> None:
    first = crowd.add()
    assert not crowd.strangers.is_crowded_beside(first)
    second = crowd.add()
    assert crowd.strangers.is_crowded_beside(first)
    crowd.strangers.discard(second)
    assert not crowd.strangers.is_crowded_beside(first)
    assert not crowd.strangers.is_crowded_beside(second)  # recognised
    for number in (2, 3):
        crowd.add(f"192.0.2.{number}")
    assert crowd.strangers.is_crowded_beside(first)

from __future__ import annotations

import pytest

from mediamill.access.limits import Buckets, Lately, neighbourhood


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only the test moves."""
    now = [1000.0]
    monkeypatch.setattr("mediamill.access.limits.time.monotonic", lambda: now[0])
    return now


def test_so_many_tries_then_a_wait_that_ends(clock: list[float]) -> None:
    tries = Buckets(3, 60)
    for _ in range(3):
        assert tries.wait_seconds("a") == 0
        tries.take("a")
    assert tries.wait_seconds("a") == pytest.approx(20)
    assert tries.wait_seconds("b") == 0
    clock[0] += 19
    assert tries.wait_seconds("a") == pytest.approx(1)
    clock[0] += 1.01
    assert tries.wait_seconds("a") == 0
    clock[0] += 10_000
    for _ in range(3):  # a long rest gives no more than a full bucket
        tries.take("a")
    assert tries.wait_seconds("a") > 0


def test_a_try_that_was_right_is_given_back(clock: list[float]) -> None:
    tries = Buckets(2, 60)
    for _ in range(10):
        tries.take("a")
        tries.give_back("a")
    assert tries.wait_seconds("a") == 0
    tries.take("a")
    tries.take("a")
    assert tries.wait_seconds("a") > 0
    tries.give_back("a")
    assert tries.wait_seconds("a") == 0


def test_memory_is_bounded_whoever_comes(clock: list[float]) -> None:
    tries, lately = Buckets(3, 60, keys=100), Lately(keys=100)
    for number in range(1000):
        tries.take(number)
        lately.add(number)
    assert len(tries) == 100
    assert 999 in lately
    assert 0 not in lately


def test_whoever_was_seen_least_lately_is_forgotten_first(clock: list[float]) -> None:
    tries, lately = Buckets(1, 60, keys=2), Lately(keys=2)
    for key in ("a", "b", "a", "c"):
        tries.take(key)
        lately.add(key)
    assert [key for key in "abc" if tries.wait_seconds(key)] == ["a", "c"]
    assert [key for key in "abc" if key in lately] == ["a", "c"]
    lately.discard("a")
    lately.discard("unheard of")
    assert "a" not in lately


def test_giving_back_does_not_fill_a_bucket_over_its_brim_nor_remember_a_full_one(clock: list[float]) -> None:
    tries = Buckets(3, 60)
    tries.give_back("a")
    tries.take("a")
    tries.give_back("a")
    assert len(tries) == 0
    for _ in range(3):
        tries.take("a")
    tries.give_back("a")
    assert (len(tries), tries.wait_seconds("a")) == (1, 0)
    tries.take("a")
    assert tries.wait_seconds("a") == pytest.approx(20)


@pytest.mark.parametrize("address", [None, "", "a name"])
def test_those_without_an_address_share_one_neighbourhood(address: str | None) -> None:
    assert neighbourhood(address) == "unknown"


def test_a_household_is_one_neighbour() -> None:
    assert neighbourhood("203.0.113.9") == "203.0.113.9"
    assert neighbourhood("2001:db8:1:2::1") == neighbourhood("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
    assert neighbourhood("2001:db8:1:3::1") != neighbourhood("2001:db8:1:2::1")
    assert neighbourhood("::ffff:203.0.113.9") == "203.0.113.9"
    assert neighbourhood(None) == neighbourhood("a name") == "unknown"

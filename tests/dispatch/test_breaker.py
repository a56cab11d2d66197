"""The circuit breaker, on a clock that a test sets."""

from __future__ import annotations

import pytest

from mediamill.dispatch.breaker import FAILURES, LONGEST_PAUSE_SECONDS, SPREAD, Breaker, BreakerState


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def make(chance: float = 0.0) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(clock, lambda: chance), clock


def fail_until_open(breaker: Breaker) -> None:
    for _ in range(FAILURES):
        assert breaker.begin_try()
        breaker.fail()
    assert breaker.state is BreakerState.OPEN


@pytest.mark.spec("E30-redis")
def test_a_single_failure_does_not_open_it_and_a_success_forgets_it() -> None:
    breaker, _ = make()
    for _ in range(10):
        breaker.fail()
        assert breaker.state is BreakerState.CLOSED
        breaker.succeed()
    assert breaker.opened == 0


@pytest.mark.spec("E30-redis")
def test_it_opens_after_failures_in_a_row_and_nobody_tries_before_the_pause_is_over() -> None:
    breaker, clock = make()
    fail_until_open(breaker)
    assert not breaker.begin_try()
    clock.now += breaker.seconds_to_wait() / 2
    assert not breaker.begin_try()
    clock.now += breaker.seconds_to_wait()
    assert breaker.begin_try()
    assert breaker.state is BreakerState.HALF_OPEN


@pytest.mark.spec("E30-redis")
def test_only_one_tries_while_it_is_half_open() -> None:
    breaker, clock = make()
    fail_until_open(breaker)
    clock.now += breaker.seconds_to_wait()
    assert breaker.begin_try()
    assert not breaker.begin_try()
    breaker.succeed()
    assert breaker.state is BreakerState.CLOSED
    assert breaker.begin_try()


@pytest.mark.spec("E30-redis")
def test_each_failed_try_doubles_the_pause_up_to_a_limit_and_a_success_makes_it_short_again() -> None:
    breaker, clock = make()
    fail_until_open(breaker)
    pauses = []
    for _ in range(10):
        pauses.append(breaker.seconds_to_wait())
        clock.now += breaker.seconds_to_wait()
        assert breaker.begin_try()
        breaker.fail()
    assert pauses == [0.5, 1, 2, 4, 8, 16, *[LONGEST_PAUSE_SECONDS] * 4]
    clock.now += breaker.seconds_to_wait()
    breaker.begin_try()
    breaker.succeed()
    fail_until_open(breaker)
    assert breaker.seconds_to_wait() == 0.5
    assert breaker.opened == 2


@pytest.mark.spec("E30-redis")
def test_pauses_differ_by_chance_so_that_a_fleet_does_not_come_back_at_once() -> None:
    soonest, _ = make(chance=1.0)
    latest, _ = make(chance=0.0)
    fail_until_open(soonest)
    fail_until_open(latest)
    assert soonest.seconds_to_wait() == pytest.approx(latest.seconds_to_wait() * (1 - SPREAD))


@pytest.mark.spec("E30-redis")
def test_late_words_of_what_was_under_way_change_nothing_while_it_is_open() -> None:
    breaker, _ = make()
    fail_until_open(breaker)
    pause = breaker.seconds_to_wait()
    breaker.succeed()
    assert breaker.state is BreakerState.OPEN
    breaker.fail()
    assert breaker.seconds_to_wait() == pause

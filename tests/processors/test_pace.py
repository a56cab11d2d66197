"""How often a model server is asked that refuses: by numbers alone, with a clock that the test turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from mediamill.processors.models.calls import CallFailed, Outcome, Reply
from mediamill.processors.models.pace import LONGEST_PAUSE_SECONDS, Pace, Paces, open_paces
from mediamill.processors.models.rate_limits import LONGEST_ASKED_SECONDS, asked_seconds

pytestmark = pytest.mark.spec("C31")

DOWN = CallFailed("unreachable", "connection refused")


def reply(status: int, **headers: str) -> Reply:
    return Reply(status, [(name.replace("_", "-"), value) for name, value in headers.items()], b"", 0.0)


class Asked:
    """Somebody who wants so many answers, one at a time, from a server that decides by the time."""

    def __init__(self, server: Callable[[float], Outcome]) -> None:
        self._server, self.pace, self.now = server, Pace(), 1000.0
        self.answered = self.refused = 0

    def ask(self) -> None:
        self.now += self.pace.wait_seconds(self.now) + 0.01
        began, self.pace = self.now, self.pace.taken(self.now)
        outcome = self._server(began)
        self.now += 0.2
        self.pace = self.pace.learned(outcome, began, self.now)
        good = isinstance(outcome, Reply) and outcome.status == 200
        self.answered, self.refused = self.answered + good, self.refused + (not good)


def six_a_minute() -> Callable[[float], Outcome]:
    """Without a word on when to come back."""
    seen: dict[int, int] = {}

    def answer(now: float) -> Outcome:
        minute = int(now // 60)
        if seen.get(minute, 0) >= 6:
            return reply(429)
        seen[minute] = seen.get(minute, 0) + 1
        return reply(200)

    return answer


def test_a_limit_that_says_nothing_refuses_few_requests_and_costs_little_time() -> None:
    asked = Asked(six_a_minute())
    while asked.answered < 60:
        asked.ask()
    assert asked.refused <= 25
    assert asked.now - 1000 <= 2 * 600


def test_a_server_that_is_down_is_asked_about_once_a_minute_and_at_once_full_of_work_again() -> None:
    back = 1000.0 + 3600
    asked = Asked(lambda now: DOWN if now < back else reply(200))
    while not asked.answered:
        asked.ask()
    assert asked.refused < 80
    assert asked.now - back < 1.3 * LONGEST_PAUSE_SECONDS
    before = asked.now
    while asked.answered < 21:
        asked.ask()
    assert asked.now - before < 20


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (429, {"Retry-After": "7"}, 7.0),
        (429, {"retry-after-ms": "1500", "Retry-After": "7"}, 1.5),
        (429, {"Retry-After": "90000"}, LONGEST_ASKED_SECONDS),
        (429, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m30.5s"}, 90.5),
        (429, {"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": "12"}, 12.0),
        (200, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "8s"}, 8.0),
        (200, {"x-ratelimit-remaining-requests": "1", "x-ratelimit-reset-requests": "8s"}, None),
        (200, {"x-ratelimit-reset-requests": "8s"}, None),
        (429, {"x-ratelimit-reset-requests": "soon"}, None),
        (429, {"Retry-After": "-1e400"}, 0.0),
        (429, {}, None),
    ],
)
def test_what_a_server_asks_for_is_understood(
    status: int, headers: dict[str, str], seconds: float | None
) -> None:
    assert asked_seconds(status, httpx.Headers(headers)) == seconds


def test_a_reset_told_as_a_time_is_so_far_away() -> None:
    at = str(int(time.time()) + 30)
    told = asked_seconds(429, httpx.Headers({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": at}))
    assert told is not None
    assert 25 < told <= 30


def test_an_answer_that_uses_up_the_limit_closes_the_server_before_it_refuses() -> None:
    last = reply(200, x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="8s")
    assert Pace().learned(last, 1000.0, 1000.2).wait_seconds(1000.2) == 8


def test_refusals_of_requests_that_were_under_way_together_are_one() -> None:
    once = Pace().learned(reply(429), 1000.0, 1000.5)
    assert once.learned(reply(429), 1000.1, 1000.6) == once
    assert once.learned(reply(429), 1002.0, 1002.1).refusals == 2


def test_a_failure_of_another_sort_closes_nothing() -> None:
    for outcome in (reply(500), reply(401), CallFailed("timeout", "no answer")):
        assert Pace().learned(outcome, 1000.0, 1001.0).wait_seconds(1001.0) == 0


def test_what_one_caller_learns_another_knows_and_a_third_server_is_none_of_it(tmp_path: Path) -> None:
    one, other = (Paces(open_paces(tmp_path / "paces")) for _ in range(2))
    assert one.take("http://127.0.0.1:4000/v1/chat/completions") == 0
    one.learn("http://127.0.0.1:4000/v1/chat/completions", reply(429, Retry_After="60"), time.time())
    assert 58 < other.take("http://127.0.0.1:4000/v1/embeddings") <= 60
    assert other.take("http://127.0.0.1:4001/v1/embeddings") == 0


def test_nonsense_in_the_file_closes_a_server_for_an_hour_at_most(tmp_path: Path) -> None:
    (tmp_path / "paces").write_bytes(b"\x7f" * 8192)
    assert Paces(open_paces(tmp_path / "paces")).take("http://127.0.0.1:1/") <= LONGEST_ASKED_SECONDS

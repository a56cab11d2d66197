"""One try to post an alert: what is sent, how an answer is read, and what is said of a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from mediamill.db.connection import Database
from mediamill.engine import alert_sender
from mediamill.engine.alert_address import Target
from mediamill.engine.alert_sender import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    RESPONSE_LIMIT_BYTES,
    send_alerts_forever,
    send_waiting,
)
from mediamill.engine.alerts import list_alerts
from mediamill.engine.model import backoff_seconds
from mediamill.settings import Settings
from tests.conftest import wait_until
from tests.engine.alerting import SECRET, Receiver, raise_one, receiver, settings_for
from tests.engine.conftest import Bench
from tests.engine.waiting import has_no_session

__all__ = ["receiver"]

CREATED = datetime(2026, 11, 18, 9, 30, 15, 123_456, tzinfo=UTC)
ROW: Any = {"id": 7, "type": "test", "created_at": CREATED}


class Said(httpx.AsyncByteStream):
    """An answer in pieces; how many were read."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces, self.read = pieces, 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            self.read += 1
            yield piece


async def heard(*pieces: bytes) -> str:
    return await alert_sender._read_some(httpx.Response(400, stream=Said(*pieces)))


async def test_of_an_answer_two_hundred_bytes_are_told_on_one_line() -> None:
    assert await heard(b"out  of\r\n", b" order\xff") == "out of order\ufffd"
    assert await heard(b"x" * 250) == "x" * 200
    assert await heard() == ""
    answer = Said(*[b"x" * RESPONSE_LIMIT_BYTES] * 3)
    await alert_sender._read_some(httpx.Response(400, stream=answer))
    assert answer.read == 1


async def test_a_request_names_the_host_that_was_asked_for_and_not_its_address() -> None:
    seen: list[httpx.Request] = []
    target = Target(httpx.URL("https://8.8.8.8/hook"), "example.com:8443", "example.com")

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(204 if len(seen) == 1 else 500, stream=Said(b"no"))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await alert_sender._post_to(client, target, {"x-a": "b"}, "{}")
        with pytest.raises(Exception, match=r"^HTTP 500 no$"):
            await alert_sender._post_to(client, target, {}, "{}")
    request = seen[0]
    assert (request.method, request.content, str(request.url)) == ("POST", b"{}", "https://8.8.8.8/hook")
    assert (request.headers["host"], request.headers["x-a"]) == ("example.com:8443", "b")
    assert request.extensions["sni_hostname"] == "example.com"


def test_an_alert_keeps_its_id_and_is_signed_if_there_is_a_secret() -> None:
    unsigned = alert_sender._signature(Settings(), ROW, "{}")
    stamp = int(CREATED.timestamp()) * 1_000_000 + CREATED.microsecond
    assert unsigned["webhook-id"] == f"msg_{stamp}_7"
    assert set(unsigned) == {"webhook-id", "webhook-timestamp"}
    assert int(unsigned["webhook-timestamp"]) == pytest.approx(datetime.now(UTC).timestamp(), abs=60)
    signed = alert_sender._signature(settings_for("http://a"), ROW, "{}")
    assert Webhook(SECRET).verify("{}", signed) == {}


def test_what_is_wrong_is_said_in_a_few_words() -> None:
    settings = settings_for("http://a", alert_timeout_seconds=2.5)
    assert alert_sender._reason(TimeoutError(), settings) == "no answer within 2.5 s"
    assert alert_sender._reason(ValueError("x" * 501), settings) == "x" * 500
    assert alert_sender._reason(ValueError(), settings) == "ValueError"


def test_pauses_begin_with_ten_seconds_and_end_with_an_hour() -> None:
    pauses = [backoff_seconds(n, FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS) for n in (1, 2, 9, 10, 20)]
    assert pauses == [10, 20, 2560, 3600, 3600]


async def test_nobody_else_takes_an_alert_while_one_try_can_last_and_the_next_comes_ten_seconds_later(
    bench: Bench,
) -> None:
    await raise_one(bench)
    leases: list[datetime] = []

    async def resolve(_host: str, _port: int) -> list[str]:
        leases.append(await bench.one("select try_after from alerts"))
        raise OSError("no such host")

    before = await bench.one("select now()")
    settings = settings_for("https://example.com/", alert_timeout_seconds=20)
    assert await send_waiting(bench.database, settings, resolve=resolve) == 0
    after = await bench.one("select now()")
    assert before <= leases[0] - timedelta(seconds=2 * 20 + 30) <= after
    again = await bench.one("select try_after from alerts")
    assert before <= again - timedelta(seconds=10) <= after
    assert await bench.one("select last_error from alerts") == "no such host"


async def test_an_alert_goes_past_any_proxy_and_says_who_sends_it(
    bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    await raise_one(bench)
    assert await send_waiting(bench.database, settings_for(receiver.url)) == 1
    assert receiver.requests[0][1]["user-agent"] == "mediamill"

    async def resolve(_host: str, _port: int) -> list[str]:
        return ["127.0.0.76", "127.0.0.77"]

    await raise_one(bench, "worker_startup")
    nobody = settings_for(f"http://example.com:{receiver.port}/")
    assert await send_waiting(bench.database, nobody, resolve=resolve) == 0, "no address answers"
    assert await bench.one("select last_error is not null from alerts where sent_at is null")


async def test_the_list_of_alerts_has_the_fifty_newest(bench: Bench) -> None:
    await bench.run(
        "insert into alerts (type, data) select 'test', jsonb_build_object('n', n) from generate_series(1, 52) n"
    )
    async with bench.database.connection() as connection:
        listed = await list_alerts(connection)
        assert [alert["data"]["n"] for alert in listed] == list(range(52, 2, -1))
        assert len(await list_alerts(connection, 52)) == 52


async def test_the_sender_outlives_errors_and_leaves_no_connection_behind(
    bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: asyncio.Queue[None] = asyncio.Queue()
    errors = [OSError("unavailable"), RuntimeError("a defect")]

    async def look(database: Database, settings: Settings) -> int:
        looked.put_nowait(None)
        if errors:
            raise errors.pop(0)
        return await send_waiting(database, settings)

    monkeypatch.setattr(alert_sender, "send_waiting", look)
    monkeypatch.setattr(alert_sender, "POLL_SECONDS", 0.01)
    task = asyncio.create_task(send_alerts_forever(bench.database, settings_for(receiver.url)))
    async with asyncio.timeout(60):
        for _ in range(3):
            await looked.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await wait_until(lambda: has_no_session(bench, "mediamill alerts"))

"""Alerts on their way out: what is sent, to whom, how often, and that a bad webhook harms nothing."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from standardwebhooks import Webhook

from mediamill.engine import alert_sender
from mediamill.engine.alert_address import AddressRefusedError, find_targets, is_public
from mediamill.engine.alert_bodies import alert_body
from mediamill.engine.alert_sender import send_alerts_forever, send_waiting
from mediamill.engine.watch import counters
from mediamill.settings import Settings
from tests.conftest import wait_until
from tests.engine.alerting import SECRET, Receiver, raise_one, receiver, settings_for
from tests.engine.conftest import Bench

__all__ = ["receiver"]


async def outbox(bench: Bench) -> list[tuple[bool, int, str | None]]:
    async with bench.database.connection() as connection:
        rows = await connection.fetch("select sent_at is not null, tries, last_error from alerts order by id")
        return [tuple(row) for row in rows]


@pytest.mark.spec("E32")
async def test_an_alert_is_posted_once_with_a_signature_that_holds(bench: Bench, receiver: Receiver) -> None:
    await raise_one(bench)
    settings = settings_for(receiver.url)
    assert await send_waiting(bench.database, settings) == 1
    assert await send_waiting(bench.database, settings) == 0
    ((line, headers, body),) = receiver.requests
    assert line == "POST /hook?key=value HTTP/1.1"
    assert headers["content-type"] == "application/json"
    said = Webhook(SECRET).verify(body, headers)
    assert said["type"] == "stale_job_recovered"
    assert said["data"] == {"jobs": [1, 2], "worker": "a"}
    assert said["timestamp"]
    assert await outbox(bench) == [(True, 1, None)]


@pytest.mark.spec("E32")
async def test_of_one_type_one_alert_goes_out_in_three_hundred_seconds(
    bench: Bench, receiver: Receiver
) -> None:
    assert bench.engine.alert_rate_limit_seconds == 300
    assert [await raise_one(bench) for _ in range(3)] == [True, False, False]
    assert await raise_one(bench, "worker_startup", worker="a")
    await bench.run("update alert_limits set last_at = now() - interval '301 seconds'")
    assert await raise_one(bench)
    assert await send_waiting(bench.database, settings_for(receiver.url)) == 3


@pytest.mark.spec("E32")
async def test_two_senders_send_an_alert_once(bench: Bench, receiver: Receiver) -> None:
    for type_ in ("stale_job_recovered", "job_max_retries_exceeded", "job_failed_pattern"):
        await raise_one(bench, type_)
    settings = settings_for(receiver.url)
    sent = await asyncio.gather(*(send_waiting(bench.database, settings) for _ in range(4)))
    assert sum(sent) == len(receiver.requests) == 3


@pytest.mark.spec("E32")
async def test_an_answer_of_500_is_tried_again_with_growing_pauses_and_the_same_id_and_then_given_up(
    bench: Bench, receiver: Receiver
) -> None:
    receiver.status, receiver.body = "500 Internal Server Error", b"out of order"
    await raise_one(bench)
    settings = settings_for(receiver.url)
    waits = []
    for _ in range(8):
        assert await send_waiting(bench.database, settings) == 0
        assert await send_waiting(bench.database, settings) == 0
        waits.append(await bench.one("select extract(epoch from try_after - now())::float8 from alerts"))
        await bench.run("update alerts set try_after = now()")
    assert len(receiver.requests) == 8
    assert len({headers["webhook-id"] for _, headers, _ in receiver.requests}) == 1
    assert waits[:7] == sorted(waits[:7])
    assert waits[6] > 10 * waits[0]
    assert await outbox(bench) == [(True, 8, "HTTP 500 out of order")]
    assert await send_waiting(bench.database, settings) == 0


@pytest.mark.spec("E32")
async def test_a_webhook_that_hangs_is_left_after_the_time_limit_and_no_lock_is_held_meanwhile(
    bench: Bench, receiver: Receiver
) -> None:
    assert Settings().alert_timeout_seconds == 10
    receiver.hang = True
    await raise_one(bench)
    task = asyncio.create_task(
        send_waiting(bench.database, settings_for(receiver.url, alert_timeout_seconds=600))
    )

    async def called() -> bool:
        return bool(receiver.requests)

    await wait_until(called)
    await bench.one("select id from alerts for update nowait")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await bench.run("update alerts set try_after = now()")
    assert await send_waiting(bench.database, settings_for(receiver.url, alert_timeout_seconds=0.5)) == 0
    assert await outbox(bench) == [(False, 1, "no answer within 0.5 s")]


@pytest.mark.spec("E32")
async def test_an_answer_without_end_is_not_read_to_its_end(bench: Bench, receiver: Receiver) -> None:
    receiver.status, receiver.endless = "400 Bad Request", True
    await raise_one(bench)
    assert await send_waiting(bench.database, settings_for(receiver.url)) == 0
    assert receiver.written < 50_000_000
    ((sent, tries, error),) = await outbox(bench)
    assert (sent, tries) == (False, 1)
    assert error is not None
    assert len(error) < 500


@pytest.mark.spec("E32")
async def test_a_redirect_is_not_followed(bench: Bench, receiver: Receiver) -> None:
    receiver.status, receiver.headers = "302 Found", f"location: http://127.0.0.1:{receiver.port}/other\r\n"
    await raise_one(bench)
    assert await send_waiting(bench.database, settings_for(receiver.url)) == 0
    assert len(receiver.requests) == 1
    assert (await outbox(bench))[0][2] == "HTTP 302"


@pytest.mark.spec("E32")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433"])
async def test_a_private_address_is_refused_and_never_called(
    bench: Bench, receiver: Receiver, host: str
) -> None:
    await raise_one(bench)
    settings = settings_for(f"http://{host}:{receiver.port}/", alert_allow_private=False)
    assert await send_waiting(bench.database, settings) == 0
    assert receiver.requests == []
    ((_, _, error),) = await outbox(bench)
    assert error is not None
    assert "not a public address" in error


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),
        *("224.0.0.1", "255.255.255.255", "240.0.0.1", "192.0.2.1", "::", "::1", "fe80::1", "fe80::1%eth0"),
        *(
            "fc00::1",
            "fec0::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::10.0.0.1",
        ),
        *(
            "64:ff9b::a00:1",
            "64:ff9b:1::a00:1",
            "2002:a00:1::1",
            "2001:0:4136:e378:8000:63bf:f5ff:fffe",
            "no address",
        ),
    ],
)
@pytest.mark.spec("E32")
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.spec("E32")
async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(AddressRefusedError, match=r"10\.0\.0\.1"):
        await find_targets("https://example.com/", allow_private=False, resolve=resolve)


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "file:///etc/passwd", "example.com", "https://", "http://x:port/"]
)
async def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefusedError):
        await find_targets(url, allow_private=True)


@pytest.mark.spec("E32")
async def test_the_connection_goes_to_the_address_that_was_checked_under_the_name_that_was_given(
    bench: Bench, receiver: Receiver
) -> None:
    asked: list[str] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

    await raise_one(bench)
    settings = settings_for(f"http://hooks.example.com:{receiver.port}/hook")
    assert await send_waiting(bench.database, settings, resolve=resolve) == 1
    assert asked == ["hooks.example.com"]
    assert receiver.requests[0][1]["host"] == f"hooks.example.com:{receiver.port}"


async def test_the_next_address_is_tried_when_one_does_not_answer(bench: Bench, receiver: Receiver) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.77", "127.0.0.1"]

    await raise_one(bench)
    settings = settings_for(f"http://hooks.example.com:{receiver.port}/hook")
    assert await send_waiting(bench.database, settings, resolve=resolve) == 1


@pytest.mark.spec("E32")
@pytest.mark.parametrize(
    ("host", "path"), [("hooks.slack.com", "/services/T0/B0/x"), ("discord.com", "/api/webhooks/1/x")]
)
async def test_slack_and_discord_get_a_body_of_their_own(
    bench: Bench, receiver: Receiver, host: str, path: str
) -> None:
    async def resolve(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    await raise_one(
        bench, "job_failed_pattern", owner="<!channel> @everyone & co", failures=3, subject_id=None
    )
    assert (
        await send_waiting(
            bench.database, settings_for(f"http://{host}:{receiver.port}{path}"), resolve=resolve
        )
        == 1
    )
    said = json.loads(receiver.requests[0][2])
    text = json.dumps(said)
    assert "type" not in said
    assert "again and again" in text
    assert "subject" not in text
    if host == "discord.com":
        assert said["allowed_mentions"] == {"parse": []}
        assert {"name": "failures", "value": "3", "inline": True} in said["embeds"][0]["fields"]
    else:
        assert said["text"] == "mediamill: The same thing fails again and again"
        assert [block["type"] for block in said["blocks"]] == ["header", "section", "context"]
        assert "<!channel>" not in text
        assert "&lt;!channel&gt; @everyone &amp; co" in text


async def test_long_values_fit_what_slack_and_discord_take(bench: Bench) -> None:
    at = await bench.one("select now()")
    data = {f"fact_{n}": "x" * 5000 for n in range(30)} | {"jobs": list(range(50))}
    discord = alert_body("https://discord.com/api/webhooks/1/x", "stale_job_recovered", at, data)
    slack = alert_body("https://hooks.slack.com/services/x", "stale_job_recovered", at, data)
    assert len(json.dumps(discord)) < 6000
    assert len(slack["blocks"][1]["fields"]) <= 10
    assert all(len(entry["text"]) <= 2000 for entry in slack["blocks"][1]["fields"])


async def test_a_secret_that_is_none_is_said_and_not_shown(bench: Bench, receiver: Receiver) -> None:
    await raise_one(bench)
    assert await send_waiting(bench.database, settings_for(receiver.url, alert_webhook_secret="whsec_é")) == 0
    ((_, _, error),) = await outbox(bench)
    assert error is not None
    assert "MEDIAMILL_ALERT_WEBHOOK_SECRET" in error
    assert "é" not in error


@pytest.mark.spec("E32")
async def test_the_sender_is_woken_by_an_alert_and_stays_alive_while_the_webhook_fails(
    bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(alert_sender, "POLL_SECONDS", 3600.0)
    receiver.status = "503 Service Unavailable"
    task = asyncio.create_task(send_alerts_forever(bench.database, settings_for(receiver.url)))

    async def failed() -> bool:
        return (False, 1, "HTTP 503") in await outbox(bench)

    async def sent() -> bool:
        return (True, 1, None) in await outbox(bench)

    async def told() -> bool:
        return "sending alerts failed" in caplog.text

    async def sent_again() -> bool:
        return (await outbox(bench)).count((True, 1, None)) == 2

    try:
        await raise_one(bench)
        await wait_until(failed)
        receiver.status = "200 OK"
        await raise_one(bench, "worker_shutdown", worker="a")
        await wait_until(sent)
        await bench.run("alter table alerts rename to hidden")
        await bench.run("notify mediamill_alerts")
        await wait_until(told)
        await bench.run("alter table hidden rename to alerts")
        await raise_one(bench, "worker_startup", worker="b")
        await wait_until(sent_again)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.spec("E32")
async def test_a_webhook_that_is_not_there_does_not_keep_jobs_from_failing_in_order(bench: Bench) -> None:
    engine = replace(bench.engine, alerts_on=True)
    bench.engine = engine
    settings = settings_for("http://127.0.0.1:9/")
    id_ = await bench.enqueue(subject_id="s", kind="test.subject", max_attempts=1)
    (job,) = await bench.claim()
    assert await bench.fail(job)
    assert await send_waiting(bench.database, settings) == 0
    assert await bench.state(id_) == "dead"
    async with bench.database.connection() as connection:
        assert await counters(connection) == {
            "stale_recovered": 0,
            "stalled": 0,
            "retries_exhausted": 1,
            "failures": 1,
        }
    assert [(sent, tries) for sent, tries, _ in await outbox(bench)] == [(False, 1)]


async def test_without_a_webhook_there_is_no_sender_and_nothing_is_taken(bench: Bench) -> None:
    await raise_one(bench)
    await asyncio.wait_for(send_alerts_forever(bench.database, Settings()), 60)
    assert await send_waiting(bench.database, Settings()) == 0
    assert await outbox(bench) == [(False, 0, None)]

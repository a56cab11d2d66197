"""Alerts are raised by what they are about, in its transaction, once in a while for all servers together."""

from __future__ import annotations

import asyncio
import json
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.alert_sender import send_test, send_waiting
from mediamill.engine.alerts import list_alerts, raise_alert
from mediamill.engine.recovery.janitor import abandon_subjects
from mediamill.engine.recovery.release import release_claims
from mediamill.engine.store import recovery
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from tests.conftest import wait_until
from tests.engine.alerting import SECRET, Receiver, raise_one, receiver, settings_for
from tests.engine.conftest import Bench
from tests.outages import let_time_pass

__all__ = ["receiver"]


async def raised(bench: Bench) -> dict[str, dict[str, Any]]:
    """What waits to be sent, by type."""
    async with bench.database.connection() as connection:
        rows = await connection.fetch("select type, data from alerts order by id")
    assert len(rows) == len({row["type"] for row in rows}), "one of each type"
    return {row["type"]: json.loads(row["data"]) for row in rows}


def alarmed(bench: Bench, **more: Any) -> Bench:
    bench.engine = replace(bench.engine, alerts_on=True, **more)
    return bench


@pytest.mark.spec("E32")
async def test_claims_taken_back_from_a_worker_raise_an_alert_with_the_jobs_and_the_worker(
    bench: Bench,
) -> None:
    alarmed(bench)
    ids = [await bench.enqueue(max_attempts=2) for _ in range(3)]
    jobs = await bench.claim("gone", amount=3)
    async with bench.database.transaction() as connection:
        rows = await recovery.lock_claims_of_worker.rows(connection, worker_id=jobs[0].worker_id, batch=10)
        await release_claims(connection, bench.engine, rows)
    assert await raised(bench) == {"stale_job_recovered": {"jobs": ids, "worker": "gone"}}


@pytest.mark.spec("E32")
async def test_every_final_failure_raises_an_alert_that_says_how_it_failed(bench: Bench) -> None:
    alarmed(bench)
    spent = await bench.enqueue(owner="ann", max_attempts=1)
    (job,) = await bench.claim()
    await bench.fail(job)
    final = await bench.enqueue(owner="ann", max_attempts=9)
    (job,) = await bench.claim()
    await bench.fail(job, "empty document", permanent=True)
    facts = {"kind": "test.plain", "owner": "ann", "subject_id": None, "attempts": 1}
    assert await raised(bench) == {
        "job_max_retries_exceeded": {"id": spent, **facts},
        "job_failed": {"id": final, **facts, "reason": "permanent", "error": "empty document"},
    }


@pytest.mark.spec("E32")
async def test_jobs_that_nobody_moved_raise_one_alert_for_all_and_are_no_pattern(bench: Bench) -> None:
    alarmed(bench, alert_pattern_failures=2)
    for _ in range(3):
        await bench.enqueue(subject_id="s")
    await let_time_pass(bench.database, 4, served=True)
    async with bench.database.transaction() as connection:
        await abandon_subjects(connection, bench.engine, ["s"], 3 * 3600)
    alerts = await raised(bench)
    assert list(alerts) == ["job_failed"]
    assert (alerts["job_failed"]["reason"], alerts["job_failed"]["and_more"]) == ("abandoned", 2)


@pytest.mark.spec("E32")
async def test_what_the_limit_holds_back_is_summed_up_in_the_next_alert(bench: Bench) -> None:
    alarmed(bench)
    for number in range(44):
        if number in (42, 43):
            await bench.run("update alert_limits set last_at = now() - interval '301 seconds'")
        await bench.enqueue(max_attempts=1)
        (job,) = await bench.claim()
        await bench.fail(job, str(number), permanent=True)
    rows = await bench.one("select json_agg(data order by id) from alerts")
    said = [(each["error"], each.get("and_more")) for each in json.loads(rows)]
    assert said == [("0", None), ("42", 41), ("43", None)]


@pytest.mark.spec("E32")
@pytest.mark.parametrize("wanted", [True, False])
async def test_a_worker_that_starts_or_stops_raises_alerts_only_if_they_are_wanted(
    bench: Bench, tmp_path: Path, wanted: bool
) -> None:
    alarmed(bench, alert_worker_events=wanted)
    home = LocalHome(bench.database, bench.engine, WorkerPlan(name="one", data_folder=tmp_path))
    await home.register(lambda _: None)
    await home.leave()
    told = {"worker": "one"}
    assert await raised(bench) == ({"worker_startup": told, "worker_shutdown": told} if wanted else {})


@pytest.mark.spec("E32")
async def test_what_is_undone_raises_no_alert_and_uses_up_no_turn(bench: Bench) -> None:
    alarmed(bench)
    async with bench.database.connection() as connection:
        undone = connection.transaction()
        await undone.start()
        assert await raise_alert(connection, bench.engine, "stale_job_recovered", {})
        await undone.rollback()
    assert await raised(bench) == {}
    assert await raise_one(bench)


@pytest.mark.spec("E32")
async def test_of_many_servers_that_find_the_same_at_once_one_raises_the_alert(bench: Bench) -> None:
    for _ in range(3):
        done = await asyncio.gather(*(raise_one(bench) for _ in range(15)))
        assert sum(done) == 1
        await bench.run("update alert_limits set last_at = now() - interval '301 seconds'")
    assert await bench.one("select count(*) from alerts") == 3


@pytest.mark.spec("E32", "V16")
async def test_the_limit_is_a_setting_and_none_is_none(bench: Bench) -> None:
    engine = replace(bench.engine, alerts_on=True, alert_rate_limit_seconds=0)
    for _ in range(3):
        async with bench.database.transaction() as connection:
            assert await raise_alert(connection, engine, "stale_job_recovered", {})
    assert await bench.one("select count(*) from alerts") == 3


@pytest.mark.spec("E32")
async def test_an_alert_whose_sender_is_killed_is_sent_by_the_next_with_the_same_id(
    bench: Bench, receiver: Receiver
) -> None:
    receiver.hang = True
    await raise_one(bench)
    script = f"""
        import asyncio
        from mediamill.db.connection import Database
        from mediamill.engine.alert_sender import send_waiting
        from mediamill.settings import Settings

        async def main():
            settings = Settings(alert_webhook_url={receiver.url!r}, alert_webhook_secret={SECRET!r},
                alert_allow_private=True, alert_timeout_seconds=600)
            await send_waiting(await Database.open({bench.database.url!r}), settings)

        asyncio.run(main())
    """
    sender = await asyncio.create_subprocess_exec(sys.executable, "-c", textwrap.dedent(script))

    async def called() -> bool:
        assert sender.returncode is None
        return bool(receiver.requests)

    await wait_until(called)
    sender.kill()
    await sender.wait()
    receiver.hang = False
    settings = settings_for(receiver.url)
    assert await send_waiting(bench.database, settings) == 0, "while the lease lasts, nobody sends it again"
    await bench.run("update alerts set try_after = now()")
    assert await send_waiting(bench.database, settings) == 1
    first, second = (headers["webhook-id"] for _, headers, _ in receiver.requests)
    assert first == second


async def test_a_test_alert_is_sent_at_once_beside_all_limits_and_says_what_is_wrong(
    bench: Bench, receiver: Receiver
) -> None:
    settings = settings_for(receiver.url)
    for _ in range(2):
        assert await send_test(bench.database, settings) is None
    assert [json.loads(body)["type"] for _, _, body in receiver.requests] == ["test", "test"]
    receiver.status = "403 Forbidden"
    assert await send_test(bench.database, settings) == "HTTP 403"
    private = settings_for(receiver.url, alert_allow_private=False)
    assert "not a public address" in str(await send_test(bench.database, private))
    assert len(receiver.requests) == 3
    assert await send_waiting(bench.database, settings) == 0, "nobody tries it again"
    async with bench.database.connection() as connection:
        states = [(alert["type"], alert["state"]) for alert in await list_alerts(connection)]
    assert states == [("test", "given_up"), ("test", "given_up"), ("test", "sent"), ("test", "sent")]

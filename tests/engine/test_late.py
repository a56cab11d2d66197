"""Who comes too late is told so, and so is whoever reads the log; what arrives in time is saved and passed on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from mediamill.db.connection import Connection
from mediamill.engine.alerts import raise_alert
from mediamill.engine.kinds import JobKind
from mediamill.engine.lease import report_on_job
from mediamill.engine.model import ClaimedJob
from mediamill.engine.settle import Elsewhere, Fate, Finish, finish_plain_jobs, reroute_job
from mediamill.errors import ClaimLostError
from tests.engine.conftest import Bench


@pytest.mark.spec("E5")
async def test_each_way_to_end_a_job_too_late_is_in_the_log_with_the_job(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mediamill.engine")

    def said(words: str) -> list[str]:
        found = [record.message for record in caplog.records if words in record.message]
        caplog.clear()
        return found

    await bench.enqueue(subject_id="g")
    (job,) = await bench.claim()
    await bench.run("update jobs set token = token + 1")  # it is somebody else's now
    lost = [f"job {job.id} (test.plain): the claim was lost, its result is dropped"]
    for gone in (False, True):
        if gone:
            await bench.run("delete from jobs")
        expected, words = (
            (["Job record missing for GUID g: its result is dropped"], "GUID") if gone else (lost, "lost")
        )
        async with bench.database.transaction() as connection:
            plain = await finish_plain_jobs(connection, job.worker_id, [Finish(job)])
        assert (plain.done, plain.lost, said(words)) == (set(), {job.id}, expected)
        assert ((await bench.finish(job)).lost, said(words)) == ({job.id}, expected)
        assert (await bench.fail(job), said(words)) == (Fate.LOST, expected)
        async with bench.database.transaction() as connection:
            assert not await reroute_job(connection, bench.engine, Elsewhere(job, "image/png"))
        assert said(words) == expected


@pytest.mark.spec("E5")
async def test_progress_is_saved_whether_or_not_somebody_wants_its_parts(bench: Bench) -> None:
    heard: list[Any] = []

    async def hear(_connection: Connection, job: ClaimedJob, parts: Mapping[str, Any]) -> None:
        heard.append((job.id, dict(parts)))

    bench.engine.kinds.add(JobKind("test.heard", on_progress=hear))
    for kind in ("test.plain", "test.heard"):
        await bench.enqueue(kind)
        (job,) = await bench.claim()
        saved = (
            "select (step, percent, parts, lease_expires_at > now() + interval '50 minutes')::text from jobs"
        )
        for parts in ({"page": 1}, [1], None):
            async with bench.database.connection() as connection:
                await report_on_job(
                    connection,
                    bench.engine.kinds,
                    job,
                    lease_seconds=3600,
                    step=f"{kind} {parts}",
                    percent=7,
                    parts=parts,
                )
            shown = await bench.one(f"{saved} where id = $1", job.id)
            assert f"{kind} " in shown
            assert shown.endswith(",t)")
        assert heard == ([(job.id, {"page": 1})] if kind == "test.heard" else [])
        stale = replace(job, token=job.token + 1)
        async with bench.database.connection() as connection:
            with pytest.raises(ClaimLostError):
                await report_on_job(connection, bench.engine.kinds, stale, lease_seconds=1, parts={"page": 2})
        assert len(heard) == int(kind == "test.heard"), "who lost the claim is not heard"


@pytest.mark.spec("E32")
async def test_an_alert_says_whether_it_goes_out(bench: Bench) -> None:
    async def raised(type_: Any = "job_failed_pattern", **rules: Any) -> bool:
        engine = replace(bench.engine, **{"alerts_on": True, **rules})
        async with bench.database.transaction() as connection:
            return await raise_alert(connection, engine, type_, {"id": 1})

    assert await raised(alerts_on=False) is False
    assert await raised("worker_startup") is False
    assert await bench.one("select count(*) from alerts") == 0
    assert [await raised(), await raised()] == [True, False]
    assert [await raised("worker_shutdown", alert_worker_events=True), await raised("worker_shutdown")] == [
        True,
        False,
    ]
    assert await bench.one("select array_agg(type order by id) from alerts") == [
        "job_failed_pattern",
        "worker_shutdown",
    ]


@pytest.mark.parametrize("way", ["finish", "fail", "reroute", "plain"])
async def test_what_comes_in_time_is_said_to_nobody_as_late(
    bench: Bench, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    caplog.set_level(logging.INFO, "mediamill.engine")
    await bench.enqueue(mime_type="audio/ogg", pool="default")
    (job,) = await bench.claim()
    ways: dict[str, Callable[[Connection], Any]] = {
        "finish": lambda _: bench.finish(job),
        "fail": lambda _: bench.fail(job),
        "reroute": lambda c: reroute_job(c, bench.engine, Elsewhere(job, "image/png")),
        "plain": lambda c: finish_plain_jobs(c, job.worker_id, [Finish(job)]),
    }
    async with bench.database.transaction() as connection:
        await ways[way](connection)
    assert not [record for record in caplog.records if "dropped" in record.message]
    assert await bench.state(job.id) == {"fail": "scheduled", "reroute": "queued"}.get(way, "finished")

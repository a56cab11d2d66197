"""What a person on call reads in /metrics: the same at every server, bounded, and true."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mediamill.db.connection import Database
from mediamill.engine.claim import Claimer
from mediamill.engine.model import ClaimedJob, Failure
from mediamill.engine.pools import list_pools
from mediamill.engine.recovery.sweep import take_turn
from mediamill.engine.settle import Finish, fail_job, finish_jobs
from mediamill.engine.workers import register_worker
from tests.api.serving import Served, serve
from tests.conftest import wait_until

Samples = dict[str, float]


async def scrape(served: Served) -> Samples:
    """Every sample by name and labels."""
    found: Samples = {}
    for family in text_string_to_metric_families((await served.client.get("/metrics")).text):
        for sample in family.samples:
            said = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{said}}}" if said else sample.name] = sample.value
    return found


async def claim(served: Served, amount: int) -> list[ClaimedJob]:
    """As a worker does."""
    async with served.database.connection() as connection:
        id_ = await register_worker(connection, name="a")
        pool = next(pool for pool in await list_pools(connection) if pool.name == "scripted")
        return await Claimer(id_, "a", served.engine.kinds).claim_jobs(connection, pool, amount)


@pytest.mark.spec("E33", "E16")
async def test_metrics_follow_jobs_from_claim_to_end_and_tell_how_long_they_took(served: Served) -> None:
    for _ in range(4):
        await served.enqueue(max_attempts=2)
    await served.run("update jobs set created_at = now() - interval '100 seconds'")
    before = await scrape(served)
    assert 100 <= before["mediamill_oldest_waiting_seconds{pool=scripted}"] < 1000
    assert before["mediamill_oldest_waiting_seconds{pool=default}"] == 0
    jobs = await claim(served, 4)
    assert (await scrape(served))["mediamill_claims_total{pool=scripted}"] == 4
    await served.run("update jobs set claimed_at = now() - interval '20 seconds'")
    await finish_jobs(served.database, served.engine, jobs[0].worker_id, [Finish(job) for job in jobs[:2]])
    async with served.database.transaction() as connection:
        pool = next(pool for pool in await list_pools(connection) if pool.name == "scripted")
        await fail_job(connection, served.engine, jobs[2], Failure("no", False), pool)
        await fail_job(connection, served.engine, jobs[3], Failure("never", True), pool)
    now = await scrape(served)
    labels = "kind=scripted.run,outcome={},pool=scripted"
    ended = {
        outcome: now[f"mediamill_attempts_total{{{labels.format(outcome)}}}"]
        for outcome in ("completed", "failed", "dead")
    }
    assert ended == {"completed": 2, "failed": 1, "dead": 1}
    took = "kind=scripted.run,le={},outcome=completed,pool=scripted"
    buckets = {
        bound: now[f"mediamill_attempt_seconds_bucket{{{took.format(bound)}}}"]
        for bound in ("15.0", "60.0", "+Inf")
    }
    assert buckets == {"15.0": 0, "60.0": 2, "+Inf": 2}
    assert now[f"mediamill_attempt_seconds_count{{{labels.format('completed')}}}"] == 2
    assert 40 <= now[f"mediamill_attempt_seconds_sum{{{labels.format('completed')}}}"] < 120
    assert now["mediamill_claims_total{pool=scripted}"] == 4
    assert now["mediamill_dead_jobs{reason=permanent}"] == now["mediamill_jobs{state=dead}"] == 1
    assert now["mediamill_failures_total"] == 2


@pytest.mark.spec("E33")
async def test_two_servers_tell_the_same_of_jobs_so_that_the_maximum_counts_nothing_twice(
    served: Served, tmp_path: Path
) -> None:
    for _ in range(3):
        await served.enqueue()
    await finish_jobs(served.database, served.engine, 1, [Finish(job) for job in await claim(served, 2)])
    async with serve(served.database, tmp_path) as other:
        one, two = await scrape(served), await scrape(other)
    shared = [name for name in one if name.startswith(("mediamill_jobs", "mediamill_queue", "mediamill_cl"))]
    shared += [name for name in one if name.startswith(("mediamill_attempt", "mediamill_workers"))]
    assert len(shared) > 20
    assert {name: one[name] for name in shared} == {name: two[name] for name in shared}


@pytest.mark.spec("E33")
async def test_metrics_tell_of_database_chores_alerts_disk_and_the_process(
    served: Served, database: Database
) -> None:
    assert await take_turn(database, "sweep_turn", 60)
    await served.run(
        "insert into alerts (type, data, sent_at, tries, last_error) values "
        "('a', '{}', null, 0, null), ('a', '{}', null, 2, 'HTTP 500'), ('a', '{}', now(), 1, null), "
        "('a', '{}', now(), 8, 'HTTP 500')"
    )
    async with database.transaction() as connection:
        await connection.execute("select 1")
        now = await scrape(served)
    assert now["mediamill_database_oldest_transaction_seconds"] > 0
    alerts = {
        state: now[f"mediamill_alerts{{state={state}}}"]
        for state in ("waiting", "failing", "sent", "given_up")
    }
    assert alerts == {"waiting": 1, "failing": 1, "sent": 1, "given_up": 1}
    at = await served.one("select extract(epoch from now())::float8")
    assert 0 <= at - now["mediamill_chore_last_run_timestamp_seconds{chore=sweep}"] < 600
    assert now["mediamill_database_bytes"] > 1_000_000
    used, most = (
        now[f"mediamill_database_server_connections{{state={state}}}"] for state in ("used", "most")
    )
    assert 1 <= used < most
    assert now["mediamill_database_pool{state=most}"] == database.pool.get_max_size()
    assert now["mediamill_database_pool{state=used}"] >= 1
    assert 0 < now["mediamill_disk_free_bytes"] <= now["mediamill_disk_bytes"]
    assert now["mediamill_process_resident_memory_bytes"] > 1_000_000
    assert any(name.startswith("mediamill_build_info{version=") for name in now)


@pytest.mark.spec("E33", "E31")
async def test_metrics_tell_who_follows_live_events(served: Served) -> None:
    async def told(name: str, value: float) -> bool:
        return (await scrape(served))[name] >= value

    assert (await scrape(served))["mediamill_event_streams"] == 0
    async with served.client.stream("GET", "/api/events") as answer:
        assert answer.status_code == 200
        await wait_until(lambda: told("mediamill_event_streams", 1))
        await served.run("insert into events (topic, subject, data) values ('job.failed', '1', '{}')")
        await wait_until(lambda: told("mediamill_events_sent_total", 1))

    async def gone() -> bool:
        return (await scrape(served))["mediamill_event_streams"] == 0

    await wait_until(gone)
    assert (await scrape(served))["mediamill_event_streams_dropped_total"] == 0


@pytest.mark.spec("E33")
async def test_labels_come_from_the_code_and_the_operator_and_never_from_who_sends_work(
    served: Served,
) -> None:
    before = set(await scrape(served))
    for number in range(30):
        await served.enqueue(
            owner=f"owner {number}", subject_id=f"subject {number}", mime_type=f"x/y{number}"
        )
    jobs = await claim(served, 100)
    await asyncio.gather(
        *(finish_jobs(served.database, served.engine, job.worker_id, [Finish(job)]) for job in jobs)
    )
    grown = set(await scrape(served)) - before
    assert not [name for name in grown if "owner" in name or "subject" in name or "x/y" in name]
    assert len(grown) < 20


@pytest.mark.spec("E33")
async def test_metrics_tell_how_requests_were_answered_and_how_soon(served: Served) -> None:
    before = await scrape(served)
    await served.client.get("/api/jobs")
    await served.client.get("/nothing/here")
    await served.client.post("/api/jobs", json={"kind": "no.such.kind"})
    await served.client.request("PROPFIND", "/api/jobs")
    async with served.client.stream("GET", "/api/events") as answer:
        assert answer.status_code == 200
        now = await scrape(served)
    grown = {name: now[name] - before[name] for name in now if name.startswith("mediamill_http_requests")}
    assert {name: value for name, value in grown.items() if value} == {
        "mediamill_http_requests_total{method=GET,status=2xx}": 3,  # the first scrape, the list, the stream
        "mediamill_http_requests_total{method=GET,status=4xx}": 1,
        "mediamill_http_requests_total{method=POST,status=4xx}": 1,
        "mediamill_http_requests_total{method=other,status=4xx}": 1,
    }
    count = now["mediamill_http_answer_seconds_count"]
    assert count - before["mediamill_http_answer_seconds_count"] == 6
    assert now["mediamill_http_answer_seconds_bucket{le=+Inf}"] == count
    assert 0 < now["mediamill_http_answer_seconds_sum"] < 600

"""The small print: what a subject is told at each move, how long lists are, which connections claims have."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from mediamill.db.connection import Connection
from mediamill.engine import browse, watch
from mediamill.engine.browse import browse_dead, browse_jobs, events_of_job, latest_events
from mediamill.engine.claim import connect_for_claims, connect_for_finishes
from mediamill.engine.dead import (
    FileGivenUpError,
    OutdatedJobError,
    give_up_files,
    purge_dead,
    requeue_dead,
    retry_job,
)
from mediamill.engine.deliver import deliver_results, reap_results
from mediamill.engine.enqueue import UnknownPoolError
from mediamill.engine.flight_dumps import list_dumps
from mediamill.engine.kinds import JobKind
from mediamill.engine.lease import report_progress
from mediamill.engine.model import Moved
from mediamill.engine.recovery.release import release_claims
from mediamill.engine.settle import Elsewhere, hand_back, reroute_job
from mediamill.engine.store import recovery
from mediamill.engine.workers import list_workers, process_key, register_worker
from mediamill.errors import ConflictError, Wait
from tests.engine.conftest import Bench

PLAIN = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "enable_memoize": "off",
}


async def test_a_subject_is_told_why_its_job_moves(bench: Bench) -> None:
    told: list[tuple[Any, ...]] = []

    async def hook(_connection: Connection, moved: Sequence[Moved]) -> None:
        told.extend((job.reason, job.error, job.final, job.notice) for job in moved)

    bench.engine.kinds.add(JobKind("test.told", on_released=hook, on_failed=hook))
    id_ = await bench.enqueue("test.told", max_attempts=9, mime_type="audio/ogg", pool="default")

    async def again() -> Any:
        await bench.run("update jobs set state = 'queued', pool = 'default'")
        (job,) = await bench.claim()
        return job

    await bench.fail(await again(), "e" * 600)
    before = await bench.one("select now()")
    await bench.fail(await again(), "no disk", wait=Wait())
    after = await bench.one("select now()")
    assert before <= await bench.one("select run_after from jobs") - timedelta(seconds=60) <= after
    assert await bench.one("select attempts from jobs") == 1, "the attempt was none"
    job = await again()
    await hand_back(bench.database, bench.engine, job.worker_id, [job])
    assert await bench.one("select attempts from jobs") == 1
    async with bench.database.transaction() as connection:
        assert await reroute_job(connection, bench.engine, Elsewhere(await again(), "image/png"))
        assert not await reroute_job(connection, bench.engine, Elsewhere(job, "image/png"))
    assert await bench.one("select pool from jobs") == "image"
    job = await again()
    async with bench.database.transaction() as connection:
        rows = await recovery.lock_claims_of_worker.rows(connection, worker_id=job.worker_id, batch=10)
        assert await release_claims(connection, bench.engine, rows) == 1
    await bench.fail(await again(), "the end", permanent=True, notice="sorry")
    async with bench.database.transaction() as connection:
        assert await requeue_dead(connection, bench.engine, [id_]) == [id_]
    assert told == [
        ("retry", "e" * 500, False, None),
        ("not_now", "no disk", False, None),
        ("handed_back", None, False, None),
        ("rerouted", None, False, None),
        ("stale_processing_requeued", "stale_processing_requeued", False, None),
        ("permanent", "the end", True, "sorry"),
        ("requeued", None, False, None),
    ]


async def test_a_dead_job_whose_subject_or_file_is_gone_is_not_requeued_and_says_why(bench: Bench) -> None:
    async def refuse(_connection: Connection, _moved: Sequence[Moved]) -> set[int]:
        return set()

    bench.engine.kinds.add(JobKind("test.outdated", on_requeued=refuse, requeue_fix="send it again"))
    outdated = await bench.enqueue("test.outdated")
    gone, kept = [
        await bench.enqueue(subject_id=guid, payload={"file": {"staged": guid}}) for guid in ("g", "h")
    ]
    for job in await bench.claim(amount=3):
        await bench.fail(job, permanent=True)
    async with bench.database.transaction() as connection:
        with pytest.raises(OutdatedJobError, match=f"job {outdated} .test.outdated. is outdated") as refused:
            await requeue_dead(connection, bench.engine, [outdated])
        assert refused.value.fix == "send it again"
        assert await give_up_files(connection, ["g", "nobody's"]) == {"g", "nobody's"}
        with pytest.raises(FileGivenUpError, match=f"file of job {gone}"):
            await requeue_dead(connection, bench.engine, [gone])
        assert await requeue_dead(connection, bench.engine, [outdated, gone, kept]) == [kept]
        assert await give_up_files(connection, ["h"]) == set(), "its job waits again"
        with pytest.raises(ConflictError, match=f"job {kept} is queued already"):
            await retry_job(connection, bench.engine, kept)
        assert await purge_dead(connection, None, kind="test.outdated") == [outdated]
        assert await purge_dead(connection, [gone, kept]) == [gone]


async def test_a_result_of_nothing_is_delivered_as_nothing_and_an_owner_reaps_its_own(bench: Bench) -> None:
    bench.engine.kinds.add(JobKind("test.reaped", reaped=True))
    empty = await bench.enqueue("test.delivered")
    reaped = [await bench.enqueue("test.reaped", owner="bot") for _ in range(3)]
    await bench.enqueue("test.reaped", owner="another")
    while jobs := await bench.claim(amount=5):
        for job in jobs:
            await bench.finish(job, result="[7]" if job.id == reaped[0] else None)
    assert await deliver_results(bench.database, bench.engine) == 1
    assert await bench.one("select result from deliveries where job_id = $1", empty) == "None"
    async with bench.database.transaction() as connection:
        first = await reap_results(connection, ["bot"], batch=2)
        rest = await reap_results(connection, ["bot"])
        assert await reap_results(connection, ["bot"]) == []
    assert [(one.job_id, one.result) for one in (*first, *rest)] == [
        (reaped[0], [7]),
        (reaped[1], None),
        (reaped[2], None),
    ]
    assert [await bench.state(id_) for id_ in (empty, *reaped)] == ["finished"] * 4


async def test_claims_and_finishes_have_connections_whose_plans_never_change(bench: Bench) -> None:
    for connect, name, more in (
        (connect_for_claims, "mediamill claims", {"synchronous_commit": "off", "enable_hashjoin": "off"}),
        (connect_for_finishes, "mediamill finishes", {"synchronous_commit": "on", "enable_nestloop": "off"}),
    ):
        expected = {"application_name": name, **PLAIN, **more}
        connection = await connect(bench.database.url)
        try:
            found = {key: await connection.fetchval(f"show {key}") for key in expected}
        finally:
            await connection.close()
        assert found == expected


async def test_a_job_for_a_pool_that_is_not_there_is_refused_with_or_without_a_key(bench: Bench) -> None:
    for key in (None, "k"):
        with pytest.raises(UnknownPoolError, match="there is no pool named nowhere"):
            await bench.enqueue(pool="nowhere", idempotency_key=key)
    async with bench.database.transaction() as connection:
        assert await bench.enqueuer.enqueue_jobs(connection, []) == []
    await bench.run("delete from pools")
    with pytest.raises(UnknownPoolError, match="no pool takes this job"):
        await bench.enqueue()


async def test_progress_is_between_none_and_all(bench: Bench) -> None:
    id_ = await bench.enqueue()
    (job,) = await bench.claim()
    for given, kept in ((-5.0, 0), (0.5, 0.5), (100.5, 100), (None, 100)):
        async with bench.database.connection() as connection:
            await report_progress(connection, job.claim, lease_seconds=60, percent=given)
            progress = await watch.job_progress(connection, [id_])
        assert progress[id_]["percent"] == pytest.approx(kept)


async def test_lists_have_so_many_entries_if_nothing_is_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench.database.transaction() as connection:
        for rows in (
            "into dead_jobs (id, kind, pool, owner, priority, payload, attempts, max_attempts, token, created_at, "
            "reason, error) select n, 'k', 'default', 'o', 1, '{}', 3, 3, 1, now(), 'permanent', 'no' "
            "from generate_series(1, 52) n",
            "into events (topic, subject, data) select 'job.failed', 's', jsonb_build_object('id', 7) "
            "from generate_series(1, 40)",
            "into flight_dumps (name, worker_id, worker_name, taken_at, bytes, content) "
            "select 'n' || n, 1, 'a', now(), 1, 'x' from generate_series(1, 102) n",
            "into throughput (minute, pool, worker_id, completed, failed) select "
            "date_trunc('minute', now()) - make_interval(mins => n), 'default', 1, 1, 0 from generate_series(0, 63) n",
        ):
            await connection.execute(f"insert {rows}")
        dead = await browse_dead(connection)
        assert ([job["id"] for job in dead.jobs], dead.next) == (list(range(52, 2, -1)), 3)
        assert len(await events_of_job(connection, 7)) == 30
        assert len(await latest_events(connection)) == 12
        assert len(await list_dumps(connection)) == 100
        assert len(await watch.throughput(connection)) == 60 + 1, "an hour, and the minute that has begun"
        monkeypatch.setattr(browse, "LOOK_SECONDS", -1.0)
        for look in (browse_jobs, browse_dead):
            short = await look(connection, span=5)
            assert len(short.jobs) < 50, "a page whose time is over is short"
            assert short.next is not None
            assert len((await look(connection, span=5, patient=True)).jobs) == 50


async def test_a_worker_is_of_this_machine_unless_it_is_remote_and_is_listed_for_an_hour(
    bench: Bench,
) -> None:
    async with bench.database.connection() as connection:
        near = await register_worker(connection, name="near")
        far = await register_worker(connection, name="far", type_="remote")
        rows = await connection.fetch("select id, type, hostname, process from workers order by id")
        assert [tuple(row) for row in rows] == [
            (near, "local", socket.gethostname(), process_key()),
            (far, "remote", None, None),
        ]
        await connection.execute(
            "update workers set state = 'offline', registered_at = now() - interval '61 minutes', "
            "heartbeat_at = now() - interval '61 minutes' where id = $1",
            near,
        )
        assert [worker["id"] for worker in await list_workers(connection)] == [far]
        assert {worker["id"] for worker in await list_workers(connection, all_=True)} == {near, far}


async def test_the_oldest_transaction_is_described_and_without_one_there_is_none(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        assert await watch.oldest_transaction(connection) is None
        async with bench.database.transaction() as open_one:
            await open_one.fetchval("select pg_current_xact_id()")
            oldest = await watch.oldest_transaction(connection)
        assert oldest is not None
        assert oldest["seconds"] >= 0

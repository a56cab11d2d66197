"""Leases: progress from the holder extends them; a late word changes nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from mediamill.db.connection import Connection
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.lease import (
    ProgressTooLargeError,
    extend_leases,
    report_on_job,
    report_progress,
)
from mediamill.engine.model import ClaimedJob
from mediamill.engine.settle import Fate, Finish, encode_result, finish_plain_jobs
from mediamill.errors import ClaimLostError, ConflictError
from tests.engine.conftest import Bench


async def report(bench: Bench, job: ClaimedJob, lease_seconds: float = 300, **progress: Any) -> None:
    async with bench.database.connection() as connection:
        await report_progress(connection, job.claim, lease_seconds=lease_seconds, **progress)


async def extend(bench: Bench, *jobs: ClaimedJob, lease_seconds: float = 300) -> set[int]:
    async with bench.database.connection() as connection:
        claims = [job.claim for job in jobs]
        return await extend_leases(
            connection, claims, worker_id=jobs[0].worker_id, lease_seconds=lease_seconds
        )


async def everything(bench: Bench) -> list[tuple[Any, ...]]:
    """All that a job could become, to see that nothing changed."""
    async with bench.database.connection() as connection:
        return [
            tuple(row)
            for table in ("jobs", "finished_jobs", "dead_jobs", "subjects", "events", "counters")
            for row in await connection.fetch(f"select * from {table} order by 1")
        ]


@pytest.mark.spec("E3")
async def test_a_second_claim_of_one_job_counts_on_and_keeps_the_first_start(bench: Bench) -> None:
    id_ = await bench.enqueue()
    tokens, starts, attempts = [], [], []
    for worker in ("a", "b", "c"):
        (job,) = await bench.claim(worker)
        tokens.append(job.token)
        attempts.append(job.attempts)
        starts.append(await bench.one("select started_at from jobs where id = $1", id_))
        held = await bench.one("select row(worker_id, worker_name, claimed_at is null)::text from jobs")
        assert held == f"({job.worker_id},{worker},f)"
        await bench.run("update jobs set state = 'queued', claimed_at = null, lease_expires_at = null")
    assert attempts == [1, 2, 3]
    assert tokens == sorted(set(tokens))
    assert len(set(starts)) == 1


@pytest.mark.spec("E3")
async def test_the_name_of_the_last_worker_stays_on_a_job_that_died(bench: Bench) -> None:
    id_ = await bench.enqueue()
    await bench.fail((await bench.claim("last"))[0], permanent=True)
    assert await bench.one("select worker_name from dead_jobs where id = $1", id_) == "last"


@pytest.mark.spec("E4")
async def test_progress_from_the_holder_is_saved_and_extends_the_lease(bench: Bench) -> None:
    id_ = await bench.enqueue()
    (job,) = await bench.claim()
    before = await bench.one("select lease_expires_at from jobs where id = $1", id_)
    await report(bench, job, 9000, step="encode", percent=40, parts={"720p": 80}, checkpoint={"at": 7})
    row = await bench.one("select row(step, percent, parts, checkpoint)::text from jobs where id = $1", id_)
    assert row == '(encode,40,"{""720p"": 80}","{""at"": 7}")'
    after = await bench.one("select lease_expires_at from jobs where id = $1", id_)
    assert (after - before).total_seconds() > 8000
    # What a later report does not name stays as it was.
    await report(bench, job, percent=140)
    assert await bench.one("select row(step, percent)::text from jobs where id = $1", id_) == "(encode,100)"


@pytest.mark.spec("E4")
async def test_parts_and_checkpoint_reach_the_next_attempt(bench: Bench) -> None:
    await bench.enqueue()
    (first,) = await bench.claim("a")
    await report(bench, first, parts={"p": 1}, checkpoint={"segment": 12})
    await bench.fail(first)
    await bench.run("update jobs set state = 'queued'")
    (second,) = await bench.claim("b")
    assert second.checkpoint_json == '{"segment": 12}'
    assert await bench.one("select parts from jobs") == '{"p": 1}'


@pytest.mark.spec("E4")
async def test_a_report_that_is_too_large_is_refused_and_the_claim_stays(bench: Bench) -> None:
    id_ = await bench.enqueue()
    (job,) = await bench.claim()
    with pytest.raises(ProgressTooLargeError):
        await report(bench, job, checkpoint={"x": "y" * 1_000_001})
    assert await bench.state(id_) == "running"


@pytest.mark.spec("E4", "E11")
async def test_results_and_checkpoints_with_nul_characters_are_kept_without_them(bench: Bench) -> None:
    """One of them must not keep a whole batch from being finished."""
    ids = [await bench.enqueue() for _ in range(2)]
    bad, good = await bench.claim(amount=2)
    awkward = {"text": "a\x00b", "path": "\\u0000", "more": "\\\x00"}
    await report(bench, bad, checkpoint=awkward, parts=[awkward])
    finishes = [Finish(bad, encode_result(bench.engine, awkward)), Finish(good)]
    async with bench.database.connection() as connection:
        assert (await finish_plain_jobs(connection, bad.worker_id, finishes)).done == set(ids)
        kept = json.loads(await connection.fetchval("select result from finished_jobs where id = $1", bad.id))
    assert kept == {"text": "a\ufffdb", "path": "\\u0000", "more": "\\\ufffd"}


@pytest.mark.spec("E4", "E5")
async def test_signs_of_life_extend_what_is_held_and_name_what_is_not(bench: Bench) -> None:
    for _ in range(3):
        await bench.enqueue()
    kept, expired, gone = await bench.claim(amount=3)
    await bench.expire(expired.id)
    await bench.run("delete from jobs where id = $1", gone.id)
    assert await extend(bench, kept, expired, gone, lease_seconds=5000) == {kept.id}
    left = await bench.one(
        "select extract(epoch from lease_expires_at - now()) from jobs where id = $1", kept.id
    )
    assert left > 4000
    assert await bench.one("select lease_expires_at < now() from jobs where id = $1", expired.id)


async def say_everything_late(bench: Bench, job: ClaimedJob) -> None:
    """Complete, fail, progress, sign of life."""
    settled = await bench.finish(job, result='{"late": true}')
    assert settled.lost == {job.id}
    assert not settled.done
    assert not settled.failed
    assert await bench.fail(job, "late") is Fate.LOST
    assert await bench.fail(job, "late", permanent=True) is Fate.LOST
    with pytest.raises(ClaimLostError) as lost:
        await report(bench, job, step="late", percent=99, checkpoint={"late": True})
    assert lost.value.code == "claim_lost"
    assert isinstance(lost.value, ConflictError)
    assert await extend(bench, job) == set()


@pytest.mark.spec("E5")
@pytest.mark.parametrize("kind", ["test.plain", "test.subject", "test.delivered"])
async def test_after_its_lease_is_over_a_worker_changes_nothing(
    bench: Bench, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.enqueue(kind, subject_id="s")
    (job,) = await bench.claim()
    await bench.expire(job.id)
    before = await everything(bench)
    await say_everything_late(bench, job)
    assert await everything(bench) == before
    assert "the claim was lost" in caplog.text


@pytest.mark.spec("E5")
@pytest.mark.parametrize("kind", ["test.plain", "test.subject", "test.delivered"])
async def test_after_a_takeover_the_first_worker_changes_nothing_and_the_second_finishes(
    bench: Bench, kind: str
) -> None:
    await bench.enqueue(kind, subject_id="s")
    (first,) = await bench.claim("first")
    await bench.run("update jobs set state = 'queued'")
    (second,) = await bench.claim("second")
    before = await everything(bench)
    await say_everything_late(bench, first)
    assert await everything(bench) == before
    assert (await bench.finish(second)).done == {second.id}


@pytest.mark.spec("E5")
async def test_a_token_alone_or_a_worker_alone_is_not_a_claim(bench: Bench) -> None:
    await bench.enqueue()
    (job,) = await bench.claim("a")
    await bench.worker("b")
    other = ClaimedJob(**{name: getattr(job, name) for name in ClaimedJob.__slots__})
    other.worker_id = bench.claimers["b"].worker_id
    before = await everything(bench)
    await say_everything_late(bench, other)
    other.worker_id, other.token = job.worker_id, job.token + 1
    await say_everything_late(bench, other)
    assert await everything(bench) == before


@pytest.mark.spec("E5", "E11")
async def test_when_the_row_is_gone_the_worker_says_so_and_drops_its_result(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.enqueue(subject_id="3f2c")
    await bench.enqueue()
    named, nameless = await bench.claim(amount=2)
    await bench.run("delete from jobs")
    before = await everything(bench)
    await say_everything_late(bench, named)
    await say_everything_late(bench, nameless)
    assert await everything(bench) == before
    missing = [record for record in caplog.records if "Job record missing" in record.message]
    assert {record.levelno for record in missing} == {logging.WARNING}
    assert any("Job record missing for GUID 3f2c" in record.message for record in missing)
    assert any(f"Job record missing for GUID {nameless.id}" in record.message for record in missing)


@pytest.mark.spec("E4")
@pytest.mark.parametrize(("progress", "waits"), [({"percent": 5}, "off"), ({"checkpoint": [1]}, "on")])
async def test_only_a_report_with_a_checkpoint_waits_for_the_disk(
    bench: Bench, progress: dict[str, Any], waits: str
) -> None:
    """What notifies is committed one after the other: it would keep every finish waiting."""
    await bench.enqueue()
    (job,) = await bench.claim("w")
    async with bench.database.connection() as connection:
        async with connection.transaction():
            await report_progress(connection, job.claim, lease_seconds=300, **progress)
            assert await connection.fetchval("show synchronous_commit") == waits
        assert await connection.fetchval("show synchronous_commit") == "on"


async def test_a_subject_that_wants_to_know_is_told_of_parts_with_the_report(bench: Bench) -> None:
    told: list[object] = []

    async def on_progress(_connection: Connection, job: ClaimedJob, parts: Mapping[str, Any]) -> None:
        told.append((job.id, parts))
        if parts.get("refuse"):
            raise RuntimeError("no")

    kinds = Kinds([JobKind("test.plain", on_progress=on_progress)])
    id_ = await bench.enqueue()
    (job,) = await bench.claim()
    async with bench.database.connection() as connection:
        await report_on_job(connection, kinds, job, lease_seconds=60, percent=10, parts={"a": 1})
        await report_on_job(connection, kinds, job, lease_seconds=60, percent=20)
        await report_on_job(connection, kinds, job, lease_seconds=60, percent=30, parts=[1])
        await report_on_job(connection, bench.engine.kinds, job, lease_seconds=60, percent=40, parts={"b": 1})
        with pytest.raises(RuntimeError):
            await report_on_job(connection, kinds, job, lease_seconds=60, percent=50, parts={"refuse": True})
    assert told == [(id_, {"a": 1}), (id_, {"refuse": True})]
    assert await bench.one("select percent from jobs where id = $1", id_) == 40

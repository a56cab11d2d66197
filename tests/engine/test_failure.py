"""Failures: permanent or temporary, back-off, and the dead letter at the end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mediamill.engine.model import backoff_seconds, failure_of
from mediamill.engine.watch import counters
from mediamill.errors import GiveUpError, RetryLaterError
from tests.engine.conftest import Bench


@pytest.mark.spec("E7")
@pytest.mark.parametrize(
    ("error", "permanent"),
    [
        (GiveUpError("anything"), True),
        (RetryLaterError("anything"), False),
        (ValueError("Empty document"), True),
        (RuntimeError("reader says: DOCUMENT TOO LARGE (9 GB)"), True),
        (OSError("empty image data"), True),
        (ValueError("the document is empty"), False),
        (TimeoutError(), False),
        (MemoryError(), False),
    ],
)
def test_permanent_is_told_by_type_or_by_the_few_known_texts(error: Exception, permanent: bool) -> None:
    assert failure_of(error).permanent is permanent
    assert failure_of(error).error


@pytest.mark.spec("E7")
async def test_a_permanent_failure_is_dead_at_once_with_its_whole_story(bench: Bench) -> None:
    id_ = await bench.enqueue(payload={"a": 1}, owner="o", subject_id="s")
    (job,) = await bench.claim()
    trace = "Traceback (most recent call last):\n" + "  a line\n" * 2000
    assert await bench.fail(job, "x" * 2000, permanent=True, traceback=trace)
    async with bench.database.connection() as connection:
        row = await connection.fetchrow("select * from dead_jobs where id = $1", id_)
    assert row is not None
    assert (row["reason"], row["traceback"], row["error"]) == ("permanent", trace, "x" * 2000)
    assert (row["payload"], row["owner"], row["subject_id"], row["attempts"]) == ('{"a": 1}', "o", "s", 1)
    assert await bench.state(id_) == "dead"


@pytest.mark.spec("E7")
async def test_a_temporary_failure_waits_longer_each_time_and_keeps_a_short_error(bench: Bench) -> None:
    await bench.run("update pools set backoff_seconds = 10, backoff_limit_seconds = 35")
    id_ = await bench.enqueue(max_attempts=10)
    for wait in (10, 20, 35, 35):
        (job,) = await bench.claim()
        before = await bench.one("select now()")
        await bench.fail(job, "e" * 900)
        after = await bench.one("select now()")
        assert await bench.state(id_) == "scheduled"
        assert await bench.claim() == []
        failed_at = await bench.one("select run_after from jobs") - timedelta(seconds=wait)
        assert before <= failed_at <= after
        assert await bench.one("select error from jobs") == "e" * 500
        await bench.run("update jobs set state = 'queued'")


@pytest.mark.spec("E7")
def test_the_back_off_doubles_up_to_its_limit_and_never_overflows() -> None:
    assert [backoff_seconds(n, 2, 300) for n in range(1, 10)] == [2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert backoff_seconds(1000, 2, 300) == 300
    assert backoff_seconds(5, 0, 300) == 0


@pytest.mark.spec("E7")
async def test_when_the_attempts_are_used_up_the_job_is_dead_and_says_so(bench: Bench) -> None:
    id_ = await bench.enqueue(max_attempts=2)
    for expected in ("scheduled", "dead"):
        (job,) = await bench.claim()
        await bench.fail(job, "again", traceback="the trace")
        assert await bench.state(id_) == expected
        await bench.run("update jobs set state = 'queued'")
    assert await bench.one("select reason from dead_jobs") == "max_attempts_exhausted"
    assert await bench.one("select traceback from dead_jobs") == "the trace"
    async with bench.database.connection() as connection:
        assert await counters(connection) == {"stale_recovered": 0, "retries_exhausted": 1, "failures": 2}


@pytest.mark.spec("E7")
async def test_a_pool_without_retries_gives_up_at_the_first_failure(bench: Bench) -> None:
    await bench.run("update pools set retry = false")
    id_ = await bench.enqueue()
    (job,) = await bench.claim()
    await bench.fail(job, "no")
    assert await bench.state(id_) == "dead"
    assert await bench.one("select reason from dead_jobs") == "no_retry"


@pytest.mark.spec("E7")
@pytest.mark.parametrize("permanent", [True, False])
async def test_an_error_with_bytes_that_the_database_refuses_is_kept_without_them(
    bench: Bench, permanent: bool
) -> None:
    id_ = await bench.enqueue()
    (job,) = await bench.claim()
    text = "bad\x00byte in \udcff.jpg"
    assert await bench.fail(job, text, permanent, traceback=text)
    assert await bench.state(id_) == ("dead" if permanent else "scheduled")
    table = "dead_jobs" if permanent else "jobs"
    assert "byte in" in await bench.one(f"select error from {table}")

"""Failures: permanent or temporary, back-off, and the dead letter at the end."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest

from mediamill.engine import (
    alert_address,
    alert_sender,
    dead,
    enqueue,
    flight_dumps,
    kinds,
    lease,
    pools,
    settle,
    workers,
)
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.model import (
    Command,
    Failure,
    Priority,
    WorkerState,
    backoff_seconds,
    failure_of,
    has_nul,
    without_nul,
)
from mediamill.engine.settle import Fate, fail_in_any_case
from mediamill.engine.watch import counters
from mediamill.errors import GiveUpError, InvalidError, RetryLaterError
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
        assert await counters(connection) == {
            "stale_recovered": 0,
            "stalled": 0,
            "retries_exhausted": 1,
            "failures": 2,
        }


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


def test_nul_in_json_is_found_only_where_it_is_one() -> None:
    assert has_nul(rb'{"a": "\u0000"}')
    assert not has_nul(rb'{"a": "\\u0000"}')
    assert not has_nul(b"{}")
    assert without_nul(rb'["\u0000", "\\u0000"]') == rb'["\ufffd", "\\u0000"]'


def test_bytes_that_the_database_refuses_are_written_out_in_every_part_of_a_failure() -> None:
    failure = Failure("a\0", True, "b\0", "c\ud800")
    assert (failure.error, failure.traceback, failure.notice) == ("a\\x00", "b\\x00", "c\\ud800")
    assert Failure("a", True).traceback is Failure("a", True).notice is None


def test_states_and_commands_are_known_by_these_words() -> None:
    assert list(WorkerState) == ["active", "idle", "busy", "paused", "offline", "disabled"]
    assert list(Command) == ["pause", "resume", "shutdown", "forensic_dump"]
    assert [*map(int, Priority)] == [0, 1, 2]


async def test_a_subject_that_refuses_even_the_failure_does_not_keep_its_job(bench: Bench) -> None:
    id_ = await bench.enqueue("test.subject", subject_id="s", payload={"refuse": "failed"})
    (job,) = await bench.claim()
    failure, pool = Failure("no", True), await bench.pool()
    assert await fail_in_any_case(bench.database, bench.engine, job, failure, pool) == Fate.DEAD
    assert (await bench.state(id_), await bench.subject("s")) == ("dead", "claimed")
    await bench.enqueue("test.subject", subject_id="t", payload={"meet": "failed"})
    (other,) = await bench.claim()
    with pytest.raises(asyncpg.DeadlockDetectedError):
        await fail_in_any_case(bench.database, bench.engine, other, failure, pool)
    assert await bench.state(other.id) == "running"


def test_programs_know_a_refusal_of_the_engine_by_its_code() -> None:
    modules = (alert_address, alert_sender, dead, enqueue, flight_dumps, kinds, lease, pools, settle, workers)
    errors = [one for module in modules for one in vars(module).values() if isinstance(one, type)]
    found = {
        one.code for one in errors if one.__module__.startswith("mediamill.engine") and hasattr(one, "code")
    }
    assert found == {
        *(
            "webhook_address_refused",
            "webhook_secret_invalid",
            "unknown_job",
            "outdated_job",
            "file_given_up",
        ),
        *("payload_invalid", "payload_too_large", "unknown_pool", "unknown_dump", "dump_invalid"),
        *("dump_too_large", "unknown_kind", "hook_failed", "progress_too_large", "pool_invalid"),
        *("result_too_large", "unknown_worker", "worker_key_invalid", "worker_key_revoked"),
        "worker_replaced",
    }


def test_a_kind_is_plain_if_only_its_job_moves_and_its_result_goes_one_way() -> None:
    async def hook(*_: object) -> None: ...

    assert JobKind("a").is_plain
    assert JobKind("a", on_claimed=hook, on_failed=hook).is_plain
    for kind in (JobKind("a", on_completed=hook), JobKind("a", deliver=hook), JobKind("a", reaped=True)):
        assert not kind.is_plain
    assert [JobKind("a", deliver=hook).saves_result, JobKind("a", on_completed=hook).saves_result] == [
        True,
        False,
    ]
    with pytest.raises(InvalidError, match="declared twice"):
        Kinds([JobKind("a"), JobKind("a")])
    for more in ({"deliver": hook, "reaped": True}, {"deliver": hook, "on_completed": hook}):
        with pytest.raises(InvalidError, match="one way only"):
            Kinds([JobKind("a", **more)])
    with pytest.raises(RetryLaterError, match="does not know the job kind b"):
        Kinds([JobKind("a")]).get_or_retry("b")
    assert Kinds([JobKind("a")]).get_or_retry("a").name == "a"

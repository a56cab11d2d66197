"""What can be seen of the engine: depths, states, figures."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from mediamill.db.connection import Connection
from mediamill.engine import figures, watch
from mediamill.engine.browse import browse_jobs, tracebacks_of
from mediamill.engine.dead import UnknownJobError, purge_jobs
from mediamill.engine.hold import forget_owner, hold_owner, release_owner
from mediamill.engine.kinds import JobKind
from mediamill.engine.model import Moved, NewJob
from mediamill.engine.recovery.sweep import take_turn
from mediamill.engine.workers import take_session_lock
from tests.engine.conftest import Bench

LATER = timedelta(hours=1)


async def every_state(bench: Bench) -> dict[str, int]:
    """A job in each state: its id."""
    ids = {"running": await bench.enqueue(subject_id="r")}
    (running,) = await bench.claim()
    assert running.id == ids["running"]
    ids["finished"] = await bench.enqueue(subject_id="f")
    (finished,) = await bench.claim()
    await bench.finish(finished, result='{"text": "done"}')
    ids["dead"] = await bench.enqueue(subject_id="d")
    (dead,) = await bench.claim()
    await bench.fail(dead, permanent=True)
    ids["queued"] = await bench.enqueue(subject_id="q")
    ids["scheduled"] = await bench.enqueue(subject_id="s", run_after=datetime.now(UTC) + LATER)
    ids["held"] = await bench.enqueue(subject_id="h", owner="bot")
    async with bench.database.transaction() as connection:
        assert await hold_owner(connection, "bot") == 1
    return ids


async def test_jobs_are_counted_by_state_pool_and_reason(bench: Bench) -> None:
    ids = await every_state(bench)
    async with bench.database.connection() as connection:
        states = await watch.count_states(connection)
        seen = await watch.overview(connection)
        assert states == {"queued": 1, "scheduled": 1, "running": 1, "held": 1, "completed": 0}
        assert (seen["states"], seen["dead"]) == (states, 1)
        assert seen["counters"] == {"stale_recovered": 0, "stalled": 0, "retries_exhausted": 0, "failures": 1}
        depth = next(pool for pool in seen["pools"] if pool["pool"] == "default")
        assert (depth["queued"], depth["running"], depth["held"]) == (1, 1, 1)
        reasons = await watch.count_dead_by_reason(connection)
        assert (reasons["permanent"], reasons["no_retry"], list(reasons)) == (1, 0, sorted(reasons))
        assert await watch.count_pending(connection) == 2
        assert await watch.totals(connection) == {"completed": 1, "failed": 1}
        assert await watch.depth_of_pool(connection, "default") == 1
        assert await watch.depth_of_pool(connection, "default", most=0) == 0
        assert await watch.depth_of_pool(connection, "unheard of") == 0
        assert await watch.pools_with_work(connection, ["default", "unheard of"]) == [("default", 1)]
        assert [owner["owner"] for owner in await watch.held_owners(connection)] == ["bot"]
        assert await watch.subjects_at_work(connection, ["q", "f", "x"]) == {"q"}
        assert await watch.job_states(connection, [*ids.values(), 999_999]) == {
            **{id_: state for state, id_ in ids.items()},
            999_999: None,
        }
        progress = await watch.job_progress(connection, list(ids.values()))
        assert {ids["running"], ids["queued"]} <= set(progress)
        assert progress[ids["running"]]["state"] == "running"
        assert ids["finished"] not in progress
        results = await watch.results_of(connection, [ids["finished"], 999_999])
        assert {id_: json.loads(text or "null") for id_, text in results.items()} == {
            ids["finished"]: {"text": "done"}
        }
        minutes = await watch.throughput(connection)
        assert sum(row["completed"] for row in minutes) == 1


async def test_states_without_jobs_are_zeros_and_reasons_of_older_versions_are_shown(bench: Bench) -> None:
    await bench.enqueue()
    (job,) = await bench.claim()
    await bench.fail(job, permanent=True)
    await bench.run("update dead_jobs set reason = 'of_an_older_version'")
    async with bench.database.connection() as connection:
        assert set((await watch.count_states(connection)).values()) == {0}
        reasons = await watch.count_dead_by_reason(connection)
        assert (reasons["of_an_older_version"], reasons["permanent"]) == (1, 0)


async def test_workers_are_counted_by_state_and_a_served_engine_has_one_that_lives(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        assert not await watch.is_served(connection)
    claimer = await bench.worker()
    async with bench.database.connection() as connection:
        await take_session_lock(connection, claimer.worker_id)
        assert await watch.is_served(connection)
        workers = await watch.count_workers(connection)
    assert sum(workers.values()) == 1
    assert set(workers) == {"idle", "busy", "offline", "disabled"} | set(workers)


async def test_the_database_is_described(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        facts = await watch.database_facts(connection)
        assert str(facts["version"])[:1].isdigit() or "PostgreSQL" in str(facts["version"])
        assert facts["size_bytes"] > 1_000_000
        clock = await watch.database_clock(connection)
        assert abs((clock - datetime.now(UTC)).total_seconds()) < 600


async def test_the_oldest_open_transaction_is_found(bench: Bench) -> None:
    async with bench.database.transaction() as open_one, bench.database.connection() as connection:
        await open_one.fetchval("select pg_current_xact_id()")
        found = await watch.oldest_transaction(connection)
    assert found is not None
    assert found


async def test_all_figures_of_the_database_are_read_at_once(bench: Bench) -> None:
    await every_state(bench)
    await take_turn(bench.database, "sweep_turn", 60)
    await bench.run("update jobs set created_at = created_at - interval '100 seconds'")
    async with bench.database.connection() as connection:
        read = await figures.read_figures(connection)
        alerts = await figures.alerts(connection)
        chores = await figures.last_runs(connection)
    assert (read.completed, read.failed, read.counters["failures"]) == (1, 1, 1)
    assert (read.states["queued"], read.dead["permanent"], read.depths["default"]) == (1, 1, 1)
    assert read.oldest_seconds["default"] >= 0
    assert set(read.alerts) == {"waiting", "failing", "sent", "given_up"} <= set(alerts)
    assert sum(read.workers.values()) == 1
    assert sum(read.claims.values()) == 3
    assert read.ended
    assert read.chores == {name: at.timestamp() for name, at in chores.items()}
    assert max(read.chores.values()) == pytest.approx(time.time(), abs=600)
    assert read.database


def test_an_age_is_never_negative_and_nothing_has_none() -> None:
    assert figures._age(None) == 0
    assert figures._age(datetime.now(UTC) + LATER) == 0
    assert figures._age(datetime.now(UTC) - LATER) == pytest.approx(3600, abs=60)


async def test_the_jobs_of_an_owner_that_is_gone_are_thrown_away_but_not_what_runs(bench: Bench) -> None:
    ids = await every_state(bench)
    async with bench.database.transaction() as connection:
        assert await forget_owner(connection, "bot") == 1
        assert await watch.held_owners(connection) == []
        assert await release_owner(connection, "bot") == 0
    assert await bench.state(ids["held"]) is None
    assert await bench.state(ids["queued"]) == "queued"


async def test_of_all_processes_one_has_the_turn(bench: Bench) -> None:
    assert await take_turn(bench.database, "sweep_turn", 60)
    assert not await take_turn(bench.database, "sweep_turn", 60)
    assert await take_turn(bench.database, "janitor_turn", 60)


async def test_a_page_has_fifty_jobs_and_says_where_the_next_begins(bench: Bench) -> None:
    async with bench.database.transaction() as connection:
        ids = await bench.enqueuer.enqueue_jobs(connection, [NewJob("test.plain") for _ in range(51)])
        page = await browse_jobs(connection)
        assert ([job["id"] for job in page.jobs], page.next) == (ids[:0:-1], ids[1])
        rest = await browse_jobs(connection, before=page.next, patient=True)
        assert ([job["id"] for job in rest.jobs], rest.next) == (ids[:1], None)
        few = await browse_jobs(connection, amount=20, span=10, patient=True)
        assert [job["id"] for job in few.jobs] == ids[:-21:-1]
        await connection.execute("update jobs set state = 'held'")
        held = await browse_jobs(connection, state="held", amount=2)
        assert ([job["id"] for job in held.jobs], held.next) == (ids[:-3:-1], ids[-2])


async def test_what_is_known_of_a_job_names_its_state_wherever_it_is(bench: Bench) -> None:
    ids = await every_state(bench)
    async with bench.database.connection() as connection:
        for state, id_ in ids.items():
            shown = await watch.show_job(connection, id_)
            assert (shown["id"], shown["state"]) == (id_, state)
        with pytest.raises(UnknownJobError, match="no job 999999"):
            await watch.show_job(connection, 999_999)
        await connection.execute("update dead_jobs set traceback = 'a traceback'")
        assert await tracebacks_of(connection, list(ids.values())) == {ids["dead"]: "a traceback"}


async def test_hooks_get_what_they_need_to_know_of_a_job(bench: Bench) -> None:
    seen: list[Moved] = []

    async def hook(_connection: Connection, moved: Sequence[Moved]) -> None:
        seen.extend(moved)

    bench.engine.kinds.add(JobKind("test.told", on_failed=hook, on_completed=hook))
    await bench.enqueue(
        "test.told", owner="bot", subject_id="s", mime_type="audio/ogg", payload={"a": 1}, pool="default"
    )
    (job,) = await bench.claim()
    await bench.finish(job, result='{"text": 1}')
    told = Moved(job.id, "test.told", "bot", "s", 1, {"a": 1}, {"text": 1}, mime_type="audio/ogg")
    assert seen == [told]
    id_ = await bench.enqueue("test.told", payload={})
    async with bench.database.transaction() as connection:
        assert await purge_jobs(connection, bench.engine, [id_]) == [id_]
    assert (seen[1].job_id, seen[1].reason, seen[1].error, seen[1].final) == (id_, "purged", "purged", True)

"""The janitor: what nobody moves goes to the dead letter, what was kept long enough is forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mediamill.engine.hold import hold_owner, release_owner
from mediamill.engine.recovery.janitor import bury_forgotten, forget_old
from mediamill.engine.recovery.served import note_served
from mediamill.engine.recovery.sweep import JANITOR, run_chore, run_chores
from mediamill.engine.workers import register_worker
from tests.engine.conftest import Bench
from tests.outages import let_time_pass


async def age(bench: Bench, hours: float) -> None:
    """All jobs become older, while workers serve all pools."""
    await let_time_pass(bench.database, hours, served=True)


@pytest.mark.spec("E34")
async def test_jobs_that_nobody_moved_for_three_hours_go_to_the_dead_letter_with_their_subjects(
    bench: Bench,
) -> None:
    for n in range(120):
        await bench.enqueue("test.subject", subject_id=f"s{n}")
    await age(bench, 2.9)
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 0
    await age(bench, 0.2)
    young = await bench.enqueue()
    async with bench.database.transaction() as connection:
        assert await bury_forgotten(connection, bench.engine) == 50
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 70
    assert await bench.one("select count(*) from dead_jobs where reason = 'abandoned'") == 120
    assert await bench.one("select count(*) from subjects where status = 'failed'") == 120
    assert await bench.state(young) == "queued"


@pytest.mark.spec("E12", "E34")
async def test_a_result_that_waits_for_an_owner_on_hold_is_not_forgotten(bench: Bench) -> None:
    away, here = await bench.enqueue("test.delivered", owner="bot"), await bench.enqueue("test.delivered")
    for job in await bench.claim(amount=2):
        await bench.finish(job, result='"text"')
    async with bench.database.transaction() as connection:
        await hold_owner(connection, "bot")
    await age(bench, 100)
    await run_chore(bench.database, bench.engine, bury_forgotten)
    assert [await bench.state(away), await bench.state(here)] == ["completed", "dead"]


@pytest.mark.spec("E34")
async def test_time_in_which_nothing_could_run_makes_no_job_older(bench: Bench) -> None:
    done, waits = await bench.enqueue("test.delivered"), await bench.enqueue()
    await bench.finish(*await bench.claim(), result='"text"')
    await age(bench, 2)
    await let_time_pass(bench.database, 5, served=False)
    await note_served(bench.database)
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 0
    await age(bench, 0.9)
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 0
    await age(bench, 0.2)
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 2
    assert [await bench.state(waits), await bench.state(done)] == ["dead", "dead"]


@pytest.mark.spec("E34")
async def test_the_age_of_what_an_owner_on_hold_has_counts_from_its_return(bench: Bench) -> None:
    done = await bench.enqueue("test.delivered", owner="bot")
    await bench.finish(*await bench.claim(), result='"text"')
    waits = await bench.enqueue(owner="bot")
    async with bench.database.transaction() as connection:
        await hold_owner(connection, "bot")
    await age(bench, 100)
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 0
    async with bench.database.transaction() as connection:
        assert await release_owner(connection, "bot") == 1
    await age(bench, 2.9)
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 0
    assert [await bench.state(waits), await bench.state(done)] == ["queued", "completed"]
    await age(bench, 0.2)
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 2


@pytest.mark.spec("E34")
async def test_a_pool_is_served_while_a_server_runs_and_a_worker_of_it_lives_and_is_not_paused(
    bench: Bench,
) -> None:
    async with bench.database.connection() as connection:
        worker = await register_worker(connection, name="w", pools=["scripted"])

    async def minute_later(minutes: float = 1) -> dict[str, list[int]]:
        """The spans of each pool, in seconds."""
        await let_time_pass(bench.database, minutes / 60, served=False)
        await note_served(bench.database)
        spans = "array_agg(extract(epoch from until_at - since_at)::integer order by since_at)"
        async with bench.database.connection() as connection:
            rows = await connection.fetch(f"select pool, {spans} as spans from served group by pool")
        return {row["pool"]: row["spans"] for row in rows}

    assert await minute_later() == {"": [0], "scripted": [0]}
    assert await minute_later() == {"": [60], "scripted": [60]}
    await bench.run("update workers set state = 'paused' where id = $1", worker)
    assert await minute_later() == {"": [120], "scripted": [60]}
    await bench.run("update workers set state = 'idle' where id = $1", worker)
    assert await minute_later() == {"": [180], "scripted": [180]}
    assert await minute_later(5) == {"": [180, 0], "scripted": [180, 0]}
    await bench.run("update workers set session_lost_at = now() where id = $1", worker)
    assert await minute_later() == {"": [180, 60], "scripted": [180, 0]}


@pytest.mark.spec("E34")
async def test_ages_are_settings_of_the_pool_and_none_means_never(bench: Bench) -> None:
    await bench.run("update pools set forget_after_seconds = 60")
    soon, never = await bench.enqueue(), await bench.enqueue("test.subject", pool="scripted")
    await bench.run("update pools set forget_after_seconds = 0 where name = 'scripted'")
    await age(bench, 10_000)
    await run_chore(bench.database, bench.engine, bury_forgotten)
    assert [await bench.state(soon), await bench.state(never)] == ["dead", "queued"]


@pytest.mark.spec("E34")
async def test_what_waits_in_a_line_that_moves_is_not_forgotten(bench: Bench) -> None:
    waits = await bench.enqueue()
    await age(bench, 5)
    await bench.enqueue(priority=0)
    await bench.finish(*await bench.claim())
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 0
    assert await bench.state(waits) == "queued"
    await bench.run("update throughput set minute = minute - interval '4 hours'")
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 1


@pytest.mark.spec("E34")
async def test_what_runs_is_left_to_its_lease_and_what_waits_for_its_time_to_that(bench: Bench) -> None:
    runs = await bench.enqueue()
    await bench.claim()
    waits = await bench.enqueue()
    await age(bench, 5)
    await bench.run(
        "update jobs set state = 'scheduled', run_after = now() + interval '1 day' where id = $1", waits
    )
    assert await run_chore(bench.database, bench.engine, bury_forgotten) == 0
    assert [await bench.state(runs), await bench.state(waits)] == ["running", "scheduled"]


@pytest.mark.spec("E34")
async def test_a_result_that_nobody_fetches_is_buried_with_the_result(bench: Bench) -> None:
    id_ = await bench.enqueue("test.delivered")
    await bench.finish(*await bench.claim(), result='"text"')
    await age(bench, 5)
    await run_chores(bench.database, bench.engine, JANITOR)
    assert await bench.state(id_) == "dead"
    assert await bench.one("select result from dead_jobs") == '"text"'


@pytest.mark.spec("E34")
async def test_finished_jobs_keys_and_events_are_forgotten_after_their_time(bench: Bench) -> None:
    engine = replace(bench.engine, finished_keep_hours=2, events_keep_hours=1)
    done = await bench.enqueue(idempotency_key="done", subject_id="s")
    await bench.finish(*await bench.claim())
    await bench.run("delete from events where topic = 'worker.status'")
    waits = await bench.enqueue(idempotency_key="waits")
    assert await run_chore(bench.database, engine, forget_old) == 0
    await bench.run("update finished_jobs set finished_at = finished_at - interval '90 minutes'")
    await bench.run("update job_keys set created_at = created_at - interval '90 minutes'")
    await bench.run("update events set created_at = created_at - interval '90 minutes'")
    assert await run_chore(bench.database, engine, forget_old) == 1
    assert await bench.one("select count(*) from events") == 0
    assert await bench.enqueue(idempotency_key="done") == done
    await bench.run("update finished_jobs set finished_at = finished_at - interval '1 hour'")
    await bench.run("update job_keys set created_at = created_at - interval '1 hour'")
    assert await run_chore(bench.database, engine, forget_old) == 2
    assert await bench.state(done) is None
    # A key lives as long as its job waits, however long that is.
    assert await bench.enqueue(idempotency_key="waits") == waits
    assert await bench.enqueue(idempotency_key="done") != done


@pytest.mark.spec("E32", "E34")
async def test_failures_of_a_subject_are_forgotten_after_a_year_without_one(bench: Bench) -> None:
    for subject in ("old", "new"):
        await bench.enqueue(subject_id=subject, max_attempts=1)
        (job,) = await bench.claim()
        await bench.fail(job)
    old = "update subject_failures set failed_at = now() - interval '366 days' where subject = 'old'"
    await bench.run(old)
    assert await run_chore(bench.database, bench.engine, forget_old) == 1
    assert await bench.one("select string_agg(subject, ',') from subject_failures") == "new"


@pytest.mark.spec("E34")
async def test_who_forgets_beside_another_does_not_wait_for_it(bench: Bench) -> None:
    engine = replace(bench.engine, finished_keep_hours=0, events_keep_hours=0)
    await bench.enqueue(idempotency_key="done", subject_id="s")
    await bench.finish(*await bench.claim())
    async with bench.database.transaction() as one, bench.database.transaction() as other:
        assert await forget_old(one, engine) >= 2
        await other.execute("set local lock_timeout = '1s'")
        assert await forget_old(other, engine) == 0


@pytest.mark.spec("E34")
async def test_workers_that_are_long_gone_are_forgotten_unless_they_are_registered_or_hold_a_job(
    bench: Bench,
) -> None:
    async with bench.database.connection() as connection:
        gone = await register_worker(connection, name="gone")
        remote = await register_worker(connection, name="remote", type_="remote")
    await bench.enqueue()
    (job,) = await bench.claim("holder")
    await bench.run("update workers set state = 'offline', heartbeat_at = now() - interval '25 hours'")
    await run_chore(bench.database, bench.engine, forget_old)
    async with bench.database.connection() as connection:
        left = {row[0] for row in await connection.fetch("select id from workers")}
    assert left == {remote, job.worker_id}
    assert gone not in left

"""Live events: rows in order, each read once, also those that are committed late."""

from __future__ import annotations

import time

import pytest

from mediamill.db.connection import Connection
from mediamill.engine.events import EventReader, last_event_id
from mediamill.engine.lease import report_progress
from mediamill.engine.model import WorkerState
from mediamill.engine.workers import set_state, tell_worker
from tests.engine.conftest import Bench


async def tell(connection: Connection, name: str) -> None:
    await tell_worker(connection, 1, name, "idle")


async def read(bench: Bench, reader: EventReader, amount: int = 500) -> list[str]:
    async with bench.database.connection() as connection:
        return [event.data["name"] for event in await reader.read(connection, amount)]


@pytest.mark.spec("E31")
async def test_progress_completion_failure_and_workers_leave_events_in_order(bench: Bench) -> None:
    for n in range(2):
        await bench.enqueue(subject_id=f"s{n}")
    done, fails = await bench.claim(amount=2)
    async with bench.database.connection() as connection:
        await report_progress(connection, done.claim, lease_seconds=60, step="half", percent=50)
        await bench.finish(done)
        await bench.fail(fails, "broken", permanent=True)
        await set_state(connection, done.worker_id, "a", WorkerState.OFFLINE)
        events = await EventReader(0).read(connection)
    assert [(event.topic, event.subject) for event in events] == [
        ("worker.status", str(done.worker_id)),
        ("job.progress", "s0"),
        ("job.completed", "s0"),
        ("job.failed", "s1"),
        ("worker.status", str(done.worker_id)),
    ]
    assert [event.id for event in events] == sorted(event.id for event in events)
    assert events[1].data == {
        "id": done.id,
        "kind": "test.plain",
        "step": "half",
        "percent": 50,
        "parts": None,
    }
    assert events[3].data["error"] == "broken"


@pytest.mark.spec("E31")
async def test_reading_goes_on_from_any_id_and_gives_each_event_once(bench: Bench) -> None:
    async with bench.database.connection() as connection:
        for n in range(10):
            await tell(connection, f"e{n}")
        ids = [event.id for event in await EventReader(0).read(connection)]
        assert await last_event_id(connection) == ids[-1]
    reader = EventReader(ids[3])
    assert await read(bench, reader, 4) == ["e4", "e5", "e6", "e7"]
    assert await read(bench, reader) == ["e8", "e9"]
    assert await read(bench, reader) == []


@pytest.mark.spec("E31")
async def test_an_event_that_is_committed_later_with_a_smaller_id_is_still_delivered_once(
    bench: Bench,
) -> None:
    reader = EventReader(0)
    async with bench.database.connection() as slow:
        transaction = slow.transaction()
        await transaction.start()
        await tell(slow, "slow")
        async with bench.database.connection() as fast:
            await tell(fast, "fast")
        assert await read(bench, reader) == ["fast"]
        assert await read(bench, reader) == []
        await transaction.commit()
    assert await read(bench, reader) == ["slow"]
    assert await read(bench, reader) == []


@pytest.mark.spec("E31")
async def test_an_event_that_was_rolled_back_is_waited_for_only_so_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = EventReader(0)
    async with bench.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        await tell(connection, "never")
        await transaction.rollback()
        await tell(connection, "after")
    assert await read(bench, reader) == ["after"]
    assert len(reader.gaps) == 1
    monkeypatch.setattr("mediamill.engine.events.GAP_SECONDS", -1)
    assert await read(bench, reader) == []
    assert reader.gaps == {}


@pytest.mark.spec("E31")
async def test_a_rollback_of_a_settle_takes_its_event_with_it(bench: Bench) -> None:
    await bench.enqueue("test.subject", subject_id="s", payload={"refuse": "completed"})
    await bench.finish(*await bench.claim())
    assert await bench.one("select count(*) from events where topic = 'job.completed'") == 0


def test_what_was_skipped_is_asked_for_again_for_a_minute_and_no_more_than_a_thousand_of_it() -> None:
    reader = EventReader(10)
    reader.note([12, 11, 15, 9])
    assert (reader.after, set(reader.gaps)) == (15, {13, 14})
    assert max(reader.gaps.values()) == pytest.approx(time.monotonic(), abs=60)
    reader.note([5_000])
    assert (reader.after, set(reader.gaps)) == (5_000, {13, 14, *range(4_000, 5_000)})
    now = time.monotonic()
    reader.gaps = {13: now - 60.5, 14: now - 30}
    reader._forget_old_gaps()
    assert set(reader.gaps) == {14}


async def test_events_are_read_five_hundred_at_a_time(bench: Bench) -> None:
    await bench.run(
        "insert into events (topic, subject, data) select 'a', 's', '{\"name\": 1}' from generate_series(1, 502)"
    )
    reader = EventReader(0)
    async with bench.database.connection() as connection:
        assert [len(await reader.read(connection)) for _ in range(3)] == [500, 2, 0]

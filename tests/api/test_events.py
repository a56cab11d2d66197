from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from mediamill.api import event_hub, server
from mediamill.db.connection import Database
from mediamill.settings import Settings
from tests.api.listening import listen
from tests.api.serving import Served, serve
from tests.conftest import wait_until


async def tell(served: Served, *subjects: str, topic: str = "job.progress") -> None:
    await served.run(
        "insert into events (topic, subject, data) select $1, s, '{\"n\": 1}' from unnest($2::text[]) s",
        topic,
        list(subjects),
    )


@pytest.mark.spec("E31")
async def test_events_come_live_with_ids_and_a_retry_time(served: Served) -> None:
    async with listen(served) as stream, listen(served) as second:
        await tell(served, "a", "b")
        first = await stream.next()
        assert (first["event"], first["data"]) == (
            "job.progress",
            {"topic": "job.progress", "subject": "a", "data": {"n": 1}},
        )
        assert int((await stream.next())["id"]) > int(first["id"])
        assert stream.retry == "3000"
        assert await second.subjects(2) == ["a", "b"]


@pytest.mark.spec("E31")
async def test_a_client_that_comes_back_misses_nothing_and_gets_nothing_twice(served: Served) -> None:
    async with listen(served) as stream:
        await tell(served, "a", "b")
        last = (await stream.next())["id"]
    await tell(served, "c")
    async with listen(served, last) as stream:
        await tell(served, "d")
        assert await stream.subjects(3) == ["b", "c", "d"]
    async with listen(served, after=last) as stream:
        assert await stream.subjects(3) == ["b", "c", "d"]
    async with listen(served, after="0") as stream:
        assert await stream.subjects(4) == ["a", "b", "c", "d"]


@pytest.mark.spec("E31")
async def test_an_event_that_commits_late_is_not_missed_even_over_a_reconnect(served: Served) -> None:
    async with served.database.connection() as slow, listen(served) as stream:
        transaction = slow.transaction()
        await transaction.start()
        await slow.execute("insert into events (topic, subject, data) values ('t', 'late', '{}')")
        await tell(served, "early")
        seen = await stream.next()
        assert seen["data"]["subject"] == "early"
        await transaction.commit()
        await tell(served, "after")
        assert sorted(await stream.subjects(2)) == ["after", "late"]
    # The cursor of the early one still asks for the late one.
    async with listen(served, seen["id"]) as stream:
        assert sorted(await stream.subjects(2)) == ["after", "late"]


@pytest.mark.spec("E31")
async def test_a_long_absence_is_caught_up_in_order_while_new_events_come(served: Served) -> None:
    await tell(served, *(str(number) for number in range(1700)))
    async with listen(served, "0") as stream:
        head = await stream.subjects(10)
        await tell(served, *(str(number) for number in range(1700, 1800)))
        assert head + await stream.subjects(1790) == [str(number) for number in range(1800)]


@pytest.mark.spec("E31")
async def test_many_writers_and_clients_at_once_lose_nothing(served: Served) -> None:
    async def write(writer: int) -> None:
        for number in range(20):
            await tell(served, f"{writer}-{number}")

    async def read(drop_every: int) -> list[str]:
        seen: list[str] = []
        last = "0"
        while len(seen) < 100:
            async with listen(served, last) as stream:
                for _ in range(min(drop_every, 100 - len(seen))):
                    event = await stream.next()
                    last = event["id"]
                    seen.append(event["data"]["subject"])
        return seen

    readers = [asyncio.create_task(read(every)) for every in (7, 13, 1000)]
    await asyncio.gather(*(write(writer) for writer in range(5)))
    expected = sorted(f"{writer}-{number}" for writer in range(5) for number in range(20))
    for seen in await asyncio.gather(*readers):
        assert sorted(seen) == expected


@pytest.mark.spec("E31")
async def test_streams_are_filtered_by_topic_and_subject(served: Served) -> None:
    async with (
        listen(served, topic="worker.status") as by_topic,
        listen(served, subject=["b", "c"]) as by_subject,
    ):
        await tell(served, "a", "b", "c")
        await tell(served, "w", topic="worker.status")
        assert await by_topic.subjects(1) == ["w"]
        assert await by_subject.subjects(2) == ["b", "c"]


async def test_changes_are_told_at_most_once_a_second_but_always_at_last(served: Served) -> None:
    async with listen(served, topic="changed") as stream:
        began = time.monotonic()
        for _ in range(10):
            await served.enqueue()
            await tell(served, "x")
        last_change = time.monotonic()
        told_at: list[float] = []
        while not told_at or told_at[-1] < last_change:
            event = await stream.next()
            assert (event["event"], event["id"]) == ("changed", None)
            told_at.append(time.monotonic())
        assert len(told_at) <= told_at[-1] - began + 2


@pytest.mark.spec("E31")
async def test_a_quiet_stream_is_kept_alive_and_reconnected_as_the_settings_say(
    database: Database, tmp_path: Path
) -> None:
    assert (Settings().stream_keep_alive_seconds, Settings().stream_retry_seconds) == (30, 3)
    quick: dict[str, Any] = {"stream_keep_alive_seconds": 0.05, "stream_retry_seconds": 1.5}
    async with serve(database, tmp_path, **quick) as served, listen(served) as stream:
        task = asyncio.create_task(stream.next())

        async def kept() -> bool:
            return ": keep-alive" in stream.comments

        await wait_until(kept, 20)  # sooner than without the setting
        assert stream.retry == "1500"
        task.cancel()


async def test_a_client_that_does_not_read_is_dropped_and_others_go_on(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_hub, "BUFFER_EVENTS", 5)
    hub = served.app.state.event_hub
    slow = await hub.join()
    async with listen(served) as stream:
        for number in range(20):
            await tell(served, str(number))
            assert await stream.subjects(1) == [str(number)]
    assert slow.dropped
    assert slow.queue.qsize() == 6
    hub.leave(slow)


async def test_a_cursor_that_is_none_is_refused(served: Served) -> None:
    for wrong in ("x", "-1", "1~a", "9" * 30, "1~" + ",".join(["2"] * 200)):
        answer = await served.client.get("/api/events", headers={"Last-Event-ID": wrong})
        assert (answer.status_code, answer.json()["code"]) == (422, "cursor_invalid"), wrong


async def test_a_client_that_leaves_is_forgotten_and_the_last_stops_the_listening(served: Served) -> None:
    listening = "select count(*) from pg_stat_activity where application_name = 'mediamill events'"

    async def heard() -> bool:
        return bool(await served.one(listening + " and datname = current_database()") == 1)

    async def silent() -> bool:
        return bool(await served.one(listening + " and datname = current_database()") == 0)

    async with listen(served):
        await wait_until(heard)
    await wait_until(silent)


async def test_stopping_the_server_ends_streams_at_once(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "LAST_ANSWERS_SECONDS", 3600)  # nobody waits for that
    async with serve(database, tmp_path) as served, listen(served) as stream:
        reading = asyncio.create_task(stream.next())
        served.server.should_exit = True
        with pytest.raises(EOFError):
            await reading

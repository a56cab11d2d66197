from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mediamill.api import run_stream
from mediamill.db.connection import Database
from mediamill.inputs.store import queries
from tests.api.serving import Served, serve


async def send(served: Served, thread_key: str = "t", text: str = "look") -> str:
    answer = await served.client.post("/v1/messages", json={"thread_key": thread_key, "text": text})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run_id"])


class Agent:
    """Takes the steps of whoever works a run off."""

    def __init__(self, served: Served, run_id: str) -> None:
        self._served, self._run_id, self._tries = served, uuid.UUID(run_id), 0

    async def start(self) -> None:
        async with self._served.database.connection() as connection:
            row = await queries.start_run.row(connection, run_id=self._run_id)
        assert row is not None
        self._tries = row["tries"]

    async def say(self, answer: str) -> None:
        await self._do("grow_answer", answer=answer)

    async def complete(self, answer: str) -> None:
        await self._do("complete_run", answer=answer, tokens=0)

    async def fail(self) -> None:
        await self._do("fail_run", error_code="agent_failed", error="it broke")

    async def _do(self, name: str, **values: Any) -> None:
        async with self._served.database.transaction() as connection:
            query = getattr(queries, name)
            assert await query.row(connection, run_id=self._run_id, tries=self._tries, **values) is not None


class Events:
    """A stream of events that is read one by one."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines
        self.place: str | None = None

    async def next(self) -> tuple[str, Any]:
        name, data = "", ""
        async with asyncio.timeout(30):
            async for text in self._lines:
                field, _, value = text.partition(": ")
                if field == "event":
                    name = value
                elif field == "id":
                    self.place = value
                elif field == "data":
                    data = value
                elif not text and name:
                    return name, json.loads(data)
        return "end", None


@asynccontextmanager
async def follow(
    served: Served, run_id: str, place: str | None = None, **query: str
) -> AsyncIterator[Events]:
    headers = {"Last-Event-ID": place} if place else {}
    path = f"/v1/runs/{run_id}/events"
    async with served.client.stream("GET", path, headers=headers, params=query) as answer:
        assert answer.status_code == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield Events(answer.aiter_lines())


async def test_a_run_that_is_not_there_or_no_id_is_told_so(served: Served) -> None:
    for method, path in (("GET", ""), ("POST", "/retry"), ("GET", "/events")):
        answer = await served.client.request(method, f"/v1/runs/{uuid.uuid4()}{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_run")
        answer = await served.client.request(method, f"/v1/runs/seventeen{path}")
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


async def test_the_runs_of_a_thread_come_newest_first_in_pages(served: Served) -> None:
    key = "bot/telegram/12 34?é%2F..#x"
    ids = [await send(served, key, str(number)) for number in range(5)]
    await send(served, "another")
    path = f"/v1/threads/{quote(key, safe='')}/runs"
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = (await served.client.get(path, params=query)).json()
        seen += [run["run_id"] for run in page["runs"]]
        if page["next"] is None:
            break
        query["before"] = page["next"]
    assert seen == ids[::-1]
    assert {run["thread_key"] for run in page["runs"]} == {key}
    assert (await served.client.get("/v1/threads/nobody/runs")).json() == {"runs": [], "next": None}
    for wrong in ({"limit": 0}, {"limit": 101}, {"before": "x"}, {"before": 2**63}):
        assert (await served.client.get(path, params=wrong)).status_code == 422


async def test_only_a_failed_run_is_tried_again(served: Served) -> None:
    run_id = await send(served)
    answer = await served.client.post(f"/v1/runs/{run_id}/retry")
    assert (answer.status_code, answer.json()["code"]) == (409, "run_not_failed")
    agent = Agent(served, run_id)
    await agent.start()
    await agent.fail()
    failed = (await served.client.get(f"/v1/runs/{run_id}")).json()
    assert (failed["state"], failed["error_code"], failed["error"]) == ("failed", "agent_failed", "it broke")
    again = (await served.client.post(f"/v1/runs/{run_id}/retry")).json()
    assert (again["state"], again["error_code"], again["ended_at"]) == ("queued", None, None)


async def test_an_answer_is_told_as_it_grows(served: Served) -> None:
    run_id = await send(served)
    agent = Agent(served, run_id)
    async with follow(served, run_id) as events:
        assert await events.next() == ("state", {"state": "queued", "tries": 0})
        await agent.start()
        assert await events.next() == ("state", {"state": "running", "tries": 1})
        await agent.say("Hello")
        assert await events.next() == ("text", {"text": "Hello"})
        assert events.place == "1-5"
        await agent.say("Hello, 😀\n\n")
        assert await events.next() == ("text", {"text": ", 😀\n\n"})
        assert events.place == "1-10"
        await agent.complete("Hello, 😀\n\nworld")
        assert await events.next() == ("text", {"text": "world"})
        name, run = await events.next()
        assert (name, run) == ("completed", (await served.client.get(f"/v1/runs/{run_id}")).json())
        assert run["answer"] == "Hello, 😀\n\nworld"
        assert await events.next() == ("end", None)


async def test_a_stream_goes_on_where_it_broke_off(served: Served) -> None:
    run_id = await send(served)
    agent = Agent(served, run_id)
    await agent.start()
    await agent.say("Hello")
    async with follow(served, run_id, "1-2") as events:
        assert await events.next() == ("state", {"state": "running", "tries": 1})
        assert await events.next() == ("text", {"text": "llo"})
    await agent.complete("Hello")
    async with follow(served, run_id, after="1-5") as events:
        assert (await events.next())[0] == "completed"
    async with follow(served, run_id) as events:
        assert await events.next() == ("text", {"text": "Hello"})
        assert (await events.next())[0] == "completed"
    for wrong in ("1", "x-1", "1-", "-1-2", "1-99999999999", "1-٣"):
        answer = await served.client.get(f"/v1/runs/{run_id}/events", params={"after": wrong})
        assert (answer.status_code, answer.json()["code"]) == (422, "cursor_invalid")


async def test_a_new_try_tells_the_answer_anew(served: Served) -> None:
    run_id = await send(served)
    agent = Agent(served, run_id)
    await agent.start()
    await agent.say("Hel")
    async with follow(served, run_id) as events:
        assert (await events.next())[0] == "state"
        assert await events.next() == ("text", {"text": "Hel"})
        await agent.start()
        assert await events.next() == ("restart", {"tries": 2})
        assert await events.next() == ("state", {"state": "running", "tries": 2})
        await agent.say("Good")
        assert await events.next() == ("text", {"text": "Good"})
        await agent.complete("Bye")  # not what was said so far
        assert await events.next() == ("restart", {"tries": 2})
        assert await events.next() == ("text", {"text": "Bye"})
        assert (await events.next())[0] == "completed"
    async with follow(served, run_id, "1-3") as events:
        assert await events.next() == ("restart", {"tries": 2})
        assert await events.next() == ("text", {"text": "Bye"})


async def test_a_run_that_fails_ends_its_stream(served: Served) -> None:
    run_id = await send(served)
    agent = Agent(served, run_id)
    async with follow(served, run_id) as events:
        await agent.start()
        await agent.fail()
        names = []
        while (event := await events.next())[0] != "end":
            names.append(event[0])
    assert names[-1] == "failed"


async def test_streams_end_when_the_server_stops(served: Served) -> None:
    run_id = await send(served)
    async with follow(served, run_id) as events:
        assert (await events.next())[0] == "state"
        served.server.should_exit = True
        assert await events.next() == ("end", None)


async def test_a_silent_stream_is_kept_alive(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_stream, "LOOK_SECONDS", 0.02)
    async with serve(database, tmp_path, stream_keep_alive_seconds=0.05) as served:
        run_id = await send(served)
        async with asyncio.timeout(30), served.client.stream("GET", f"/v1/runs/{run_id}/events") as answer:
            async for text in answer.aiter_lines():
                if text == ": keep-alive":
                    break
            else:
                pytest.fail("it ended without a sign of life")

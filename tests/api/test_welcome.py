"""Streams end soon after whoever opened them may not come in any more, and go on for everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mediamill.access import tokens, users
from mediamill.access.model import HERE, Scope
from mediamill.access.sessions import SessionLimits, open_session
from mediamill.api import run_stream, wakes, welcome
from mediamill.api.sessions import COOKIE
from mediamill.db.connection import Database
from mediamill.engine import workers
from mediamill.settings import Settings
from tests.api.remote_worker import register
from tests.api.serving import SECRET, Served, serve
from tests.conftest import wait_until

PASSWORD = "correct horse battery"


@pytest.fixture
async def closed(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Served]:
    """A server that asks everybody who they are, and again more often than usual."""
    assert Settings().stream_keep_alive_seconds + welcome.ASK_SECONDS <= 35
    monkeypatch.setattr(wakes, "KEEP_ALIVE_SECONDS", 0.05)
    monkeypatch.setattr(run_stream, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(welcome, "ASK_SECONDS", 0.05)
    async with serve(database, tmp_path, login="always", stream_keep_alive_seconds=0.05) as served:
        yield served


class Followed:
    """A stream that is read as it comes."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self.lines = 0
        self._reading = asyncio.create_task(self._read(lines))

    async def _read(self, lines: AsyncIterator[str]) -> None:
        async for _ in lines:
            self.lines += 1

    @property
    def ended(self) -> bool:
        return self._reading.done()

    def stop(self) -> None:
        self._reading.cancel()

    async def go_on(self) -> None:
        """It is alive: several more lines come."""
        wanted = self.lines + 20
        await wait_until(lambda: _is(self.lines >= wanted))
        assert not self.ended

    async def end(self) -> None:
        async with asyncio.timeout(30):
            await self._reading


async def _is(done: bool) -> bool:
    return done


@asynccontextmanager
async def follow(served: Served, path: str, **headers: str) -> AsyncIterator[Followed]:
    async with served.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        followed = Followed(answer.aiter_lines())
        yield followed
        followed.stop()


async def make_token(served: Served, *scopes: Scope) -> tuple[int, dict[str, str]]:
    async with served.database.transaction() as connection:
        made = await tokens.create_token(connection, "a screen", scopes, days=1, made_by=HERE)
    return made.id, {"Authorization": f"Bearer {made.token}"}


async def begin_run(served: Served) -> str:
    headers = {"Authorization": f"Bearer {SECRET}"}
    said = {"thread_key": "t", "text": "look"}
    answer = await served.client.post("/v1/messages", json=said, headers=headers)
    return f"/v1/runs/{answer.json()['run_id']}/events"


@pytest.mark.parametrize("of_a_run", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        "update api_tokens set revoked_at = now() where id = $1",
        "update api_tokens set expires_at = now() where id = $1",
        "update api_tokens set scopes = '{ingest}' where id = $1",
    ],
    ids=["revoked", "expired", "without the scope"],
)
async def test_a_stream_ends_with_the_token_that_opened_it_and_no_other(
    closed: Served, change: str, of_a_run: bool
) -> None:
    path = await begin_run(closed) if of_a_run else "/api/events?topic=changed"
    (token, headers), (_, others) = await make_token(closed, Scope.READ), await make_token(closed, Scope.READ)
    async with follow(closed, path, **headers) as stream, follow(closed, path, **others) as other:
        await stream.go_on()
        await closed.run(change, token)
        await stream.end()
        await other.go_on()


@pytest.mark.parametrize(
    "change",
    [
        "delete from login_sessions",
        "update users set disabled_at = now()",
        "update users set password_hash = 'another'",
        "update users set scopes = '{ingest}'",
    ],
    ids=["closed", "disabled", "another password", "without the scope"],
)
async def test_a_stream_ends_with_the_session_that_opened_it(closed: Served, change: str) -> None:
    async with closed.database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, [Scope.READ])
        ann = await users.find_user(connection, "ann")
        cookie = await open_session(
            connection, ann, None, limits=SessionLimits(900, 900), address=None, agent=""
        )
    async with follow(closed, "/api/events", Cookie=f"{COOKIE}={cookie}") as stream:
        await stream.go_on()
        await closed.run(change)
        await stream.end()


async def test_a_stream_that_is_never_quiet_ends_too(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(welcome, "ASK_SECONDS", 0.05)
    async with serve(database, tmp_path, login="always") as closed:
        await end_while_events_come(closed)


async def end_while_events_come(closed: Served) -> None:
    token, headers = await make_token(closed, Scope.READ)
    async with follow(closed, "/api/events", **headers) as stream:
        await closed.run("update api_tokens set revoked_at = now() where id = $1", token)
        for number in range(2_000):
            if stream.ended:
                break
            await closed.run("insert into events (topic, subject, data) values ('x', $1, '{}')", str(number))
        await stream.end()


async def test_a_worker_whose_key_is_revoked_hears_nothing_more(closed: Served) -> None:
    remote = await register(closed)
    async with follow(closed, "/api/worker/wakes", Authorization=f"Bearer {remote.key}") as stream:
        await stream.go_on()
        async with closed.database.transaction() as connection:
            await workers.revoke_keys(connection, remote.id)
        await stream.end()


async def test_a_stream_survives_a_database_that_is_away(closed: Served) -> None:
    _, headers = await make_token(closed, Scope.READ)
    async with follow(closed, "/api/events", **headers) as stream:
        await stream.go_on()
        await closed.run(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and backend_type = 'client backend'"
        )
        await stream.go_on()

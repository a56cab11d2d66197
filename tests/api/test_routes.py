"""Every route that the application has, tried by everybody who may not call it, and by whoever may."""

from __future__ import annotations

import itertools
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from mediamill.access.model import HERE, Scope
from mediamill.access.tokens import create_token, revoke_token
from mediamill.api.route_map import declared_names
from mediamill.api.scopes import ANYBODY, ROUTES, Access, Door, access_of
from mediamill.db.connection import Database
from tests.api.remote_worker import register
from tests.api.serving import SECRET, Served, serve

SECRET_OF_ITS_OWN = "POST /api/telegram/{bot_id}/webhook"  # of a bot that nobody set up: it is not there
REFUSED = (401, 403, 429)
NOBODYS = "987654"  # an id or name that nothing has


@dataclass
class Elsewhere:
    """A server beyond a proxy, and callers each from an address of their own: nobody is held up for another."""

    served: Served
    numbers: Iterator[int]

    async def ask(self, name: str, token: str | None = None, **headers: str) -> tuple[int, str]:
        """Status, and code of the problem; a stream is not waited for."""
        method, _, path = name.partition(" ")
        number = next(self.numbers)
        headers["X-Forwarded-For"] = f"10.{number >> 16}.{(number >> 8) & 255}.{number & 255}"
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = re.sub(r"\{[^}]*\}", NOBODYS, path) + ("/mediamill.js" if path == "/static" else "")
        async with self.served.client.stream(method, url, headers=headers) as answer:
            kind = answer.headers.get("content-type", "")
            code = ""
            if kind.startswith("application/problem+json") and method != "HEAD":
                await answer.aread()
                code = answer.json()["code"]
            return answer.status_code, code

    async def token(self, *scopes: Scope, days: float | None = None) -> str:
        async with self.served.database.transaction() as connection:
            made = await create_token(connection, "a test", scopes, days=days, made_by=HERE)
        return made.token


@pytest.fixture
async def elsewhere(database: Database, tmp_path: Path) -> AsyncIterator[Elsewhere]:
    """Nobody is on the machine itself."""
    async with serve(database, tmp_path, pages=True, trusted_proxies="127.0.0.1") as served:
        yield Elsewhere(served, itertools.count(1))


def routes_of(served: Served) -> dict[str, Access]:
    """Each route of the application over HTTP, pages and files included, with what it asks for."""
    found = {name: access_of(name) for name in declared_names(served.app) if not name.startswith("WEBSOCKET")}
    assert {"GET /", "GET /static", "GET /metrics", "POST /api/worker/claim", "GET /docs"} <= found.keys()
    assert len(found) > 200
    return {name: access for name, access in found.items() if access is not None}


def guarded(served: Served) -> dict[str, Scope]:
    """Those that ask for a scope."""
    return {name: access.who for name, access in routes_of(served).items() if isinstance(access.who, Scope)}


async def test_without_a_token_no_route_answers(elsewhere: Elsewhere) -> None:
    for name, access in routes_of(elsewhere.served).items():
        if access == ANYBODY or name == SECRET_OF_ITS_OWN:
            continue
        # What registration is sent is read before its secret; nothing is done without both.
        expected = (401, 422) if name == "POST /api/worker/register" else (401,)
        for wrong in (None, "wrong", "mill_" + "x" * 43):
            assert (await elsewhere.ask(name, wrong))[0] in expected, name
        assert (await elsewhere.ask(name, Cookie="mediamill_session=" + "x" * 43))[0] in expected, name
    assert (await elsewhere.ask(SECRET_OF_ITS_OWN))[0] in (403, 404)


async def test_the_websocket_of_the_bridge_and_unknown_paths_are_closed_to_strangers(
    elsewhere: Elsewhere,
) -> None:
    assert ROUTES["WEBSOCKET /api/bridge/whatsapp/{bot_id}"].who is Door.OWN_SECRET
    for name in ("GET /nowhere", "DELETE /api/search", "GET /api/jobs/", "GET /static/../x", "TRACE /"):
        assert (await elsewhere.ask(name))[0] == 401, name


async def test_with_every_scope_but_the_right_one_no_route_answers(elsewhere: Elsewhere) -> None:
    lacking = {
        wanted: await elsewhere.token(*(scope for scope in Scope if scope not in (wanted, Scope.ADMIN)))
        for wanted in Scope
    }
    for name, wanted in guarded(elsewhere.served).items():
        status, code = await elsewhere.ask(name, lacking[wanted])
        assert status == 403, name
        assert code == "scope_missing" or name.startswith("HEAD"), name


async def test_a_token_that_was_revoked_or_has_expired_opens_nothing(elsewhere: Elsewhere) -> None:
    revoked, expired = await elsewhere.token(Scope.ADMIN), await elsewhere.token(Scope.ADMIN, days=1)
    await elsewhere.served.run("update api_tokens set expires_at = now() where expires_at is not null")
    async with elsewhere.served.database.transaction() as connection:
        await revoke_token(connection, await connection.fetchval("select min(id) from api_tokens"))
    for name in guarded(elsewhere.served):
        for token, why in ((revoked, "token_revoked"), (expired, "token_expired")):
            status, code = await elsewhere.ask(name, token)
            assert (status, code or why) == (401, why), name


async def test_from_a_page_of_another_origin_no_route_answers_even_with_the_secret(
    elsewhere: Elsewhere,
) -> None:
    for name in routes_of(elsewhere.served):
        if name == SECRET_OF_ITS_OWN:
            continue
        for headers in (
            {"Origin": "https://evil.example"},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        ):
            status, code = await elsewhere.ask(name, SECRET, **headers)
            assert (status, code or "foreign_origin") == (403, "foreign_origin"), name


async def test_with_just_the_right_scope_every_route_answers(elsewhere: Elsewhere) -> None:
    right = {scope: await elsewhere.token(scope) for scope in Scope}
    for name, wanted in guarded(elsewhere.served).items():
        status, _ = await elsewhere.ask(name, right[wanted])
        assert status not in REFUSED, name
        assert status < 500, name
    for name, access in routes_of(elsewhere.served).items():
        if access == ANYBODY or access.who is Door.LOGGED_IN:
            assert (
                (await elsewhere.ask(name, right[Scope.READ]))[0]
                not in (
                    401,
                    403,
                )
                or name.startswith("POST /login")
                or name == "GET /open"
            )


async def test_whoever_administers_may_call_them_all(elsewhere: Elsewhere) -> None:
    token = await elsewhere.token(Scope.ADMIN)
    for name in guarded(elsewhere.served):
        for shown in (token, SECRET):
            assert (await elsewhere.ask(name, shown))[0] not in REFUSED, name


@pytest.mark.spec("E20", "E23")
async def test_routes_of_workers_take_a_workers_key_and_nothing_else(elsewhere: Elsewhere) -> None:
    worker = await register(elsewhere.served)
    admin = await elsewhere.token(Scope.ADMIN, Scope.WORKER)
    waiting = ("POST /api/worker/claim",)  # until there is a job
    for name, access in routes_of(elsewhere.served).items():
        if access.who is Door.WORKER_KEY:
            for wrong in (admin, SECRET):
                assert (await elsewhere.ask(name, wrong))[0] == 401, name
            if name not in waiting:
                assert (await elsewhere.ask(name, worker.key))[0] not in REFUSED, name
        elif isinstance(access.who, Scope):
            assert (await elsewhere.ask(name, worker.key))[0] == 401, name


@pytest.mark.spec("E20")
async def test_the_scope_worker_registers_workers(elsewhere: Elsewhere) -> None:
    client, path = elsewhere.served.client, "/api/worker/register"
    for scope, status in ((Scope.WORKER, 201), (Scope.ADMIN, 201), (Scope.INGEST, 403), (Scope.READ, 403)):
        headers = {"Authorization": f"Bearer {await elsewhere.token(scope)}", "X-Forwarded-For": "10.1.1.1"}
        answer = await client.post(path, json={"name": f"by {scope}"}, headers=headers)
        assert answer.status_code == status, scope

"""Who is known and asks for more than they may is refused, and noted: enough to see it, not enough to fill the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.access.audit import list_entries
from mediamill.access.model import HERE, Caller, Scope
from mediamill.access.tokens import create_token
from mediamill.access.users import add_user
from mediamill.api.refusals import ACTION, MOST_ROUTES, Refusals
from mediamill.api.scopes import API, Access
from mediamill.db.connection import Database
from tests.api.serving import SECRET, Served, serve
from tests.conftest import open_database

PASSWORD = "correct horse battery"
CAMERA = Caller("token", "camera", frozenset({Scope.INGEST}), 7)


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """Everybody has to show who they are, and comes through a proxy."""
    async with serve(database, tmp_path, pages=True, login="always", trusted_proxies="127.0.0.1") as served:
        served.client.headers["X-Forwarded-For"] = "203.0.113.9"
        yield served


async def camera(database: Database) -> str:
    """A token that may bring things in, and nothing else."""
    async with database.transaction() as connection:
        return (await create_token(connection, "camera", [Scope.INGEST], days=None, made_by=HERE)).token


async def refused(database: Database) -> list[dict[str, Any]]:
    async with database.connection() as connection:
        return (await list_entries(connection, action=ACTION))[::-1]


async def test_a_token_that_asks_for_more_than_it_may_is_noted_once_for_each_route(
    served: Served, database: Database
) -> None:
    token = await camera(database)
    bearer = {"Authorization": f"Bearer {token}"}
    for number in range(30):
        assert (await served.client.get(f"/api/jobs/{number}?key=hunter2", headers=bearer)).status_code == 403
    assert (await served.client.delete("/api/jobs/hunter2", headers=bearer)).status_code == 403
    assert (await served.client.get("/static/mediamill.js", headers=bearer)).status_code == 403
    assert (await served.client.get("/api/uploads/x", headers=bearer)).status_code == 405
    entries = await refused(database)
    assert [entry["subject"] for entry in entries] == [
        "GET /api/jobs/{job_id} needs read",
        "DELETE /api/jobs/{job_id} needs admin",
        "GET /static needs read",
    ]
    assert {(entry["who"], entry["kind"], entry["address"], entry["outcome"]) for entry in entries} == {
        ("camera", "token", "203.0.113.9", "403")
    }
    assert "hunter2" not in str(entries)
    assert token not in str(entries)


async def test_each_of_two_tokens_with_one_name_is_noted(served: Served, database: Database) -> None:
    for _ in range(2):
        bearer = {"Authorization": f"Bearer {await camera(database)}"}
        for _ in range(3):
            assert (await served.client.get("/api/jobs", headers=bearer)).status_code == 403
    assert len(await refused(database)) == 2


async def test_a_user_who_is_refused_a_page_is_noted_and_one_who_may_see_it_is_not(
    served: Served, database: Database
) -> None:
    async with database.transaction() as connection:
        await add_user(connection, "ann", PASSWORD, [Scope.READ])
    assert (await served.client.post("/login", data={"name": "ann", "password": PASSWORD})).status_code == 303
    assert (await served.client.get("/jobs", headers={"Accept": "text/html"})).status_code == 200
    page = await served.client.get("/settings", headers={"Accept": "text/html"})
    assert (page.status_code, "needs the scope admin" in page.text) == (403, True)
    [entry] = await refused(database)
    assert (entry["who"], entry["kind"], entry["subject"]) == ("ann", "user", "GET /settings needs admin")


async def test_strangers_and_whoever_may_are_not_noted(served: Served, database: Database) -> None:
    assert (await served.client.get("/api/jobs")).status_code == 401
    assert (
        await served.client.get("/api/jobs", headers={"Authorization": "Bearer wrong"})
    ).status_code == 401
    right = {"Authorization": f"Bearer {SECRET}"}
    assert (await served.client.get("/api/jobs", headers=right)).status_code == 200
    assert await refused(database) == []


async def test_a_token_that_tries_every_route_fills_no_log(served: Served, database: Database) -> None:
    bearer = {"Authorization": f"Bearer {await camera(database)}"}
    readable = [name for name, access in API.items() if access == Access(Scope.READ) and "{" not in name]
    for name in readable * 3:
        method, _, path = name.partition(" ")
        assert (await served.client.request(method, path, headers=bearer)).status_code == 403
    noted = await refused(database)
    assert len(noted) == min(len(readable), MOST_ROUTES)
    assert len({entry["subject"] for entry in noted}) == len(noted)


async def test_no_caller_is_noted_for_more_routes_than_is_allowed(database: Database) -> None:
    refusals = Refusals(database)
    for number in range(5 * MOST_ROUTES):
        await refusals.note(CAMERA, f"GET /{number}", Scope.READ, None)
    assert len(await refused(database)) == MOST_ROUTES
    await refusals.note(Caller("token", "other", frozenset(), 8), "GET /1", Scope.READ, None)
    assert len(await refused(database)) == MOST_ROUTES + 1


async def test_a_refusal_that_cannot_be_noted_stands(new_url: str) -> None:
    async with open_database(new_url) as database:
        await database.close()
        await Refusals(database).note(CAMERA, "GET /api/jobs", Scope.READ, None)

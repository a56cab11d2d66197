"""Logging in and out, how often one may try, and what is noted of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from mediamill.access import limits, users
from mediamill.access.model import HERE, Scope
from mediamill.access.tokens import create_token
from mediamill.api.callers import MOST_FAILURES
from mediamill.api.login import TRIES_BY_ADDRESS, TRIES_BY_NAME
from mediamill.api.login_page import local_path
from mediamill.api.sessions import COOKIE
from mediamill.db.connection import Database
from tests.access.people import OWN, PASSWORD, actions
from tests.api.serving import SECRET, make_app, serve
from tests.conftest import wait_until


@pytest.fixture(autouse=True)
def no_try_comes_back_with_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a test takes as long as it takes until one more is allowed."""
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: 1000.0))


@pytest.fixture
async def ann(database: Database) -> str:
    """A user who may read."""
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, [Scope.READ])
    return "ann"


async def test_a_user_logs_in_reads_and_logs_out(
    database: Database, stranger: httpx.AsyncClient, ann: str
) -> None:
    sent_away = await stranger.get("/jobs/7?x=1", headers={"Accept": "text/html"})
    assert (sent_away.status_code, sent_away.headers["location"]) == (303, "/login?next=/jobs/7%3Fx%3D1")
    form = await stranger.get(sent_away.headers["location"])
    assert 'value="/jobs/7?x=1"' in form.text
    wrong = await stranger.post("/login", data={"name": ann, "password": "wrong"})
    assert (wrong.status_code, "set-cookie" in wrong.headers) == (401, False)
    welcome = await stranger.post("/login", data={"name": "Ann", "password": PASSWORD, "next": "/videos"})
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/videos")
    cookie = welcome.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    assert "Secure" not in cookie  # this was not https
    assert (await stranger.get("/api/whoami")).json() == {"kind": "user", "name": "ann", "scopes": ["read"]}
    value = stranger.cookies[COOKIE]
    out = await stranger.post("/logout")
    assert (out.status_code, out.headers["location"]) == (303, "/login")
    again = await stranger.get("/api/whoami", headers={"Cookie": f"{COOKIE}={value}"})
    assert again.status_code == 401
    assert await actions(database) == [
        ("somebody unknown", "login.failed", "ann"),
        ("ann", "login", ""),
        ("ann", "logout", ""),
    ]


@pytest.mark.pages
async def test_a_password_that_is_easy_to_guess_is_refused_by_the_api_and_the_page(
    stranger: httpx.AsyncClient,
) -> None:
    bearer = {"Authorization": f"Bearer {SECRET}"}
    user = {"name": "bob", "password": "123456789012", "scopes": ["read"]}
    refused = await stranger.post("/api/users", json=user, headers=bearer)
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_password")
    assert "unrelated words" in refused.json()["fix"]
    form = {"name": "bob", "password": "123456789012", "scope": "read"}
    page = await stranger.post("/access/users", data=form, headers=bearer)
    assert (page.status_code, "easy to guess" in page.text) == (422, True)


async def test_the_admin_secret_logs_in_without_a_name(stranger: httpx.AsyncClient) -> None:
    assert (await stranger.post("/login", data={"name": "", "password": "wrong"})).status_code == 401
    welcome = await stranger.post("/login", data={"name": "", "password": SECRET})
    assert welcome.status_code == 303
    assert SECRET not in welcome.headers["set-cookie"]
    assert (await stranger.get("/api/whoami")).json()["kind"] == "secret"
    value = stranger.cookies[COOKIE]
    stranger.cookies.clear()
    for false_one in (value[:-1] + "x", "", value * 2):
        answer = await stranger.get("/api/jobs", headers={"Cookie": f"{COOKIE}={false_one}"})
        assert answer.status_code == 401, false_one


async def test_a_session_ends_with_its_time_with_the_password_and_with_the_secret(
    database: Database, stranger: httpx.AsyncClient, ann: str, tmp_path: Path
) -> None:
    await stranger.post("/login", data={"name": "", "password": SECRET})
    value = stranger.cookies[COOKIE]
    other = httpx.ASGITransport(
        make_app(database, tmp_path, host="0.0.0.0", admin_secret="another secret, as long")
    )
    async with httpx.AsyncClient(transport=other, base_url="http://mill.example") as elsewhere:
        headers = {"Cookie": f"{COOKIE}={value}"}
        assert (await stranger.get("/api/jobs", headers=headers)).status_code == 200
        assert (await elsewhere.get("/api/jobs", headers=headers)).status_code == 401
    await stranger.post("/login", data={"name": ann, "password": PASSWORD})
    assert (await stranger.get("/api/jobs")).status_code == 200
    async with database.transaction() as connection:
        await users.set_password(connection, ann, "another one entirely")
    assert (await stranger.get("/api/jobs")).status_code == 401
    await stranger.post("/login", data={"name": ann, "password": "another one entirely"})
    assert (await stranger.get("/api/jobs")).status_code == 200
    async with database.transaction() as connection:
        await connection.execute("update login_sessions set expires_at = now()")
    assert (await stranger.get("/api/jobs")).status_code == 401


async def test_by_https_the_cookie_never_travels_in_the_open(public: FastAPI) -> None:
    transport = httpx.ASGITransport(public)
    async with httpx.AsyncClient(transport=transport, base_url="https://mill.example") as client:
        cookie = (await client.post("/login", data={"password": SECRET})).headers["set-cookie"]
        assert cookie.startswith(f"__Host-{COOKIE}=")
        assert "Secure" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie
        value = client.cookies[f"__Host-{COOKIE}"]
        client.cookies.clear()
        planted = await client.get("/api/jobs", headers={"Cookie": f"{COOKIE}={value}"})
        assert planted.status_code == 401  # another name of the domain can set that one
        from_http = {"Cookie": f"__Host-{COOKIE}={value}", "Origin": "http://mill.example"}
        assert (await client.post("/api/dead/requeue", json={}, headers=from_http)).status_code == 403


async def test_a_browser_that_changes_something_must_say_where_it_comes_from(
    stranger: httpx.AsyncClient,
) -> None:
    await stranger.post("/login", data={"password": SECRET})
    path, body = "/api/dead/requeue", {"ids": [1]}
    assert (await stranger.post(path, json=body)).status_code == 403
    assert (await stranger.post(path, json=body, headers={"Sec-Fetch-Site": "cross-site"})).status_code == 403
    assert (
        await stranger.post(path, json=body, headers={"Sec-Fetch-Site": "same-origin"})
    ).status_code == 200
    assert (await stranger.post(path, json=body, headers=OWN)).status_code == 200
    program = {"Authorization": f"Bearer {SECRET}"}
    stranger.cookies.clear()
    assert (await stranger.post(path, json=body, headers=program)).status_code == 200


async def test_guesses_at_a_name_are_bounded_and_do_not_lock_out_who_was_there_before(
    database: Database, tmp_path: Path, ann: str
) -> None:
    async with serve(database, tmp_path, trusted_proxies="127.0.0.1") as served:

        async def log_in(password: str, address: str, name: str = ann) -> httpx.Response:
            form = {"name": name, "password": password}
            return await served.client.post("/login", data=form, headers={"X-Forwarded-For": address})

        assert (await log_in(PASSWORD, "10.0.0.1")).status_code == 303
        for number in range(TRIES_BY_NAME):
            assert (await log_in("a guess", f"10.1.0.{number}")).status_code == 401
        held = await log_in(PASSWORD, "10.2.0.1")
        assert held.status_code == 429
        assert int(held.headers["retry-after"]) > 0
        assert "Too many wrong tries" in held.text
        assert (await log_in(PASSWORD, "10.0.0.1")).status_code == 303
        assert (await log_in("a guess", "10.2.0.1", name="somebody else")).status_code == 401
    failed = [each for each in await actions(database) if each[1] == "login.failed"]
    assert len(failed) == TRIES_BY_NAME + 1  # what is held up is not written down: nobody can fill the log


async def test_many_guesses_at_once_are_no_more_than_one_after_the_other(
    database: Database, tmp_path: Path
) -> None:
    async with serve(database, tmp_path, login="always") as served:
        form = {"name": "nobody", "password": "a guess"}
        answers = await asyncio.gather(*(served.client.post("/login", data=form) for _ in range(40)))
    statuses = [answer.status_code for answer in answers]
    assert (statuses.count(401), statuses.count(429)) == (TRIES_BY_NAME, 40 - TRIES_BY_NAME)


async def test_guesses_from_an_address_are_bounded_whatever_the_name(
    database: Database, tmp_path: Path
) -> None:
    async with serve(database, tmp_path, login="always") as served:
        for number in range(TRIES_BY_ADDRESS):
            form = {"name": f"name-{number}", "password": "a guess"}
            assert (await served.client.post("/login", data=form)).status_code == 401
        form = {"name": "", "password": SECRET}
        assert (await served.client.post("/login", data=form)).status_code == 429


async def test_guesses_at_tokens_keys_and_the_secret_are_bounded_and_hold_up_no_neighbour(
    database: Database, tmp_path: Path
) -> None:
    async with database.transaction() as connection:
        known = await create_token(connection, "known", [Scope.READ], days=None, made_by=HERE)
        fresh = await create_token(connection, "fresh", [Scope.READ], days=None, made_by=HERE)
    async with serve(database, tmp_path, login="always") as served:

        async def ask(token: str, path: str = "/api/jobs", method: str = "GET") -> httpx.Response:
            return await served.client.request(method, path, headers={"Authorization": f"Bearer {token}"})

        assert (await ask(known.token)).status_code == 200
        ways = (("/api/jobs", "GET"), ("/api/worker/hello", "POST"))
        for number in range(MOST_FAILURES):
            path, method = ways[number % 2]
            assert (await ask(f"mill_guess{number}", path, method)).status_code in (401, 422)
        for path, method in ways:
            held = await ask("mill_another", path, method)
            assert (held.status_code, held.json()["code"]) == (429, "too_many_requests")
            assert int(held.headers["retry-after"]) > 0
        assert (await ask(fresh.token)).status_code == 429
        assert (await ask(known.token)).status_code == 200
        assert (await served.client.get("/health")).status_code == 200


async def test_expensive_requests_are_bounded_for_each_caller_and_cheap_ones_are_not(
    database: Database, tmp_path: Path
) -> None:
    async with database.transaction() as connection:
        one = await create_token(connection, "one", [Scope.READ], days=None, made_by=HERE)
        two = await create_token(connection, "two", [Scope.READ], days=None, made_by=HERE)
    async with serve(database, tmp_path, login="always", costly_requests_per_minute=3) as served:

        async def search(token: str, path: str = "/api/search?q=cat") -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return (await served.client.get(path, headers=headers)).status_code

        assert [await search(one.token) for _ in range(4)] == [200, 200, 200, 429]
        assert await search(two.token) == 200
        assert [await search(one.token, "/api/jobs") for _ in range(5)] == [200] * 5
    async with serve(database, tmp_path, costly_requests_per_minute=1) as served:
        for _ in range(3):  # on this machine nobody counts
            assert (await served.client.get("/api/search?q=cat")).status_code == 200


async def test_on_loopback_a_login_can_be_demanded(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path, login="always") as served:
        assert (await served.client.get("/api/jobs")).status_code == 401
        assert (await served.client.get("/health")).status_code == 200
        secret = {"Authorization": f"Bearer {SECRET}"}
        assert (await served.client.get("/api/jobs", headers=secret)).status_code == 200


def test_after_the_login_one_stays_here() -> None:
    assert local_path("/jobs/7?x=1") == "/jobs/7?x=1"
    for elsewhere in (
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "",
        "evil",
        "/\n/evil",
        "/ x",
    ):
        assert local_path(elsewhere) == "/"


async def test_what_is_changed_is_noted_with_who_from_where_and_how_it_went(
    database: Database, tmp_path: Path
) -> None:
    async with database.transaction() as connection:
        made = await create_token(connection, "ops", [Scope.ADMIN], days=None, made_by=HERE)
    async with serve(database, tmp_path, trusted_proxies="127.0.0.1") as served:
        client = served.client
        client.headers.update({"Authorization": f"Bearer {made.token}", "X-Forwarded-For": "203.0.113.9"})
        user = {"name": "eve", "password": PASSWORD, "scopes": ["read"]}
        assert (await client.post("/api/users", json=user)).status_code == 201
        assert (
            await client.patch("/api/users/eve", json={"disabled": True, "password": PASSWORD})
        ).status_code == 200
        assert (await client.delete("/api/users/eve")).status_code == 200
        assert (await client.delete("/api/users/eve")).status_code == 404
        token = (await client.post("/api/tokens", json={"name": "camera", "scopes": ["ingest"]})).json()
        assert (await client.delete(f"/api/tokens/{token['id']}")).status_code == 200
        assert (await client.put("/api/pools/audio", json={"concurrency": 2})).status_code == 200
        assert (await client.put("/api/pools/audio", json={"concurrency": -2})).status_code == 422
        assert (await client.post("/api/dead/purge", json={"ids": [7]})).status_code == 200
        assert (await client.post("/api/workers/99/command", json={"command": "pause"})).status_code == 404

        async def all_noted() -> bool:
            """The outcome is noted after the answer has gone out."""
            entries[:] = (await client.get("/api/audit")).json()["entries"][::-1]
            return all(entry["outcome"] for entry in entries)

        entries: list[dict[str, Any]] = []
        await wait_until(all_noted)
        assert (await client.get("/api/audit?action=user&amount=1")).json()["entries"][0]["outcome"] == "404"
    told = [(entry["action"], entry["subject"], entry["outcome"]) for entry in entries]
    assert told == [
        ("user.add", "eve", "201"),
        ("user.change", "eve: password, disabled", "200"),
        ("user.remove", "eve", "200"),
        ("user.remove", "eve", "404"),
        ("token.create", f"{token['id']} camera: ingest", "201"),
        ("token.revoke", f"{token['id']} camera", "200"),
        ("pool.change", "audio", "200"),
        ("pool.change", "audio", "422"),
        ("dead.purge", "", "200"),
        ("worker.command", "99", "404"),
    ]
    assert {(entry["who"], entry["kind"], entry["address"]) for entry in entries} == {
        ("ops", "token", "203.0.113.9")
    }
    assert PASSWORD not in str(entries)
    assert token["token"] not in str(entries)


async def test_an_empty_admin_secret_is_none_and_lets_nobody_in(database: Database, tmp_path: Path) -> None:
    async with serve(database, tmp_path, login="always", admin_secret="") as served:
        empty = await served.client.post("/login", data={"name": "", "password": ""})
        assert (empty.status_code, "set-cookie" in empty.headers) == (401, False)
        headers = {"X-Admin-Secret": ""}
        made = await served.client.post("/api/worker/register", json={"name": "x"}, headers=headers)
        assert made.status_code == 403


async def test_many_guesses_at_once_at_the_admin_secret_are_no_more_than_one_after_the_other(
    database: Database, stranger: httpx.AsyncClient
) -> None:
    async with database.transaction() as connection:
        known = await create_token(connection, "reader", [Scope.READ], days=None, made_by=HERE)
    reader = {"Authorization": f"Bearer {known.token}"}

    async def guess(number: int) -> int:
        headers = {"X-Admin-Secret": f"guess {number}", **(reader if number % 2 else {})}
        answer = await stranger.post("/api/worker/register", json={"name": "x"}, headers=headers)
        return answer.status_code

    answers = await asyncio.gather(*(guess(number) for number in range(2 * MOST_FAILURES)))
    assert sorted(set(answers)) == [403, 429]
    assert answers.count(403) <= MOST_FAILURES
    right = {"X-Admin-Secret": SECRET}
    held = await stranger.post("/api/worker/register", json={"name": "x"}, headers=right)
    assert held.status_code == 429
    assert (await stranger.get("/api/whoami", headers=reader)).status_code == 200  # it was right lately


@pytest.mark.pages
async def test_whoever_has_a_session_cannot_guess_the_password_behind_it(
    database: Database, stranger: httpx.AsyncClient, ann: str
) -> None:
    await stranger.post("/login", data={"name": ann, "password": PASSWORD})
    new = {"password": "another one entirely", "again": "another one entirely"}

    async def change(old: str) -> int:
        answer = await stranger.post("/account/password", data={"old": old, **new}, headers=OWN)
        return answer.status_code

    tries = await asyncio.gather(*(change(f"a guess {number}") for number in range(TRIES_BY_NAME + 3)))
    assert (tries.count(409), tries.count(429)) == (TRIES_BY_NAME, 3)
    assert await change(PASSWORD) == 429
    stranger.cookies.clear()
    assert (await stranger.post("/login", data={"name": ann, "password": PASSWORD})).status_code == 303

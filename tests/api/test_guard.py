from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from mediamill.api.guard import OPEN_PATHS, SecretMissingError
from mediamill.api.sessions import COOKIE, SESSION_SECONDS, is_session, new_session
from mediamill.db.connection import Database
from tests.api.serving import SECRET, Served, make_app


def all_routes(routes: Any, prefix: str = "") -> list[tuple[str, str]]:
    """Every method and path that the application answers, also those of included routers and mounts."""
    found: list[tuple[str, str]] = []
    for route in routes:
        if hasattr(route, "original_router"):
            found += all_routes(route.original_router.routes, prefix)
        elif getattr(route, "methods", None):
            path = prefix + route.path.replace("{", "").replace("}", "").replace(":path", "")
            found += [
                (method, path.replace("job_id", "1").replace("worker_id", "1")) for method in route.methods
            ]
        else:
            found.append(("GET", f"{route.path}/mediamill.js"))
    return found


@pytest.fixture
def public(database: Database, tmp_path: Path) -> FastAPI:
    """A server that would listen on all addresses."""
    return make_app(database, tmp_path, host="0.0.0.0")


@pytest.fixture
async def stranger(public: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody from elsewhere."""
    transport = httpx.ASGITransport(public)
    async with httpx.AsyncClient(transport=transport, base_url="http://mill.example") as client:
        yield client


def test_a_server_beyond_loopback_is_not_made_without_a_secret(database: Database, tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "mill.example"):
        for secret in (None, ""):
            with pytest.raises(SecretMissingError, match="would let everybody in") as caught:
                make_app(database, tmp_path, host=host, admin_secret=secret)
            assert caught.value.fix is not None
            assert "MEDIAMILL_ADMIN_SECRET" in caught.value.fix


async def test_no_route_answers_a_stranger_without_the_secret(
    public: FastAPI, stranger: httpx.AsyncClient
) -> None:
    routes = all_routes(public.routes)
    paths = {path for _, path in routes}
    assert {"/", "/api/jobs", "/metrics", "/api/events", "/api/worker/claim", "/static/mediamill.js"} <= paths
    for method, path in routes:
        if path in OPEN_PATHS:
            continue
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{COOKIE}=9999999999.abc"}):
            answer = await stranger.request(method, path, headers=headers)
            # What registration is sent is read before its secret; nothing is done without both. A webhook that
            # nobody set up is not there.
            more = {"/api/worker/register": 422, "/api/telegram/bot_id/webhook": 404}.get(path, 401)
            assert answer.status_code in (401, 403, more), (method, path)


async def test_a_route_added_later_is_guarded_without_saying_so(
    public: FastAPI, stranger: httpx.AsyncClient
) -> None:
    @public.get("/api/new")
    async def new() -> str:
        return "inside"

    assert (await stranger.get("/api/new")).status_code == 401
    assert (await stranger.get("/api/new", headers={"Authorization": f"Bearer {SECRET}"})).json() == "inside"


async def test_health_is_open_and_the_secret_opens_the_rest(stranger: httpx.AsyncClient) -> None:
    assert (await stranger.get("/health")).status_code == 200
    right = {"Authorization": f"Bearer {SECRET}"}
    assert (await stranger.get("/api/jobs", headers=right)).status_code == 200
    assert (await stranger.get("/", headers=right)).status_code == 200


async def test_a_browser_logs_in_once_and_has_a_strict_cookie(stranger: httpx.AsyncClient) -> None:
    sent_away = await stranger.get("/", headers={"Accept": "text/html"})
    assert (sent_away.status_code, sent_away.headers["location"]) == (303, "/login")
    wrong = await stranger.post("/login", data={"secret": "wrong"})
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers
    right = await stranger.post("/login", data={"secret": SECRET})
    assert right.status_code == 303
    cookie = right.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert SECRET not in cookie
    assert (await stranger.get("/api/jobs")).status_code == 200
    value = stranger.cookies[COOKIE]
    stranger.cookies.clear()
    until, _, signature = value.partition(".")
    forged = (f"{until}.{signature[:-1]}x", f"{int(until) + 1}.{signature}", f".{signature}", until, "")
    for false_one in forged:
        answer = await stranger.get("/api/jobs", headers={"Cookie": f"{COOKIE}={false_one}"})
        assert answer.status_code == 401, false_one
    assert (await stranger.get("/api/jobs", headers={"Cookie": f"{COOKIE}={value}"})).status_code == 200


def test_a_session_ends_with_its_time_and_with_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = SecretStr(SECRET)
    cookie = f"{COOKIE}={new_session(secret)}"
    assert is_session(cookie, secret)
    assert not is_session(cookie, SecretStr("another"))
    assert not is_session(cookie, None)
    later = time.time() + SESSION_SECONDS + 1
    monkeypatch.setattr("mediamill.api.sessions.time.time", lambda: later)
    assert not is_session(cookie, secret)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "", "[bad"])
async def test_on_loopback_a_foreign_host_name_is_refused(served: Served, host: str) -> None:
    answer = await served.client.get("/api/jobs", headers={"Host": host})
    assert answer.status_code in (400, 403)
    if answer.status_code == 403:
        assert answer.json()["code"] == "foreign_host"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:1", "127.0.0.1", "127.1.2.3:99", "[::1]:8420", "LOCALHOST"]
)
async def test_on_loopback_its_own_names_are_welcome(served: Served, host: str) -> None:
    assert (await served.client.get("/api/jobs", headers={"Host": host})).status_code == 200


async def test_a_page_of_another_origin_changes_nothing(served: Served) -> None:
    job = {"kind": "scripted.run"}
    for headers in (
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://[broken"},
        {"Origin": ""},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        answer = await served.client.post("/api/jobs", json=job, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
    assert await served.one("select count(*) from jobs") == 0
    own = await served.client.post("/api/jobs", json=job, headers={"Origin": served.url})
    assert own.status_code == 201


async def test_every_answer_carries_the_strict_policy(served: Served) -> None:
    for path in ("/", "/api/jobs", "/nowhere", "/static/mediamill.css"):
        headers = (await served.client.get(path)).headers
        assert headers["content-security-policy"].startswith("default-src 'self';"), path
        assert headers["x-content-type-options"] == "nosniff"


async def test_an_unforeseen_error_tells_nothing_of_the_inside(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    @served.app.get("/api/broken")
    async def broken() -> None:
        raise RuntimeError("password=hunter2")

    answer = await served.client.get("/api/broken")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "hunter2" not in answer.text
    assert "hunter2" in caplog.text

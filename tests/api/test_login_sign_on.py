"""Single sign-on, against a real provider in a process of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from mediamill.access import users
from mediamill.api.sessions import COOKIE, STEP_COOKIE
from mediamill.db.connection import Database
from tests.access.people import PASSWORD, actions
from tests.api.serving import Served, serve
from tests.identity_provider.running import log_in_there, run_provider, settings_for
from tests.ports import free_port

ANN, BOB, EVE = "subject-of-ann", "subject-of-bob", "subject-of-eve"


@asynccontextmanager
async def home(
    database: Database, folder: Path, clock_shift_seconds: int = 0, **settings: Any
) -> AsyncIterator[Served]:
    """A server and its provider."""
    public_url = "http://localhost:1"  # nobody connects there: the provider must only know it
    chosen = {"oidc_users": "family", "public_url": public_url, **settings}
    async with (
        run_provider(public_url, clock_shift_seconds=clock_shift_seconds) as issuer,
        serve(database, folder, pages=True, **settings_for(issuer, **chosen)) as served,
    ):
        yield served


@asynccontextmanager
async def new_browser() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60) as client:
        yield client


def changed(url: str, **parameters: str | None) -> str:
    """The address with other parameters; None takes one away."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | parameters
    kept = {name: value for name, value in query.items() if value is not None}
    return parts._replace(query=urlencode(kept)).geturl()


async def begin(served: Served, next_: str = "/jobs") -> str:
    """The address at the provider."""
    start = await served.client.get("/login/oidc", params={"next": next_})
    assert start.status_code == 303, start.text
    return start.headers["location"]


async def come_back(served: Served, url: str) -> httpx.Response:
    """To this server, whatever it calls itself in public."""
    parts = urlsplit(url)
    return await served.client.get(f"{parts.path}?{parts.query}")


async def log_in(served: Served, subject: str) -> httpx.Response:
    async with new_browser() as browser:
        return await come_back(served, await log_in_there(browser, await begin(served), subject))


async def test_whoever_the_provider_vouches_for_and_the_lists_name_logs_in(
    database: Database, tmp_path: Path
) -> None:
    async with home(database, tmp_path) as served:
        form = (await served.client.get("/login", params={"next": "/jobs"})).text
        assert "Continue with Home &lt;ID&gt;" in form
        assert 'href="http://localhost:1/login/oidc?next=%2Fjobs"' in form
        url = await begin(served)
        asked = parse_qs(urlsplit(url).query)
        assert asked["code_challenge_method"] == ["S256"]
        assert asked.keys() >= {"state", "nonce", "code_challenge"}
        welcome = await log_in(served, ANN)
        assert (welcome.status_code, welcome.headers["location"]) == (303, "/jobs")
        assert STEP_COOKIE not in served.client.cookies
        known = (await served.client.get("/api/whoami")).json()
        assert known == {"kind": "user", "name": "ann", "scopes": ["read", "ingest"]}
        account = (await served.client.get("/account")).text
        assert "Home &lt;ID&gt;" in account
        assert "Second factor" not in account
        assert (await log_in(served, ANN)).status_code == 303
        async with database.connection() as connection:
            (listed,) = await users.list_users(connection)
            assert await users.check_login(connection, "ann", "") is None
    assert (listed["name"], listed["password_at"], listed["sessions"]) == ("ann", None, 2)
    assert ("ann", "login", "single sign-on") in await actions(database)


@pytest.mark.parametrize(
    "change",
    [
        {"state": "another"},
        {"state": None},
        {"iss": "https://elsewhere.example"},
        {"iss": None},
        {"code": "another"},
        {"code": None, "error": "access_denied", "error_description": "<b>"},
    ],
    ids=["another state", "no state", "another issuer", "no issuer", "another code", "refused there"],
)
async def test_an_answer_that_is_not_the_provider_s_own_lets_nobody_in(
    database: Database, tmp_path: Path, change: dict[str, str | None]
) -> None:
    async with home(database, tmp_path) as served, new_browser() as browser:
        back = await log_in_there(browser, await begin(served), ANN)
        refused = await come_back(served, changed(back, **change))
        assert refused.status_code in (401, 503)
        assert 'role="alert"' in refused.text
        assert COOKIE not in served.client.cookies
        again = await come_back(served, back)  # the step was taken: nobody tries twice
        assert (again.status_code, COOKIE in served.client.cookies) == (401, False)
        async with database.connection() as connection:
            assert await users.list_users(connection) == []
    assert [each[1] for each in await actions(database)] == ["login.failed"] * 2


async def test_another_nonce_and_another_browser_let_nobody_in(database: Database, tmp_path: Path) -> None:
    async with home(database, tmp_path) as served, new_browser() as browser:
        back = await log_in_there(browser, changed(await begin(served), nonce="another"), ANN)
        refused = await come_back(served, back)
        assert (refused.status_code, "nonce" in refused.text) == (401, True)
        back = await log_in_there(browser, await begin(served), ANN)
        served.client.cookies.clear()  # somebody else's browser, which is given the link
        assert (await come_back(served, back)).status_code == 401


async def test_an_expired_token_lets_nobody_in(database: Database, tmp_path: Path) -> None:
    async with home(database, tmp_path, clock_shift_seconds=-7200) as served:
        refused = await log_in(served, ANN)
        assert (refused.status_code, "expired" in refused.text) == (401, True)


async def test_a_provider_that_calls_itself_otherwise_or_is_down_is_not_used(
    database: Database, tmp_path: Path
) -> None:
    async with run_provider() as issuer:
        for wrong, said in (
            (issuer.replace("127.0.0.1", "localhost"), "calls itself"),
            (f"http://127.0.0.1:{free_port()}", "does not answer"),
        ):
            async with serve(database, tmp_path, **settings_for(wrong)) as served:
                start = await served.client.get("/login/oidc")
                assert (start.status_code, said in start.text) == (503, True)


async def test_the_lists_say_who_may_do_what_and_only_a_verified_address_counts(
    database: Database, tmp_path: Path
) -> None:
    async with home(
        database, tmp_path, oidc_admins="ann@HOME.example", oidc_users="family, bob@home.example"
    ) as served:
        for stranger in (BOB, EVE):
            refused = await log_in(served, stranger)
            assert (refused.status_code, "you may not log in here" in refused.text) == (401, True)
        assert (await log_in(served, ANN)).status_code == 303
        assert (await served.client.get("/api/whoami")).json()["scopes"] == ["admin"]
    async with database.connection() as connection:
        assert [user["name"] for user in await users.list_users(connection)] == ["ann"]


async def test_who_is_disabled_or_no_longer_in_the_lists_is_out(database: Database, tmp_path: Path) -> None:
    async with home(database, tmp_path) as served:
        assert (await log_in(served, ANN)).status_code == 303
        async with database.transaction() as connection:
            await users.disable_user(connection, "ann")
        assert (await served.client.get("/api/whoami")).status_code == 401
        refused = await log_in(served, ANN)
        assert (refused.status_code, "ann is disabled" in refused.text) == (401, True)
        async with database.transaction() as connection:
            await users.enable_user(connection, "ann")
        assert (await log_in(served, ANN)).status_code == 303
        sign_on = served.app.state.login_service.sign_on
        object.__setattr__(sign_on.config, "users", frozenset({"others"}))
        cookies = dict(served.client.cookies)
        assert (await log_in(served, ANN)).status_code == 401
        served.client.cookies.update(cookies)
        assert (await served.client.get("/api/whoami")).status_code == 401
        async with database.connection() as connection:
            assert (await users.list_users(connection))[0]["scopes"] == []


async def test_somebody_of_the_provider_never_becomes_a_user_who_is_there(
    database: Database, tmp_path: Path
) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "Ann", PASSWORD, ["admin"])
    async with home(database, tmp_path) as served:
        refused = await log_in(served, ANN)
        assert (refused.status_code, "another user ann" in refused.text) == (401, True)
        assert COOKIE not in served.client.cookies


async def test_without_a_provider_nothing_is_offered(served: Served) -> None:
    assert "Continue with" not in (await served.client.get("/login")).text
    for path in ("/login/oidc", "/login/oidc/callback"):
        assert (await served.client.get(path)).status_code == 404

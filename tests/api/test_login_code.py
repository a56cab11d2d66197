"""Logging in with a second factor, and turning it on and off."""

from __future__ import annotations

import re

import httpx
import pytest

from mediamill.access import users
from mediamill.api.login import TRIES_BY_NAME
from mediamill.api.sessions import COOKIE, STEP_COOKIE
from mediamill.db.connection import Database
from tests.access.people import OWN, PASSWORD, actions, clock_stands_still, code_at, enrol
from tests.api.serving import SECRET

__all__ = ["clock_stands_still"]
WELCOME = (303, "/jobs")


@pytest.fixture
async def secret(database: Database) -> str:
    """Of ann's authenticator app."""
    async with database.transaction() as connection:
        return (await enrol(connection))[1]


async def give_password(client: httpx.AsyncClient, password: str = PASSWORD) -> httpx.Response:
    return await client.post("/login", data={"name": "ann", "password": password, "next": "/jobs"})


async def give_code(client: httpx.AsyncClient, code: str) -> httpx.Response:
    return await client.post("/login/code", data={"code": code})


async def test_the_password_alone_opens_nothing(
    database: Database, stranger: httpx.AsyncClient, secret: str
) -> None:
    first = await give_password(stranger)
    assert (first.status_code, first.headers["location"]) == (303, "/login/code")
    assert COOKIE not in stranger.cookies
    assert "HttpOnly" in first.headers["set-cookie"]
    assert (await stranger.get("/api/whoami")).status_code == 401
    assert "Code of your authenticator app" in (await stranger.get("/login/code")).text
    wrong = await give_code(stranger, "000000")
    assert (wrong.status_code, "That code is wrong" in wrong.text) == (401, True)
    code = code_at(secret)
    right = await give_code(stranger, code)
    assert (right.status_code, right.headers["location"]) == WELCOME
    assert (await stranger.get("/api/whoami")).json()["name"] == "ann"
    assert STEP_COOKIE not in stranger.cookies
    stranger.cookies.clear()
    await give_password(stranger)
    assert (await give_code(stranger, code)).status_code == 401  # it was used
    assert await actions(database) == [
        ("somebody unknown", "login.failed", "ann (code)"),
        ("ann", "login", "second factor"),
        ("somebody unknown", "login.failed", "ann (code)"),
    ]


async def test_nobody_gets_to_the_code_without_the_password(stranger: httpx.AsyncClient, secret: str) -> None:
    assert (await give_password(stranger, "a wrong one")).status_code == 401
    assert (await give_code(stranger, code_at(secret))).status_code == 401
    form = await stranger.get("/login/code")
    assert (form.status_code, form.headers["location"]) == (303, "/login")


async def test_a_step_of_an_old_password_or_of_somebody_disabled_leads_nowhere(
    database: Database, stranger: httpx.AsyncClient, secret: str
) -> None:
    await give_password(stranger)
    async with database.transaction() as connection:
        await users.set_password(connection, "ann", "another one entirely")
    assert (await give_code(stranger, code_at(secret))).status_code == 401
    await give_password(stranger, "another one entirely")
    async with database.transaction() as connection:
        await users.disable_user(connection, "ann")
    assert (await give_code(stranger, code_at(secret))).status_code == 401


async def test_guesses_at_codes_are_bounded(stranger: httpx.AsyncClient, secret: str) -> None:
    await give_password(stranger)
    for _ in range(TRIES_BY_NAME):
        assert (await give_code(stranger, "000000")).status_code == 401
    held = await give_code(stranger, code_at(secret))
    assert (held.status_code, int(held.headers["retry-after"]) > 0) == (429, True)


@pytest.mark.pages
async def test_a_user_turns_it_on_uses_a_recovery_code_and_turns_it_off(
    database: Database, stranger: httpx.AsyncClient
) -> None:
    async with database.transaction() as connection:
        await users.add_user(connection, "ann", PASSWORD, ["read"])

    async def post(path: str, **form: str) -> httpx.Response:
        return await stranger.post(f"/account/second-factor{path}", data=form, headers=OWN)

    await give_password(stranger)
    assert (await post("", password="a wrong one")).status_code == 409
    page = await post("", password=PASSWORD)
    assert (page.status_code, "<svg" in page.text) == (200, True)
    assert page.headers["cache-control"] == "no-store"
    found = re.search(r'id="totp-secret">([A-Z2-7]+)<', page.text)
    assert found
    again = await post("/confirm", code="000000")
    assert (again.status_code, found[1] in again.text) == (409, True)
    on = await post("/confirm", code=code_at(found[1], -1))
    recovery = re.findall(r"<code>([a-z2-7-]{19})</code>", on.text)
    assert len(recovery) == 10
    assert recovery[0] not in (await stranger.get("/account")).text
    stranger.cookies.clear()
    await give_password(stranger)
    assert (await give_code(stranger, recovery[0])).status_code == 303
    assert "9 recovery codes left" in (await stranger.get("/account")).text
    assert (await post("/remove", password=PASSWORD, code="000000")).status_code == 409
    assert (await post("/remove", password="a wrong one", code=code_at(found[1]))).status_code == 409
    assert (await post("/remove", password=PASSWORD, code=code_at(found[1]))).status_code == 303
    stranger.cookies.clear()
    assert (await give_password(stranger)).headers["location"] == "/jobs"


@pytest.mark.pages
async def test_an_administrator_resets_it_by_the_api_and_by_the_page(
    database: Database, stranger: httpx.AsyncClient, secret: str
) -> None:
    bearer = {"Authorization": f"Bearer {SECRET}"}
    assert (await stranger.delete("/api/users/ann/second-factor")).status_code == 401
    assert (await stranger.delete("/api/users/ann/second-factor", headers=bearer)).status_code == 200
    assert (await give_password(stranger)).headers["location"] == "/jobs"
    async with database.transaction() as connection:
        await enrol(connection, "bob")
    assert "Reset second factor" in (await stranger.get("/access", headers=bearer)).text
    done = await stranger.post("/access/users/bob/reset-second-factor", headers=bearer)
    assert done.status_code == 303
    noted = [each for each in await actions(database) if each[1] == "user.change"]
    assert noted == [
        ("admin secret", "user.change", f"{name}: reset-second-factor") for name in ("ann", "bob")
    ]

"""Logging in and out with a browser: a name and a password, or the admin secret; a session's cookie from then on.

Wrong tries are counted by address and by name; whoever logged in under a name from an address lately is not held up by
others who guess at that name.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.access.audit import note
from mediamill.access.limits import Buckets, Lately, neighbourhood
from mediamill.access.model import ADMIN, Caller, Scope
from mediamill.access.sessions import close_session, open_session, session_caller
from mediamill.access.users import check_found, look_up
from mediamill.api.callers import address_of
from mediamill.api.plain_page import plain_page
from mediamill.api.sessions import cookie_name, give_cookie, is_secret, session_of
from mediamill.db.connection import Database
from mediamill.settings import Settings

router = APIRouter(include_in_schema=False)

MOST_FIELDS = 20
TRIES_SECONDS = 900.0
TRIES_BY_ADDRESS, TRIES_BY_NAME = 20, 10
_LOCAL_PATH = re.compile(r"/(?![/\\])[!-~]{0,1000}")
FORM = """<form method="post" action="/login">
<label for="name">Name</label>
<input id="name" name="name" autocomplete="username" autocapitalize="none" spellcheck="false" value="{name}"{first}>
<label for="password">Password</label>
<input id="password" name="password" type="password" autocomplete="current-password" required{second}>
<input type="hidden" name="next" value="{next}">
{fault}<button type="submit">Log in</button>
<p class="quiet">With the admin secret: leave the name empty.</p></form>"""


@dataclass(frozen=True, slots=True)
class Tried:
    """What was typed into the form, and from where."""

    name: str
    password: str
    next: str
    address: str | None


class LoginDesk:
    """Who may come in, and how often they may try; one for each server process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._secret = database, settings.admin_secret
        self.session_seconds = settings.session_hours * 3600
        self._by_address = Buckets(TRIES_BY_ADDRESS, TRIES_SECONDS)
        self._by_name = Buckets(TRIES_BY_NAME, TRIES_SECONDS)
        self._lately = Lately()

    def wait_seconds(self, tried: Tried) -> float:
        """How long until this one may try."""
        where, name = neighbourhood(tried.address), tried.name.lower()
        if (where, name) in self._lately:
            return self._by_address.wait_seconds(where)
        return max(self._by_address.wait_seconds(where), self._by_name.wait_seconds(name))

    async def log_in(self, tried: Tried, agent: str) -> str | None:
        """The value of the cookie, or None. Either is in the audit log."""
        where, name = neighbourhood(tried.address), tried.name.lower()
        self._by_address.take(
            where
        )  # before it is looked at: many at once are not more than one after the other
        self._by_name.take(name)
        user = await self._find(tried)
        if user is None:
            async with self._database.transaction() as connection:
                await note(connection, None, "login.failed", tried.name or ADMIN.name, address=tried.address)
            return None
        self._by_address.give_back(where)
        self._by_name.give_back(name)
        self._lately.add((where, name))
        caller = _caller_of(user)
        async with self._database.transaction() as connection:
            await note(connection, caller, "login", address=tried.address)
            return await open_session(
                connection,
                user or None,
                self._secret,
                seconds=self.session_seconds,
                address=tried.address,
                agent=agent,
            )

    async def _find(self, tried: Tried) -> dict[str, Any] | None:
        """The user; of the admin secret, an empty one."""
        if not tried.name:
            return {} if is_secret(tried.password, self._secret) else None
        async with self._database.connection() as connection:
            user = await look_up(connection, tried.name)
        return await check_found(user, tried.password)

    async def log_out(self, value: str, address: str | None) -> None:
        """The session is over, on every server."""
        async with self._database.transaction() as connection:
            caller = await session_caller(connection, value, self._secret)
            if caller is not None and caller.session is not None:
                await close_session(connection, caller.session)
                await note(connection, caller, "logout", address=address)


def _caller_of(user: dict[str, Any]) -> Caller:
    return Caller("user", user["name"], frozenset(map(Scope, user["scopes"])), user["id"]) if user else ADMIN


@router.get("/login")
async def show_form(next: str = "/") -> HTMLResponse:
    """The form."""
    return _form(Tried("", "", local_path(next), None))


@router.post("/login")
async def log_in(request: Request) -> Response:
    """A session for the right name and password."""
    tried = _read(await request.body(), address_of(request.scope))
    desk: LoginDesk = request.app.state.login_desk
    wait = desk.wait_seconds(tried)
    if wait > 0:
        minutes = max(1, round(wait / 60))
        answer = _form(
            tried, f"Too many wrong tries. Try again in {minutes} minute{'s' if minutes > 1 else ''}.", 429
        )
        answer.headers["Retry-After"] = str(int(wait) + 1)
        return answer
    value = await desk.log_in(tried, request.headers.get("user-agent", ""))
    if value is None:
        return _form(tried, "That is not the right name and password.", 401)
    welcome = RedirectResponse(tried.next, 303)
    give_cookie(request, welcome, value, desk.session_seconds)
    return welcome


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """The session is over; back to the form."""
    scheme = request.url.scheme
    value = session_of(request.headers.get("cookie"), scheme)
    if value is not None:
        desk: LoginDesk = request.app.state.login_desk
        await desk.log_out(value, address_of(request.scope))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(cookie_name(scheme), httponly=True, samesite="lax", secure=scheme == "https")
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


def local_path(text: str) -> str:
    """A path of ours to go on to; anything else is the first page."""
    return text if _LOCAL_PATH.fullmatch(text) else "/"


def _read(body: bytes, address: str | None) -> Tried:
    try:
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        form = {}
    given = {key: values[0] for key, values in form.items()}
    name, next_ = given.get("name", "").strip()[:64], local_path(given.get("next", "/"))
    return Tried(name.replace("\0", ""), given.get("password", given.get("secret", "")), next_, address)


def _form(tried: Tried, fault: str = "", status: int = 200) -> HTMLResponse:
    told = f'<p class="fault" role="alert">{html.escape(fault)}</p>' if fault else ""
    first, second = ("", " autofocus") if tried.name else (" autofocus", "")
    form = FORM.format(
        name=html.escape(tried.name), next=html.escape(tried.next), fault=told, first=first, second=second
    )
    return plain_page("Log in", form, status)

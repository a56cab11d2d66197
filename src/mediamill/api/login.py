"""Logging in and out with a browser: a name and a password, or the admin secret; a session's cookie from then on.

Users with a second factor are asked for a code afterwards. Wrong tries are counted by address and by name; whoever
logged in under a name from an address lately is not held up by others who guess at that name.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.access.audit import note
from mediamill.access.limits import Buckets, Lately, neighbourhood
from mediamill.access.model import ADMIN, Caller, Scope
from mediamill.access.passwords import proof_of
from mediamill.access.second_factor import use_code
from mediamill.access.sessions import SessionLimits, close_session, open_session, session_caller
from mediamill.access.single_sign_on import SignOnConfig, SingleSignOn
from mediamill.access.steps import STEP_SECONDS, begin_step, find_step, take_step
from mediamill.access.users import check_found, look_up, show_user
from mediamill.api.callers import address_of
from mediamill.api.login_page import code_page, local_path, login_page
from mediamill.api.sessions import (
    STEP_COOKIE,
    give_cookie,
    is_secret,
    session_of,
    session_secret,
    step_of,
    take_cookie,
)
from mediamill.db.connection import Connection, Database
from mediamill.settings import Settings

router = APIRouter(include_in_schema=False)

MOST_FIELDS = 20
TRIES_SECONDS = 900.0
TRIES_BY_ADDRESS, TRIES_BY_NAME = 20, 10
STARTS_BY_ADDRESS = 60


@dataclass(frozen=True, slots=True)
class Visitor:
    """Where a login comes from."""

    address: str | None
    agent: str

    @classmethod
    def of(cls, request: Request) -> Visitor:
        """As the request tells."""
        return cls(address_of(request.scope), request.headers.get("user-agent", ""))

    @property
    def where(self) -> str:
        """What is counted."""
        return neighbourhood(self.address)


class LoginService:
    """Who may log in, and how often they may try; one for each server process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database, self._secret = database, settings.admin_secret
        self.limits = SessionLimits.of(settings)
        self._session_secret = session_secret(settings)
        self._by_address = Buckets(TRIES_BY_ADDRESS, TRIES_SECONDS)
        self._by_name = Buckets(TRIES_BY_NAME, TRIES_SECONDS)
        self._by_user = Buckets(TRIES_BY_NAME, TRIES_SECONDS)
        self._starts = Buckets(STARTS_BY_ADDRESS, TRIES_SECONDS)
        self._failures = Buckets(STARTS_BY_ADDRESS, TRIES_SECONDS)
        self._lately = Lately()
        config = SignOnConfig.of(settings)
        self.sign_on = SingleSignOn(config) if config else None

    def wait_seconds(self, name: str, visitor: Visitor) -> float:
        """How long until this one may try a password."""
        where, key = visitor.where, name.lower()
        if (where, key) in self._lately:
            return self._by_address.wait_seconds(where)
        return max(self._by_address.wait_seconds(where), self._by_name.wait_seconds(key))

    def count_start(self, visitor: Visitor) -> float:
        """A login of several steps begins, which is written down; or how long until this one may begin it."""
        wait = self._starts.wait_seconds(visitor.where)
        if wait == 0:
            self._starts.take(visitor.where)
        return wait

    async def check_password(self, name: str, password: str, visitor: Visitor) -> dict[str, Any] | None:
        """The user; of the admin secret, an empty one. A wrong try is in the audit log."""
        where, key = visitor.where, name.lower()
        # Before it is looked at: many at once are not more than one after the other.
        self._by_address.take(where)
        self._by_name.take(key)
        user = await self._find(name, password)
        if user is None:
            await self.note_failure(name or ADMIN.name, visitor)
            return None
        self._by_address.give_back(where)
        self._by_name.give_back(key)
        self._lately.add((where, key))
        return user

    async def _find(self, name: str, password: str) -> dict[str, Any] | None:
        if not name:
            return {} if is_secret(password, self._secret) else None
        async with self._database.connection() as connection:
            user = await look_up(connection, name)
        return await check_found(user, password)

    async def begin_code(self, user: dict[str, Any], next_: str) -> str:
        """The password was right, and a code is asked for; the value of the cookie of this step."""
        data = {"next": next_, "proof": proof_of(user["password_hash"]).hex()}
        async with self._database.transaction() as connection:
            return await begin_step(connection, "code", data, user["id"])

    async def code_user(self, value: str | None) -> tuple[dict[str, Any], str] | None:
        """Whose code is asked for, and where they go on to; nobody if the password changed meanwhile."""
        async with self._database.connection() as connection:
            step = await find_step(connection, "code", value)
            user = await show_user(connection, step.user_id) if step and step.user_id else None
        if step is None or user is None:
            return None
        same = hmac.compare_digest(step.data["proof"], proof_of(user["password_hash"]).hex())
        return (user, step.data["next"]) if same else None

    def code_wait_seconds(self, user: dict[str, Any], visitor: Visitor) -> float:
        """How long until they may try a code."""
        return max(self._by_address.wait_seconds(visitor.where), self._by_user.wait_seconds(user["id"]))

    async def check_code(
        self, user: dict[str, Any], value: str | None, code: str, visitor: Visitor
    ) -> str | None:
        """A session, if the code is right; of two requests with one code, the first gets it."""
        self._by_address.take(visitor.where)
        self._by_user.take(user["id"])
        async with self._database.transaction() as connection:
            right = await use_code(connection, user["id"], code)
            if right and await take_step(connection, "code", value):
                self._by_address.give_back(visitor.where)
                self._by_user.give_back(user["id"])
                return await self._open(connection, user, "second factor", visitor)
        await self.note_failure(f"{user['name']} (code)", visitor)
        return None

    async def note_failure(self, subject: str, visitor: Visitor) -> None:
        """In the audit log, as long as nobody fills it."""
        if self._failures.wait_seconds(visitor.where) > 0:
            return
        self._failures.take(visitor.where)
        async with self._database.transaction() as connection:
            await note(connection, None, "login.failed", subject, address=visitor.address)

    async def open(self, user: dict[str, Any], how: str, visitor: Visitor) -> str:
        """A session, in the audit log; the value of its cookie."""
        async with self._database.transaction() as connection:
            return await self._open(connection, user, how, visitor)

    async def _open(self, connection: Connection, user: dict[str, Any], how: str, visitor: Visitor) -> str:
        await note(connection, _caller_of(user), "login", how, address=visitor.address)
        return await open_session(
            connection,
            user or None,
            self._secret,
            limits=self.limits,
            address=visitor.address,
            agent=visitor.agent,
        )

    async def log_out(self, value: str, address: str | None) -> None:
        """The session is over, on every server."""
        async with self._database.transaction() as connection:
            caller = await session_caller(connection, value, self._session_secret)
            if caller is not None and caller.session is not None:
                await close_session(connection, caller.session)
                await note(connection, caller, "logout", address=address)


def _caller_of(user: dict[str, Any]) -> Caller:
    return Caller("user", user["name"], frozenset(map(Scope, user["scopes"])), user["id"]) if user else ADMIN


def login_service(request: Request) -> LoginService:
    """That of this server."""
    service: LoginService = request.app.state.login_service
    return service


@router.get("/login")
async def show_form(request: Request, next: str = "/") -> HTMLResponse:
    """The ways in."""
    return login_page(request, next_=local_path(next))


@router.post("/login")
async def log_in(request: Request) -> Response:
    """A session for the right name and password; with a second factor, the next step."""
    form = read_form(await request.body())
    name, next_ = form.get("name", "").strip()[:64].replace("\0", ""), local_path(form.get("next", "/"))
    service, visitor = login_service(request), Visitor.of(request)
    wait = service.wait_seconds(name, visitor)
    if wait > 0:
        return login_page(request, name, next_, wait_seconds=wait)
    user = await service.check_password(name, form.get("password", form.get("secret", "")), visitor)
    if user is None:
        return login_page(request, name, next_, "That is not the right name and password.", 401)
    if user.get("second_factor"):
        answer = RedirectResponse("/login/code", 303)
        value = await service.begin_code(user, next_)
        give_cookie(request, answer, value, STEP_SECONDS, STEP_COOKIE)
        return answer
    return welcome(request, await service.open(user, "", visitor), next_)


@router.get("/login/code")
async def show_code_form(request: Request) -> Response:
    """The second step, for whoever took the first."""
    found = await login_service(request).code_user(step_of(request))
    return code_page() if found else RedirectResponse("/login", 303)


@router.post("/login/code")
async def enter_code(request: Request) -> Response:
    """A session for the right code."""
    code = read_form(await request.body()).get("code", "")
    service, visitor, value = login_service(request), Visitor.of(request), step_of(request)
    found = await service.code_user(value)
    if found is None:
        return login_page(request, fault="That took too long. Log in again.", status=401)
    user, next_ = found
    wait = service.code_wait_seconds(user, visitor)
    if wait > 0:
        return code_page(wait_seconds=wait)
    session = await service.check_code(user, value, code, visitor)
    if session is None:
        return code_page("That code is wrong, or was used before. Wait for the next one.", 401)
    return welcome(request, session, next_)


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """The session is over; back to the form."""
    value = session_of(request.headers.get("cookie"), request.url.scheme)
    if value is not None:
        await login_service(request).log_out(value, address_of(request.scope))
    answer = RedirectResponse("/login", 303)
    take_cookie(request, answer)
    answer.headers["Clear-Site-Data"] = '"cache"'
    return answer


def welcome(request: Request, session: str, next_: str) -> Response:
    """Logged in: on to where they wanted to go."""
    answer = RedirectResponse(next_, 303)
    give_cookie(request, answer, session, login_service(request).limits.seconds)
    take_cookie(request, answer, STEP_COOKIE)
    return answer


def read_form(body: bytes) -> dict[str, str]:
    """The first value of each field; nothing of a body that is no form."""
    try:
        form = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}
    return {key: values[0] for key, values in form.items()}

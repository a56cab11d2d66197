"""The page of users and tokens, and the one on which somebody sees their own account."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.access import sessions, tokens, users
from mediamill.access.audit import tell_subject
from mediamill.access.limits import Buckets
from mediamill.access.model import HERE, MEANINGS, Caller, current_caller
from mediamill.db.connection import Connection, Database
from mediamill.errors import ConflictError, InvalidError, MediamillError, TooManyError
from mediamill.ui.bots import read_form
from mediamill.ui.rendering import Renderer, status_of

TERMS = {"30": "30 days", "90": "90 days", "365": "a year", "": "until it is revoked"}
TRIES, TRIES_SECONDS = 10, 900.0  # at one's own password: a session that was left open is not to find it out
ONCE = {"Cache-Control": "no-store"}
Form = dict[str, list[str]]
Id = Annotated[int, InPath(ge=1, le=2**63 - 1)]


class WrongPasswordError(ConflictError):
    """That is not your password."""

    code = "wrong_password"


def add_access_pages(router: APIRouter, renderer: Renderer, database: Database) -> None:
    """Their routes."""
    page = _AccessPage(renderer, database)
    router.get("/access")(page.all)
    router.post("/access/users")(page.add_user)
    router.post("/access/users/{name}/{change}")(page.change_user)
    router.post("/access/tokens")(page.create_token)
    router.post("/access/tokens/{token_id}/revoke")(page.revoke_token)
    router.get("/account")(page.account)
    router.post("/account/password")(page.set_own_password)
    router.post("/account/log-out-others")(page.log_out_others)


class _AccessPage:
    def __init__(self, renderer: Renderer, database: Database) -> None:
        self._renderer, self._database = renderer, database
        self._tries = Buckets(TRIES, TRIES_SECONDS)

    async def all(self, all: bool = False) -> HTMLResponse:
        """Users and tokens, with forms for new ones."""
        return await self._all(all=all)

    async def _all(self, status_code: int = 200, all: bool = False, **given: Any) -> HTMLResponse:
        async with self._database.connection() as connection:
            found = await users.list_users(connection)
            made = await tokens.list_tokens(connection, all_=all)
        defaults: dict[str, Any] = {"fault": None, "token_fault": None, "new_token": None, "form": {}}
        facts = {"users": found, "tokens": made, "all": all, "meanings": MEANINGS, "terms": TERMS}
        return self._renderer.page("access/all.html", status_code, **defaults | facts | given)

    async def add_user(self, request: Request) -> Response:
        """From the form; a fault is told above it, with what was typed still in it, but for the password."""
        form = await read_form(request)
        name, scopes = _first(form, "name"), form.get("scope", [])
        tell_subject(name)
        try:
            async with self._database.transaction() as connection:
                await users.add_user(connection, name, _new_password(form), scopes)
        except MediamillError as error:
            given = {"name": name, "scopes": scopes}
            return await self._all(status_of(error), fault=_words(error), form=given)
        return RedirectResponse("/access", 303)

    async def change_user(self, request: Request, name: str, change: str) -> Response:
        """Scopes, password, disable, enable or remove; back to the page."""
        form = await read_form(request)
        tell_subject(f"{name}: {change[:20]}")
        try:
            async with self._database.transaction() as connection:
                await _change(connection, name, change, form)
        except MediamillError as error:
            return await self._all(status_of(error), fault=_words(error))
        return RedirectResponse("/access", 303)

    async def create_token(self, request: Request) -> Response:
        """It is shown on the answer to this, and nowhere else."""
        form = await read_form(request)
        name, term = _first(form, "name"), _first(form, "days")
        try:
            if term not in TERMS:
                raise InvalidError("a token is valid for one of the times that are listed")
            async with self._database.transaction() as connection:
                made = await tokens.create_token(
                    connection,
                    name,
                    form.get("scope", []),
                    days=float(term) if term else None,
                    made_by=current_caller() or HERE,
                )
        except MediamillError as error:
            given = {"token_name": name, "token_scopes": form.get("scope", []), "days": term}
            return await self._all(status_of(error), token_fault=_words(error), form=given)
        tell_subject(f"{made.id} {made.name}: {'+'.join(made.scopes)}")
        answer = await self._all(201, new_token=made)
        answer.headers.update(ONCE)
        return answer

    async def revoke_token(self, token_id: Id) -> Response:
        """It works no more."""
        async with self._database.transaction() as connection:
            tell_subject(f"{token_id} {await tokens.revoke_token(connection, token_id)}")
        return RedirectResponse("/access", 303)

    async def account(self, fault: str | None = None, status_code: int = 200) -> HTMLResponse:
        """Who you are here, and where you are logged in."""
        caller = current_caller() or HERE
        async with self._database.connection() as connection:
            found = await sessions.list_sessions(connection, caller.id) if caller.session else []
        return self._renderer.page(
            "access/account.html", status_code, who=caller, sessions=found, meanings=MEANINGS, fault=fault
        )

    async def set_own_password(self, request: Request) -> Response:
        """The old one is asked for; every session is over, also this one."""
        caller, form = current_caller() or HERE, await read_form(request)
        tell_subject(caller.name)
        try:
            await self._set_own_password(caller, form)
        except MediamillError as error:
            return await self.account(_words(error), status_of(error))
        return RedirectResponse("/login", 303)

    async def _set_own_password(self, caller: Caller, form: Form) -> None:
        if caller.kind != "user":
            raise WrongPasswordError("only a user has a password")
        wait = self._tries.wait_seconds(caller.id)
        if wait > 0:
            raise TooManyError("too many wrong tries", fix="wait, then try the right one", wait_seconds=wait)
        self._tries.take(
            caller.id
        )  # before it is looked at: many at once are not more than one after the other
        async with self._database.transaction() as connection:
            if await users.check_login(connection, caller.name, _first(form, "old", strip=False)) is None:
                raise WrongPasswordError
            self._tries.give_back(caller.id)
            await users.set_password(connection, caller.name, _new_password(form))

    async def log_out_others(self) -> Response:
        """Everywhere but here."""
        caller = current_caller() or HERE
        tell_subject(caller.name)
        if caller.session is not None:
            async with self._database.transaction() as connection:
                await sessions.close_others(connection, caller)
        return RedirectResponse("/account", 303)


async def _change(connection: Connection, name: str, change: str, form: Form) -> None:
    match change:
        case "scopes":
            await users.set_scopes(connection, name, form.get("scope", []))
        case "password":
            await users.set_password(connection, name, _new_password(form))
        case "disable":
            await users.disable_user(connection, name)
        case "enable":
            await users.enable_user(connection, name)
        case "remove":
            await users.remove_user(connection, name)
        case _:
            raise users.UnknownUserError(f"nobody can {change[:20]!r} a user")


def _first(form: Form, name: str, *, strip: bool = True) -> str:
    value = form.get(name, [""])[0]
    return value.strip() if strip else value


def _new_password(form: Form) -> str:
    password = _first(form, "password", strip=False)
    if "again" in form and form["again"][0] != password:
        raise InvalidError("the two passwords are not the same")
    return password


def _words(error: MediamillError) -> str:
    return f"{error.message}{f' ({error.fix})' if error.fix else ''}"

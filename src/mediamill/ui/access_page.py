"""The page of users and tokens."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.access import tokens, users
from mediamill.access.audit import tell_subject
from mediamill.access.model import HERE, MEANINGS, current_caller
from mediamill.db.connection import Connection, Database
from mediamill.errors import InvalidError, MediamillError
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer, status_of

TERMS = {"30": "30 days", "90": "90 days", "365": "a year", "": "until it is revoked"}
ONCE = {"Cache-Control": "no-store"}
Form = dict[str, list[str]]
Id = Annotated[int, InPath(ge=1, le=2**63 - 1)]


def add_access_pages(router: APIRouter, renderer: Renderer, database: Database) -> None:
    """Their routes."""
    page = _AccessPage(renderer, database)
    router.get("/access")(page.all)
    router.post("/access/users")(page.add_user)
    router.post("/access/users/{name}/{change}")(page.change_user)
    router.post("/access/tokens")(page.create_token)
    router.post("/access/tokens/{token_id}/revoke")(page.revoke_token)


class _AccessPage:
    def __init__(self, renderer: Renderer, database: Database) -> None:
        self._renderer, self._database = renderer, database

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
        name, scopes = first_value(form, "name"), form.get("scope", [])
        tell_subject(name)
        try:
            async with self._database.transaction() as connection:
                await users.add_user(connection, name, new_password(form), scopes)
        except MediamillError as error:
            given = {"name": name, "scopes": scopes}
            return await self._all(status_of(error), fault=in_words(error), form=given)
        return RedirectResponse("/access", 303)

    async def change_user(self, request: Request, name: str, change: str) -> Response:
        """Scopes, password, disable, enable or remove; back to the page."""
        form = await read_form(request)
        tell_subject(f"{name}: {change[:20]}")
        try:
            async with self._database.transaction() as connection:
                await _change(connection, name, change, form)
        except MediamillError as error:
            return await self._all(status_of(error), fault=in_words(error))
        return RedirectResponse("/access", 303)

    async def create_token(self, request: Request) -> Response:
        """It is shown on the answer to this, and nowhere else."""
        form = await read_form(request)
        name, term = first_value(form, "name"), first_value(form, "days")
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
            return await self._all(status_of(error), token_fault=in_words(error), form=given)
        tell_subject(f"{made.id} {made.name}: {'+'.join(made.scopes)}")
        answer = await self._all(201, new_token=made)
        answer.headers.update(ONCE)
        return answer

    async def revoke_token(self, token_id: Id) -> Response:
        """It works no more."""
        async with self._database.transaction() as connection:
            tell_subject(f"{token_id} {await tokens.revoke_token(connection, token_id)}")
        return RedirectResponse("/access", 303)


async def _change(connection: Connection, name: str, change: str, form: Form) -> None:
    match change:
        case "scopes":
            await users.set_scopes(connection, name, form.get("scope", []))
        case "password":
            await users.set_password(connection, name, new_password(form))
        case "disable":
            await users.disable_user(connection, name)
        case "enable":
            await users.enable_user(connection, name)
        case "reset-second-factor":
            await users.reset_second_factor(connection, name)
        case "remove":
            await users.remove_user(connection, name)
        case _:
            raise users.UnknownUserError(f"nobody can {change[:20]!r} a user")


def first_value(form: Form, name: str, *, strip: bool = True) -> str:
    """Of a field that is there once."""
    value = form.get(name, [""])[0]
    return value.strip() if strip else value


def new_password(form: Form) -> str:
    """As it was typed, twice where it was asked for twice."""
    password = first_value(form, "password", strip=False)
    if "again" in form and form["again"][0] != password:
        raise InvalidError("the two passwords are not the same")
    return password


def in_words(error: MediamillError) -> str:
    """What went wrong, and what to do."""
    return f"{error.message}{f' ({error.fix})' if error.fix else ''}"

"""The page on which somebody sees their own account: sessions, password, second factor, passkeys."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.access import passkeys, second_factor, sessions, users
from mediamill.access.audit import tell_subject
from mediamill.access.limits import Buckets
from mediamill.access.model import HERE, MEANINGS, Caller, current_caller
from mediamill.access.places import RelyingParty, localhost_instead, public_origin, relying_party
from mediamill.db.connection import Database
from mediamill.errors import ConflictError, InvalidError, MediamillError, TooManyError
from mediamill.settings import Settings
from mediamill.ui.access_page import ONCE, Id, first_value, in_words, new_password
from mediamill.ui.forms import read_form
from mediamill.ui.qr import qr_svg
from mediamill.ui.rendering import Renderer, status_of

# Tries at one's own password and codes: whoever finds an open session must not find out the rest.
TRIES, TRIES_SECONDS = 10, 900.0
T = TypeVar("T")


class WrongPasswordError(ConflictError):
    """That is not your password."""

    code = "wrong_password"


class NotYoursError(ConflictError):
    """Only users with a password have this."""

    code = "no_password"


class Proof(msgspec.Struct):
    """That it is the user who asks for a passkey."""

    password: str


class Made(msgspec.Struct):
    """A new passkey."""

    step: str
    credential: msgspec.Raw
    name: str


def add_account_page(router: APIRouter, renderer: Renderer, database: Database, settings: Settings) -> None:
    """Its routes."""
    page = _AccountPage(renderer, database, settings)
    router.get("/account")(page.show)
    router.post("/account/password")(page.set_password)
    router.post("/account/second-factor")(page.begin_factor)
    router.post("/account/second-factor/confirm")(page.confirm_factor)
    router.post("/account/second-factor/remove")(page.remove_factor)
    router.post("/account/passkeys/begin")(page.begin_passkey)
    router.post("/account/passkeys")(page.add_passkey)
    router.post("/account/passkeys/{passkey_id}/remove")(page.remove_passkey)
    router.post("/account/log-out-others")(page.log_out_others)


class _AccountPage:
    def __init__(self, renderer: Renderer, database: Database, settings: Settings) -> None:
        self._renderer, self._database, self._settings = renderer, database, settings
        self._tries = Buckets(TRIES, TRIES_SECONDS)

    async def show(self, request: Request) -> HTMLResponse:
        """Who you are here, how you log in, and where you are logged in."""
        return await self._show(request)

    async def _show(self, request: Request, status_code: int = 200, **given: Any) -> HTMLResponse:
        caller = current_caller() or HERE
        facts: dict[str, Any] = {"who": caller, "sessions": [], "user": None, "factor": None, "passkeys": []}
        facts["sign_on_label"] = self._settings.oidc_label
        async with self._database.connection() as connection:
            if caller.session:
                facts["sessions"] = await sessions.list_sessions(connection, caller.id)
            if caller.kind == "user" and caller.id is not None:
                facts["user"] = await users.show_user(connection, caller.id)
                facts["factor"] = await second_factor.factor_state(connection, caller.id)
                facts["passkeys"] = await passkeys.list_passkeys(connection, caller.id)
        origin = self._origin(request)
        facts |= {"party": relying_party(origin), "localhost": localhost_instead(origin)}
        defaults: dict[str, Any] = {"fault": None, "factor_fault": None, "enrolment": None, "codes": None}
        answer = self._renderer.page(
            "access/account.html", status_code, meanings=MEANINGS, qr_svg=qr_svg, **defaults | facts | given
        )
        answer.headers.update(ONCE)  # a secret may be on it
        return answer

    async def set_password(self, request: Request) -> Response:
        """The old one is asked for; every session is over, also this one."""
        caller, form = _who_changes(), await read_form(request)
        try:
            await self._check_password(caller, first_value(form, "old", strip=False))
            async with self._database.transaction() as connection:
                await users.set_password(connection, caller.name, new_password(form))
        except MediamillError as error:
            return await self._show(request, status_of(error), fault=in_words(error))
        return RedirectResponse("/login", 303)

    async def begin_factor(self, request: Request) -> Response:
        """A secret for the authenticator app; a code of it is asked for before it counts."""
        caller, form = _who_changes(), await read_form(request)
        try:
            user_id = await self._check_password(caller, first_value(form, "password", strip=False))
            async with self._database.transaction() as connection:
                enrolment = await second_factor.begin_enrolment(connection, user_id, caller.name)
        except MediamillError as error:
            return await self._show(request, status_of(error), factor_fault=in_words(error))
        return await self._show(request, enrolment=enrolment)

    async def confirm_factor(self, request: Request) -> Response:
        """On from now on; other sessions, which never showed a code, are over. The recovery codes are shown once."""
        caller, form = _who_changes(), await read_form(request)
        user_id = _user_id(caller)
        try:
            self._count(user_id)
            async with self._database.transaction() as connection:
                codes = await second_factor.confirm_enrolment(connection, user_id, first_value(form, "code"))
                await sessions.close_others(connection, caller)
            self._tries.give_back(user_id)
        except MediamillError as error:
            async with self._database.connection() as connection:
                pending = await second_factor.pending_enrolment(connection, user_id, caller.name)
            return await self._show(
                request, status_of(error), factor_fault=in_words(error), enrolment=pending
            )
        return await self._show(request, codes=codes)

    async def remove_factor(self, request: Request) -> Response:
        """Off; the password and a code are asked for."""
        caller, form = _who_changes(), await read_form(request)
        try:
            user_id = await self._check_password(caller, first_value(form, "password", strip=False))
            self._count(user_id)
            async with self._database.transaction() as connection:
                if not await second_factor.use_code(connection, user_id, first_value(form, "code")):
                    raise second_factor.WrongCodeError(fix="wait for the next one")
                await second_factor.remove_factor(connection, user_id)
            self._tries.give_back(user_id)
        except MediamillError as error:
            return await self._show(request, status_of(error), factor_fault=in_words(error))
        return RedirectResponse("/account", 303)

    async def begin_passkey(self, request: Request) -> Response:
        """The password is asked for: whoever finds an open session must not make a way in of their own."""
        caller, given = _who_changes(), _decode(await request.body(), Proof)
        user_id = await self._check_password(caller, given.password)
        async with self._database.transaction() as connection:
            asked = await passkeys.begin_registration(connection, user_id, caller.name, self._party(request))
        return Response(msgspec.json.encode(asked), media_type="application/json", headers=ONCE)

    async def add_passkey(self, request: Request) -> Response:
        """What the authenticator made of it."""
        caller, given = _who_changes(), _decode(await request.body(), Made)
        tell_subject(f"{caller.name}: add {given.name}")
        async with self._database.transaction() as connection:
            id_ = await passkeys.finish_registration(
                connection,
                _user_id(caller),
                given.step,
                bytes(given.credential),
                given.name,
                self._party(request),
            )
        return Response(msgspec.json.encode({"id": id_}), 201, media_type="application/json")

    async def remove_passkey(self, passkey_id: Id) -> Response:
        """It logs nobody in any more."""
        caller = _who_changes()
        async with self._database.transaction() as connection:
            name = await passkeys.remove_passkey(connection, _user_id(caller), passkey_id)
        tell_subject(f"{caller.name}: remove {name}")
        return RedirectResponse("/account", 303)

    def _origin(self, request: Request) -> str | None:
        return public_origin(self._settings.public_url, request.url.scheme, request.headers.get("host", ""))

    def _party(self, request: Request) -> RelyingParty:
        party = relying_party(self._origin(request))
        if party is None:
            raise InvalidError("passkeys do not work at this address", fix="set MEDIAMILL_PUBLIC_URL")
        return party

    async def log_out_others(self) -> Response:
        """Everywhere but here."""
        caller = _who_changes()
        if caller.session is not None:
            async with self._database.transaction() as connection:
                await sessions.close_others(connection, caller)
        return RedirectResponse("/account", 303)

    async def _check_password(self, caller: Caller, password: str) -> int:
        """The user's id; refused if it is not their password."""
        user_id = _user_id(caller)
        self._count(user_id)
        async with self._database.connection() as connection:
            user = await users.look_up(connection, caller.name)
        if await users.check_found(user, password) is None:
            raise WrongPasswordError
        self._tries.give_back(user_id)
        return user_id

    def _count(self, user_id: int) -> None:
        """One try is spent before it is looked at: many at once are not more than one after the other."""
        wait = self._tries.wait_seconds(user_id)
        if wait > 0:
            raise TooManyError("too many wrong tries", fix="wait, then try the right one", wait_seconds=wait)
        self._tries.take(user_id)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise InvalidError(f"this is not what the page sends: {error}") from error


def _who_changes() -> Caller:
    caller = current_caller() or HERE
    tell_subject(caller.name)
    return caller


def _user_id(caller: Caller) -> int:
    if caller.kind != "user" or caller.id is None:
        raise NotYoursError
    return caller.id

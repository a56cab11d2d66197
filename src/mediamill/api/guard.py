"""The guard in front of every route, present and future: who may come in, from where, with how large a body.

Only by a name that is the server's own (a page elsewhere cannot reach in by rebinding its name); only whoever is
recognised (`callers.py`), with the scope that the route asks for (`scopes.py`); nothing for a page of another origin
(`origins.py`). That a request comes from this machine proves nothing: any user and any proxy on it can send one.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mediamill.access.audit import Entry
from mediamill.access.limits import Buckets
from mediamill.access.model import Caller, current_caller, set_caller
from mediamill.access.model import Scope as Wanted
from mediamill.access.places import is_address, is_loopback
from mediamill.api.bounds import BODY_BYTES_PER_SECOND, BODY_GRACE_SECONDS, note_known
from mediamill.api.callers import Callers, address_of
from mediamill.api.errors import problem_of
from mediamill.api.origins import SAFE_METHODS, host_name, is_foreign, names_origin
from mediamill.api.plain_page import refuse
from mediamill.api.refusals import Refusals
from mediamill.api.route_map import Reached, RouteMap
from mediamill.api.scopes import Access, Door, access_to
from mediamill.api.security_headers import add_headers
from mediamill.api.sessions import bearer, has_value
from mediamill.api.welcome import remember
from mediamill.db.connection import LOST, Database
from mediamill.errors import DeniedError, InvalidError, TooManyError
from mediamill.settings import Settings

log = logging.getLogger(__name__)

BODY_LIMIT_BYTES = 1_500_000
BODY_SECONDS = 60.0  # for all of it, at whatever pace
SECRET_CHARACTERS = 16
# The routes that take large bodies; they stream them to disk and bound them themselves.
UPLOAD_PATH = re.compile(
    r"/api/bots/[^/]+/chat/[^/]+/media|/v1/messages|/api/uploads(/[^/]+)?|/api/projects/[^/]+/files"
)
WORKER_FILE = re.compile(r"/api/worker/jobs/[0-9]+/(kept|files)/.+", re.DOTALL)
# These ask for a key or a secret of their own, or for nothing.
ASK_THEMSELVES = (Door.ANYBODY, Door.WORKER_KEY, Door.OWN_SECRET, Door.REGISTRATION)


class SecretMissingError(InvalidError):
    """Beyond loopback the server needs an admin secret."""

    code = "secret_missing"


class SecretShortError(InvalidError):
    """The admin secret is too short: it could be guessed."""

    code = "secret_short"


class UnauthenticatedError(DeniedError):
    """Nobody can tell who asks."""

    code = "unauthenticated"


class ForeignHostError(DeniedError):
    """The server does not answer to the name that the request was sent to."""

    code = "foreign_host"


class ForeignOriginError(DeniedError):
    """A page of another origin has no business here."""

    code = "foreign_origin"


def check_secret(settings: Settings) -> None:
    """Refuse a secret that can be guessed, and to listen beyond loopback without one."""
    secret = settings.admin_secret
    if secret is None or not has_value(secret):
        if not is_loopback(settings.host):
            raise SecretMissingError(
                f"nobody could log in from beyond this machine, and the server is to listen on {settings.host}",
                fix="set MEDIAMILL_ADMIN_SECRET to what `openssl rand -hex 32` prints, or MEDIAMILL_HOST=127.0.0.1",
            )
    elif len(secret.get_secret_value()) < SECRET_CHARACTERS:
        raise SecretShortError(
            f"the admin secret has fewer than {SECRET_CHARACTERS} characters: it could be guessed",
            fix="set MEDIAMILL_ADMIN_SECRET to what `openssl rand -hex 32` prints",
        )


class Guard:
    """ASGI middleware; also turns what no handler caught into a problem without internals."""

    def __init__(self, app: ASGIApp, settings: Settings, database: Database) -> None:
        self._app, self._database = app, database
        self._local = is_loopback(settings.host)
        self._hosts = frozenset(filter(None, (name.strip().lower() for name in settings.hosts.split(","))))
        self._routes = RouteMap()
        self._callers = Callers(settings, database)
        self._refusals = Refusals(database)
        per_minute = settings.costly_requests_per_minute
        self._costs = Buckets(per_minute, 60) if per_minute else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judge, then let through with a bounded body and the headers that every answer carries."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)
        elif self._is_bridge(scope):
            await self._app(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    def _is_bridge(self, scope: Scope) -> bool:
        """A program that knocks at the bridge's door; browsers name the origin of their page, also of our own."""
        headers = Headers(scope=scope)
        access = access_to(self._routes.find(scope))
        own = access is not None and access.who is Door.OWN_SECRET
        return own and self._is_ours(host_name(headers)) and "origin" not in headers

    def _is_ours(self, host: str) -> bool:
        """Whether the server answers to this name."""
        if is_loopback(host) or host in self._hosts:
            return True
        return not self._local and (not self._hosts or is_address(host))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        status, let_in = 0, False

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if let_in and status < 400:
                    note_known(scope)
                add_headers(MutableHeaders(scope=message), scope["scheme"])
            await send(message)

        try:
            reached = self._routes.find(scope)
            access = access_to(reached)
            refusal = await self._judge(access, reached, scope, headers)
            if refusal is not None:
                await refusal(scope, receive, send_on)
                return
            let_in = access is None or access.who is not Door.ANYBODY
            body = receive if _is_upload(scope) else _bounded(receive)
            async with self._noted(access, reached, scope, lambda: status):
                await self._app(scope, body, send_on)
            self._note_key(access, scope, headers, status)
        except ClientDisconnect:
            return  # nobody is left to answer, and strangers must not fill the log by leaving
        except Exception as error:
            if status:
                log.exception("an answer broke off: %s %s", scope["method"], scope["path"])
                raise
            await refuse(error, scope)(scope, receive, send_on)

    async def _judge(
        self, access: Access | None, reached: Reached | None, scope: Scope, headers: Headers
    ) -> Response | None:
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > BODY_LIMIT_BYTES and not _is_upload(scope):
            return refuse(_too_large(), scope)
        if access is not None and access.who is Door.OWN_SECRET:
            return None  # by whatever name the server is known outside: no page of elsewhere has the secret
        if not self._is_ours(host_name(headers)):
            return refuse(
                ForeignHostError(
                    fix="on the server, add this name to MEDIAMILL_HOSTS; or use http://127.0.0.1"
                ),
                scope,
            )
        if is_foreign(scope, headers):
            return refuse(ForeignOriginError(), scope)
        caller = await self._recognise(access, scope, headers)
        set_caller(caller)
        if (
            caller is not None
            and caller.session is not None
            and scope["method"] not in SAFE_METHODS
            and not names_origin(headers)
        ):
            return refuse(
                ForeignOriginError("a browser says where it comes from when it changes something"), scope
            )
        if access is not None and access.who in ASK_THEMSELVES:
            return None
        if caller is None:
            return _unauthenticated(scope, headers)
        try:
            if access is not None and isinstance(access.who, Wanted):
                await self._need(caller, access.who, reached, scope)
            if access is not None and access.costly and caller.kind != "here":
                self._charge(caller)
        except (DeniedError, TooManyError) as error:
            return refuse(error, scope)
        if (
            caller.kind != "here" or caller.session is not None
        ):  # a pass is for a moment; nobody can take it back
            remember(scope, lambda: self._may_still(access, scope, headers))
        note_known(scope)
        return None

    async def _need(self, caller: Caller, wanted: Wanted, reached: Reached | None, scope: Scope) -> None:
        """Refused without the scope; that somebody known tried is noted."""
        try:
            caller.need(wanted)
        except DeniedError:
            route = reached.names[-1] if reached is not None else scope["method"]
            await self._refusals.note(caller, route, wanted, address_of(scope))
            raise

    async def _may_still(self, access: Access | None, scope: Scope, headers: Headers) -> bool:
        caller = await self._callers.look_again(scope, headers)
        wanted = access.who if access is not None and isinstance(access.who, Wanted) else None
        return caller is not None and (wanted is None or caller.may(wanted))

    async def _recognise(self, access: Access | None, scope: Scope, headers: Headers) -> Caller | None:
        """Asked only where it matters: a worker's key is no token of ours, and health needs no database."""
        if access is not None and access.who is Door.WORKER_KEY and (key := _key(headers)):
            self._callers.hear(key, address_of(scope))
        if access is not None and access.who in (Door.ANYBODY, Door.WORKER_KEY):
            return None
        if access is not None and access.who is Door.REGISTRATION:
            return self._callers.by_secret(scope, headers) or await self._callers.recognise(scope, headers)
        return await self._callers.recognise(scope, headers)

    def _note_key(self, access: Access | None, scope: Scope, headers: Headers, status: int) -> None:
        """Guesses at keys count as those at tokens do."""
        if access is not None and access.who is Door.WORKER_KEY and (key := _key(headers)):
            self._callers.note(key, address_of(scope), right=status != 401)

    def _charge(self, caller: Caller) -> None:
        key = (caller.kind, caller.name)
        if self._costs is not None:
            wait = self._costs.wait_seconds(key)
            if wait > 0:
                raise TooManyError(
                    "too many requests of this kind", fix="wait a little, or ask for less", wait_seconds=wait
                )
            self._costs.take(key)

    @asynccontextmanager
    async def _noted(
        self, access: Access | None, reached: Reached | None, scope: Scope, status: Callable[[], int]
    ) -> AsyncIterator[None]:
        """In the audit log, before it is done; how it went afterwards."""
        if access is None or access.audit is None or reached is None:
            yield
            return
        entry = Entry(access.audit, " ".join(filter(None, reached.places)))
        async with self._database.connection() as connection:
            await entry.begin(connection, current_caller(), address_of(scope))
        try:
            yield
        finally:
            with suppress(*LOST):
                async with self._database.connection() as connection:
                    await entry.end(connection, str(status() or "failed"))


def _unauthenticated(scope: Scope, headers: Headers) -> Response:
    if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
        query = scope["query_string"].decode("latin-1")
        asked = scope["path"] + (f"?{query}" if query else "")
        return RedirectResponse("/login" if asked == "/" else f"/login?next={quote(asked, safe='/')}", 303)
    return problem_of(
        UnauthenticatedError(
            fix="send Authorization: Bearer <token or admin secret>, or log in at /login; commands of the server's own "
            "user find their way in by MEDIAMILL_DATA, the server's data folder"
        )
    )


def _key(headers: Headers) -> str | None:
    return bearer(headers.get("authorization"))


def _is_upload(scope: Scope) -> bool:
    paths = {"POST": UPLOAD_PATH, "PATCH": UPLOAD_PATH, "PUT": WORKER_FILE}.get(scope["method"])
    return paths is not None and paths.fullmatch(scope["path"]) is not None


def _bounded(receive: Receive) -> Receive:
    """A body that grows too long, takes too long to arrive, or comes by the byte, is cut off."""
    seen, more = 0, True
    began = asyncio.get_running_loop().time()

    async def receive_bounded() -> Message:
        nonlocal seen, more
        pace_seconds = BODY_GRACE_SECONDS + seen / BODY_BYTES_PER_SECOND
        until = began + min(BODY_SECONDS, pace_seconds)
        try:
            async with asyncio.timeout_at(until if more else None):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the body took too long to arrive") from None
        more = message.get("more_body", False)
        seen += len(message.get("body", b""))
        if seen > BODY_LIMIT_BYTES:
            raise _too_large()
        return message

    return receive_bounded


def _too_large() -> HTTPException:
    # FastAPI hides every error while it reads a body, but this kind.
    return HTTPException(413, f"a request may have {BODY_LIMIT_BYTES} bytes")

"""The guard in front of every route, present and future: who may come in, from where, with how large a body.

On loopback: only by a loopback name (a page elsewhere cannot reach in by rebinding its own name). Beyond: only with
the admin secret, or its cookie. Anywhere: what changes state must not come from a page of another origin.
"""

from __future__ import annotations

import ipaddress
import logging
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mediamill.api.errors import Problem, problem_of
from mediamill.api.sessions import bearer, is_secret, is_session
from mediamill.errors import DeniedError, InvalidError
from mediamill.settings import Settings

log = logging.getLogger(__name__)

BODY_LIMIT_BYTES = 1_500_000
# The routes that take large bodies; they stream them to disk and bound them themselves.
UPLOAD_PATH = re.compile(r"/api/bots/[^/]+/chat/[^/]+/media|/v1/messages|/api/uploads(/[^/]+)?")
WORKER_FILE = re.compile(r"/api/worker/jobs/[0-9]+/(kept|files)/.+", re.DOTALL)
WORKER_PREFIX = "/api/worker/"  # its routes ask for a worker's key themselves, on loopback too
HOOK_PATH = re.compile(r"/api/telegram/[^/]+/webhook")  # Telegram shows the webhook's own secret there
BRIDGE_PREFIX = "/api/bridge/whatsapp/"  # the only WebSocket; it asks for the bridge's secret itself
OPEN_PATHS = frozenset({"/health", "/login", "/static/mediamill.css", "/static/favicon.svg"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


class SecretMissingError(InvalidError):
    """Beyond loopback the server needs an admin secret."""

    code = "secret_missing"


class UnauthenticatedError(DeniedError):
    """This needs the admin secret."""

    code = "unauthenticated"


class ForeignHostError(DeniedError):
    """The request was sent to a name that is not this machine's loopback."""

    code = "foreign_host"


class ForeignOriginError(DeniedError):
    """A page of another origin may not change anything here."""

    code = "foreign_origin"


def is_loopback(host: str) -> bool:
    """Whether a name or address reaches only this machine."""
    bare = host.strip("[]").lower()
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


def check_secret(settings: Settings) -> None:
    """Refuse to listen beyond loopback without a secret."""
    if not is_loopback(settings.host) and not (
        settings.admin_secret and settings.admin_secret.get_secret_value()
    ):
        raise SecretMissingError(
            f"listening on {settings.host} would let everybody in",
            fix="set MEDIAMILL_ADMIN_SECRET to a long random text, or MEDIAMILL_HOST=127.0.0.1",
        )


class Guard:
    """ASGI middleware; also turns what no handler caught into a problem without internals."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._secret = settings.admin_secret
        self._local = is_loopback(settings.host)

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
        here = not self._local or is_loopback(_host_name(headers.get("host", "")))
        return scope["path"].startswith(BRIDGE_PREFIX) and here and "origin" not in headers

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        started = False

        async def send_on(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                answer = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    answer.setdefault(name, value)
            await send(message)

        try:
            refusal = self._judge(scope, headers)
            if refusal is not None:
                await refusal(scope, receive, send_on)
            else:
                await self._app(scope, receive if _is_upload(scope) else _bounded(receive), send_on)
        except Exception as error:
            if started:
                log.exception("an answer broke off: %s %s", scope["method"], scope["path"])
                raise
            await problem_of(error)(scope, receive, send_on)

    def _judge(self, scope: Scope, headers: Headers) -> Response | None:
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > BODY_LIMIT_BYTES and not _is_upload(scope):
            return problem_of(_too_large())
        if _is_hook(scope):
            return None
        if self._local and not is_loopback(_host_name(headers.get("host", ""))):
            return problem_of(ForeignHostError(fix="use http://localhost or http://127.0.0.1"))
        if scope["method"] not in SAFE_METHODS and _is_foreign(headers):
            return problem_of(ForeignOriginError())
        return None if self._local else self._judge_stranger(scope, headers)

    def _judge_stranger(self, scope: Scope, headers: Headers) -> Response | None:
        path = scope["path"]
        if path in OPEN_PATHS or path.startswith(WORKER_PREFIX):
            return None
        if is_secret(bearer(headers.get("authorization")), self._secret):
            return None
        if is_session(headers.get("cookie"), self._secret):
            return None
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse("/login", 303)
        return _unauthenticated()


def _unauthenticated() -> Problem:
    return problem_of(
        UnauthenticatedError(fix="send Authorization: Bearer <MEDIAMILL_ADMIN_SECRET>, or log in at /login")
    )


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_foreign(headers: Headers) -> bool:
    """Browsers name the page's origin when it is about to change something; programs send none."""
    origin = headers.get("origin")
    if origin is not None:
        return origin.partition("://")[2].lower() != headers.get("host", "").lower()
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_hook(scope: Scope) -> bool:
    """By whatever name the server is known outside: no page of elsewhere has the secret."""
    return scope["method"] == "POST" and HOOK_PATH.fullmatch(scope["path"]) is not None


def _is_upload(scope: Scope) -> bool:
    paths = {"POST": UPLOAD_PATH, "PATCH": UPLOAD_PATH, "PUT": WORKER_FILE}.get(scope["method"])
    return paths is not None and paths.fullmatch(scope["path"]) is not None


def _bounded(receive: Receive) -> Receive:
    """A body whose length was not announced is cut off where it passes the limit."""
    seen = 0

    async def receive_bounded() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > BODY_LIMIT_BYTES:
            raise _too_large()
        return message

    return receive_bounded


def _too_large() -> HTTPException:
    # FastAPI hides every error while it reads a body, but this kind.
    return HTTPException(413, f"a request may have {BODY_LIMIT_BYTES} bytes")

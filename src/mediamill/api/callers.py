"""Recognise who asks: by the admin secret, a token or a pass in the Authorization header; in a browser by its session.

Who shows something wrong too often is not listened to for a while, by address; what was right lately always is, so that
a neighbour who guesses locks nobody out.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from starlette.datastructures import Headers
from starlette.types import Scope

from mediamill.access.limits import Buckets, Lately, neighbourhood
from mediamill.access.model import ADMIN, HERE, Caller
from mediamill.access.sessions import session_caller
from mediamill.access.tokens import is_token, token_caller
from mediamill.api.sessions import bearer, has_value, is_secret, session_of, session_secret
from mediamill.db.connection import Database
from mediamill.errors import DeniedError, TooManyError
from mediamill.local_key import PassCheck, is_pass
from mediamill.settings import Settings

MOST_FAILURES = 30
FAILURES_SECONDS = 900.0


class Callers:
    """One for each server process."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._secret, self._database = settings.admin_secret, database
        self._passes, self._session_secret = PassCheck(settings.data_folder), session_secret(settings)
        self._failures = Buckets(MOST_FAILURES, FAILURES_SECONDS)
        self._lately = Lately()

    async def recognise(self, scope: Scope, headers: Headers) -> Caller | None:
        """Whose request it is; None if nobody can tell."""
        shown, address = bearer(headers.get("authorization")), address_of(scope)
        if shown is None:
            return await self.look_again(scope, headers)
        if is_pass(shown):  # too long to guess: wrong ones hold up nobody
            return HERE if self._passes.accepts(shown) else None
        self.hear(shown, address)
        try:
            caller = await self.look_again(scope, headers)
        except DeniedError:
            self.note(shown, address, right=False)
            raise
        self.note(shown, address, right=caller is not None)
        return caller

    async def look_again(self, scope: Scope, headers: Headers) -> Caller | None:
        """The same, of a request that was let in before: it is no try, whatever is found."""
        shown = bearer(headers.get("authorization"))
        if shown is None:
            return await self._by_session(session_of(headers.get("cookie"), scope["scheme"]))
        return await self._by_bearer(shown)

    def by_secret(self, scope: Scope, headers: Headers) -> Caller | None:
        """As workers show the admin secret to be registered. Counted at once: of many at a time, none slips through."""
        shown, address = headers.get("x-admin-secret"), address_of(scope)
        if shown is None:
            return None
        self.hear(shown, address)
        right = is_secret(shown, self._secret)
        self.note(shown, address, right=right)
        return ADMIN if right else None

    async def _by_bearer(self, shown: str) -> Caller | None:
        if is_secret(shown, self._secret):
            return ADMIN
        if not is_token(shown):
            return None
        async with self._database.connection() as connection:
            return await token_caller(connection, shown)

    async def _by_session(self, value: str | None) -> Caller | None:
        if value is None:
            return None
        async with self._database.connection() as connection:
            caller = await session_caller(connection, value, self._session_secret)
        if caller is not None and caller.kind == ADMIN.kind and not has_value(self._secret):
            return replace(caller, kind=HERE.kind, name=HERE.name)
        return caller

    def hear(self, shown: str, address: str | None) -> None:
        """Refused before it is looked at, where too much was wrong lately."""
        if _digest(shown) not in self._lately:
            check_wait(self._failures.wait_seconds(neighbourhood(address)))

    def note(self, shown: str, address: str | None, *, right: bool) -> None:
        """Whether it was right."""
        if right:
            self._lately.add(_digest(shown))
        else:
            self._lately.discard(_digest(shown))
            self._failures.take(neighbourhood(address))


def address_of(scope: Scope) -> str | None:
    """Where a request comes from; beyond a trusted proxy, what that says."""
    client = scope.get("client")
    return str(client[0]) if client else None


def check_wait(seconds: float) -> None:
    """Too many tries, if there is a time to wait."""
    if seconds > 0:
        raise TooManyError(
            "too many wrong tries from here", fix="wait, then try the right one", wait_seconds=seconds
        )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

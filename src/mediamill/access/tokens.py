"""API tokens: 256 random bits with scopes, for programs. Shown once: a hash and a prefix for look-up are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mediamill.access.model import Caller, Scope
from mediamill.access.store import queries
from mediamill.access.users import check_scopes
from mediamill.db.connection import Connection
from mediamill.errors import DeniedError, InvalidError, NotFoundError

MARK = "mill_"  # by which people and scanners of leaked secrets know one
PREFIX_CHARACTERS = 8
NAME_CHARACTERS = 100
LONGEST_DAYS = 3650


class UnknownTokenError(NotFoundError):
    """There is no such token."""

    code = "unknown_token"


class TokenInvalidError(DeniedError):
    """The token is not valid."""

    code = "token_invalid"


class TokenRevokedError(DeniedError):
    """The token was revoked."""

    code = "token_revoked"


class TokenExpiredError(DeniedError):
    """The token has expired."""

    code = "token_expired"


@dataclass(frozen=True, slots=True)
class NewToken:
    """What is shown once."""

    id: int
    name: str
    token: str
    scopes: list[Scope]
    expires_at: datetime | None


async def create_token(
    connection: Connection, name: str, scopes: Iterable[str], *, days: float | None, made_by: Caller
) -> NewToken:
    """A new one. That of a user is worth no more than they are, and goes with them."""
    name, chosen = name.strip(), check_scopes(scopes)
    if not 1 <= len(name) <= NAME_CHARACTERS:
        raise InvalidError(
            f"a token needs a name of up to {NAME_CHARACTERS} characters", fix="say what it is for"
        )
    if days is not None and not 0 < days <= LONGEST_DAYS:
        raise InvalidError(
            f"a token can be valid for up to {LONGEST_DAYS} days", fix="leave it out: without end"
        )
    secret = secrets.token_urlsafe(32)
    row = await queries.insert_token.row(
        connection,
        prefix=secret[:PREFIX_CHARACTERS],
        hash=hashlib.sha256(f"{MARK}{secret}".encode()).digest(),
        name=name,
        scopes=chosen,
        user_id=made_by.id if made_by.kind == "user" else None,
        token_id=made_by.id if made_by.kind == "token" else None,
        made_by=made_by.name,
        days=days,
    )
    assert row is not None
    return NewToken(row["id"], name, f"{MARK}{secret}", chosen, row["expires_at"])


def is_token(text: str) -> bool:
    """Whether it looks like one."""
    return text.startswith(MARK) and text.isascii() and "\0" not in text


async def token_caller(connection: Connection, token: str) -> Caller:
    """Whose token it is; refused if it is wrong, revoked, expired, or of a user who is disabled."""
    given = hashlib.sha256(token.encode()).digest()
    prefix = token.removeprefix(MARK)[:PREFIX_CHARACTERS]
    for row in await queries.find_tokens.rows(connection, prefix=prefix):
        if hmac.compare_digest(row["hash"], given):
            if row["revoked_at"] is not None or row["owner_disabled_at"] is not None:
                raise TokenRevokedError(fix="mediamill tokens create makes another")
            if row["expired"]:
                raise TokenExpiredError(fix="mediamill tokens create makes another")
            if row["stale"]:
                await queries.use_token.run(connection, token_id=row["id"])
            return Caller("token", row["name"], _scopes(row), row["id"])
    raise TokenInvalidError(fix="mediamill tokens list shows which there are")


def _scopes(row: Any) -> frozenset[Scope]:
    scopes = frozenset(map(Scope, row["scopes"]))
    if not row["owned"] or Scope.ADMIN in row["owner_scopes"]:
        return scopes
    owners = frozenset(map(Scope, row["owner_scopes"]))
    return owners if Scope.ADMIN in scopes else scopes & owners


async def list_tokens(connection: Connection, *, all_: bool = False) -> list[dict[str, Any]]:
    """The newest first; those that are over only on request."""
    return [dict(row) for row in await queries.list_tokens.rows(connection, all=all_)]


async def revoke_token(connection: Connection, token_id: int) -> str:
    """It works no more; its name."""
    name = await queries.revoke_token.value(connection, token_id=token_id)
    if name is None:
        raise UnknownTokenError(f"there is no token {token_id}", fix="mediamill tokens list shows them")
    return str(name)

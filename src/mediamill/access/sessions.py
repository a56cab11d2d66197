"""Sessions of browsers: a random cookie, of which only a hash is kept, and the proof of what opened it.

A session ends after its time, when nobody used it for a while, when it is closed, and when the user's password (or the
admin secret) changes: it remembers a hash of that. Every server looks it up in the database: what is closed is closed
everywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from mediamill.access.model import ADMIN, Caller, Scope
from mediamill.access.passwords import proof_of
from mediamill.access.store import queries
from mediamill.db.connection import Connection
from mediamill.settings import Settings

AGENT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """How long a session lasts: at most, and without being used."""

    seconds: float
    idle_seconds: float

    @classmethod
    def of(cls, settings: Settings) -> SessionLimits:
        """As configured."""
        return cls(settings.session_hours * 3600, settings.session_idle_hours * 3600)


def secret_proof(secret: SecretStr) -> bytes:
    """What a session remembers of the admin secret that opened it."""
    return hmac.new(secret.get_secret_value().encode(), b"mediamill session", hashlib.sha256).digest()


async def open_session(
    connection: Connection,
    user: dict[str, Any] | None,
    secret: SecretStr | None,
    *,
    limits: SessionLimits,
    address: str | None,
    agent: str,
) -> str:
    """For a user, or for whoever knows the admin secret. The value of the cookie."""
    proof = proof_of(user["password_hash"]) if user else secret_proof(secret or SecretStr(""))
    value = secrets.token_urlsafe(32)
    session_id = await queries.insert_session.value(
        connection,
        hash=_hash(value),
        user_id=user["id"] if user else None,
        proof=proof,
        address=address,
        agent=agent[:AGENT_CHARACTERS],
        seconds=limits.seconds,
        idle_seconds=limits.idle_seconds,
    )
    await queries.use_session.run(connection, session_id=session_id)
    return value


async def session_caller(connection: Connection, value: str, secret: SecretStr | None) -> Caller | None:
    """Whose session it is, if it is not over."""
    row = await queries.find_session.row(connection, hash=_hash(value))
    if row is None or row["disabled_at"] is not None:
        return None
    if row["user_id"] is None:
        proof = secret_proof(secret) if secret else b""
        caller = Caller(ADMIN.kind, ADMIN.name, ADMIN.scopes, session=row["id"])
    else:
        proof = proof_of(row["password_hash"])
        scopes = frozenset(map(Scope, row["scopes"]))
        caller = Caller("user", row["name"], scopes, row["user_id"], row["id"])
    if not hmac.compare_digest(row["proof"], proof):
        return None
    if row["stale"]:
        await queries.use_session.run(connection, session_id=row["id"])
    return caller


async def list_sessions(connection: Connection, user_id: int | None) -> list[dict[str, Any]]:
    """Of a user, or (None) of those who know the admin secret."""
    return [dict(row) for row in await queries.list_sessions.rows(connection, user_id=user_id)]


async def close_session(connection: Connection, session_id: int) -> None:
    """Logged out."""
    await queries.close_session.run(connection, session_id=session_id)


async def close_others(connection: Connection, caller: Caller) -> int:
    """Logged out everywhere else."""
    return await queries.close_sessions.run(connection, user_id=caller.id, but=caller.session)


def _hash(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()

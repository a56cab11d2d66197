"""Logins that take several requests: what the server remembers between two of them, in the database.

The browser holds a random cookie, of which the hash is kept. A step ends after some minutes, and is taken once.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Literal

import msgspec
from asyncpg import Record

from mediamill.access.store import queries
from mediamill.db.connection import Connection

STEP_SECONDS = 600.0

Kind = Literal["code", "passkey", "new passkey", "single sign-on"]


@dataclass(frozen=True, slots=True)
class Step:
    """What was remembered."""

    user_id: int | None
    data: dict[str, str]


async def begin_step(
    connection: Connection, kind: Kind, data: dict[str, str], user_id: int | None = None
) -> str:
    """Remember this; the value of the cookie."""
    value = secrets.token_urlsafe(32)
    await queries.insert_step.run(
        connection,
        hash=_hash(value),
        kind=kind,
        user_id=user_id,
        data=msgspec.json.encode(data).decode(),
        seconds=STEP_SECONDS,
    )
    return value


async def find_step(connection: Connection, kind: Kind, value: str | None) -> Step | None:
    """It can be found again: for codes, which may be mistyped."""
    return _step(await queries.find_step.row(connection, hash=_hash(value or ""), kind=kind))


async def take_step(connection: Connection, kind: Kind, value: str | None) -> Step | None:
    """It is gone with this."""
    return _step(await queries.take_step.row(connection, hash=_hash(value or ""), kind=kind))


def _step(row: Record | None) -> Step | None:
    return Step(row["user_id"], msgspec.json.decode(row["data"], type=dict[str, str])) if row else None


def _hash(value: str) -> bytes:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).digest()

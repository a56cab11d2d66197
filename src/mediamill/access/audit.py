"""The audit log: who did what, to what, from where, and how it went."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from typing import Any

from mediamill.access.model import Caller
from mediamill.access.store import queries
from mediamill.db.connection import LOST, Connection, Database

log = logging.getLogger(__name__)

BATCH = 5_000
SUBJECT_CHARACTERS = 300
NOBODY = "somebody unknown"


class Entry:
    """One thing that is done: noted before, with how it went afterwards."""

    def __init__(self, action: str, subject: str = "") -> None:
        self.action, self.subject = action, subject
        self._id: int | None = None

    async def begin(self, connection: Connection, caller: Caller | None, address: str | None) -> None:
        """What is not in the log was not done."""
        self._id = await note(connection, caller, self.action, self.subject, address=address)
        _entry.set(self)

    async def end(self, connection: Connection, outcome: str) -> None:
        """How it went, and with what."""
        if self._id is not None:
            await queries.finish_entry.run(
                connection, entry_id=self._id, outcome=outcome, subject=storable(self.subject)
            )


_entry: ContextVar[Entry | None] = ContextVar("audit entry", default=None)


def tell_subject(subject: str) -> None:
    """What is being done is done to this: for what the address alone does not say."""
    entry = _entry.get()
    if entry is not None:
        entry.subject = subject


async def note(
    connection: Connection,
    caller: Caller | None,
    action: str,
    subject: str = "",
    *,
    address: str | None = None,
    outcome: str = "",
) -> int:
    """An entry; its id."""
    entry_id = await queries.insert_entry.value(
        connection,
        who=storable(caller.name) if caller else NOBODY,
        kind=caller.kind if caller else "nobody",
        address=address,
        action=action,
        subject=storable(subject),
        outcome=outcome,
    )
    return int(entry_id)


def storable(text: str) -> str:
    """What a stranger may have sent: cut, and without what a database cannot hold."""
    plain = text.encode("utf-8", "replace").decode().replace("\0", "�")
    return plain if len(plain) <= SUBJECT_CHARACTERS else plain[: SUBJECT_CHARACTERS - 1] + "…"


async def list_entries(
    connection: Connection,
    *,
    who: str | None = None,
    action: str | None = None,
    before: int | None = None,
    amount: int = 50,
) -> list[dict[str, Any]]:
    """The newest first. `action`: one, or all that begin with it (`user` is `user.add` and the rest)."""
    rows = await queries.list_entries.rows(connection, who=who, action=action, before=before, amount=amount)
    return [dict(row) for row in rows]


async def sweep_access(database: Database, keep_days: float) -> int:
    """Entries that are older, and sessions and logins that are over. How many entries are gone."""
    async with database.transaction() as connection:
        await queries.sweep_sessions.run(connection)
        await queries.sweep_steps.run(connection)
    total = 0
    while keep_days:
        async with database.transaction() as connection:
            gone = await queries.sweep_entries.run(connection, days=keep_days, batch=BATCH)
        total += gone
        if gone < BATCH:
            break
    return total


async def sweep_access_forever(database: Database, keep_days: float, every_seconds: float) -> None:
    """The background task of the server."""
    while True:
        try:
            await sweep_access(database, keep_days)
        except LOST as error:
            log.debug("access: the database is away: %s", error)
        except Exception:
            log.exception("the sweep of the audit log failed")
        await asyncio.sleep(every_seconds)

"""The updates of one bot in the database: kept as they come, handed out in the order of each chat."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mediamill.conversations.model import clean_text
from mediamill.db.connection import Connection, Database
from mediamill.errors import ConflictError
from mediamill.providers.telegram.store import queries
from mediamill.providers.telegram.update import read_head

log = logging.getLogger(__name__)

CHATS = 500
ALBUM = 50
KEEP_DAYS = 3  # Telegram keeps what it could not hand over for one
KEEP_SENDS_DAYS = 30
FORGET_BATCH = 10_000


class TakenError(ConflictError):
    """Somebody else has taken this update."""

    code = "update_taken"


@dataclass(frozen=True, slots=True)
class Kept:
    """An update that waits to be taken."""

    update_id: int
    update: Mapping[str, Any]
    image_saved: bool = False
    tries: int = 0
    created_at: datetime | None = None


class Inbox:
    """Of one bot with one token."""

    def __init__(self, database: Database, bot_id: str, account: int) -> None:
        self.database = database
        self.account = account
        self._keys: dict[str, Any] = {"bot_id": bot_id, "account": account}

    async def keep(self, updates: Sequence[Any]) -> int:
        """All in one transaction; how many were new. What is no update at all is left out."""
        heads = [(head, update) for update in updates if (head := read_head(update)) is not None]
        if len(heads) < len(updates):
            log.warning("%d updates of Telegram have no number", len(updates) - len(heads))
        if not heads:
            return 0
        async with self.database.transaction() as connection:
            kept = await queries.keep_updates.rows(
                connection,
                **self._keys,
                update_ids=[head.update_id for head, _ in heads],
                chats=[head.chat for head, _ in heads],
                message_ids=[head.message_id for head, _ in heads],
                albums=[head.album for head, _ in heads],
                bodies=[_body(update) for _, update in heads],
            )
        return len(kept)

    async def due_chats(self) -> list[str]:
        """Chats in which something is to be done now."""
        async with self.database.connection() as connection:
            return [
                row["chat"] for row in await queries.due_chats.rows(connection, **self._keys, amount=CHATS)
            ]

    async def open_heads(self) -> list[Kept]:
        """The first open update of every chat."""
        async with self.database.connection() as connection:
            rows = await queries.open_heads.rows(connection, **self._keys)
        return [Kept(row["update_id"], json.loads(row["update"])) for row in rows]

    async def next(self, chat: str) -> list[Kept]:
        """The next of a chat; several if they are one album."""
        async with self.database.connection() as connection:
            rows = await queries.next_updates.rows(connection, **self._keys, chat=chat, amount=ALBUM)
        return [
            Kept(
                row["update_id"],
                json.loads(row["update"]),
                row["image_saved"],
                row["tries"],
                row["created_at"],
            )
            for row in rows
        ]

    async def end(self, connection: Connection, kept: Kept, refusal: str | None = None) -> None:
        """In the transaction of its last step."""
        state = "done" if refusal is None else "refused"
        ended = await queries.end_update.value(
            connection, **self._keys, update_id=kept.update_id, state=state, error=refusal
        )
        if ended is None:
            raise TakenError

    async def is_album_known(self, chat: str, album: str) -> bool:
        """Was another of this album let in?"""
        async with self.database.connection() as connection:
            return bool(await queries.is_album_known.value(connection, **self._keys, chat=chat, album=album))

    async def note_image_saved(self, connection: Connection, kept: Kept) -> None:
        """In the transaction that saved it; the caption follows."""
        noted = await queries.note_image_saved.value(connection, **self._keys, update_id=kept.update_id)
        if noted is None:
            raise TakenError

    async def postpone(self, kept: Kept, seconds: float, error: str, *, counts: bool) -> None:
        """Not now; `counts`: a try was used up."""
        async with self.database.connection() as connection:
            await queries.postpone_update.run(
                connection,
                **self._keys,
                update_id=kept.update_id,
                seconds=seconds,
                error=error[:500],
                more_tries=int(counts),
            )

    async def forget(self) -> None:
        """What is needed no more."""
        async with self.database.connection() as connection:
            while await queries.forget_updates.run(connection, keep_days=KEEP_DAYS, batch=FORGET_BATCH):
                pass
            await queries.forget_acks.run(connection, keep_days=KEEP_SENDS_DAYS)
            await queries.forget_sends.run(connection, keep_days=KEEP_SENDS_DAYS)


def _body(update: Mapping[str, Any]) -> str:
    try:
        return json.dumps(_storable(update))
    except RecursionError:
        return "{}"  # nobody writes like that


def _storable(value: Any) -> Any:
    """What jsonb can keep: no NUL, no halves of characters, no numbers without end."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): _storable(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_storable(inner) for inner in value]
    if isinstance(value, float):
        return value if abs(value) < 1e300 else None
    return value

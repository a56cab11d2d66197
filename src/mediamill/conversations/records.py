"""What must survive, kept in the database: the Records of a BotQueuesManager."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

import asyncpg

from mediamill.conversations.access import Gate, declared_seconds
from mediamill.conversations.bot_queues import DuplicateError, IdTakenError
from mediamill.conversations.insist import UncertainError, insist
from mediamill.conversations.model import KIND, OUTGOING, USER, BadGuidError, Media, Message, owner_of
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import NewJob
from mediamill.staging.awaited import take_awaited
from mediamill.staging.shared import name_staged, send_staged
from mediamill.storage.choose import Place
from mediamill.storage.contract import Sent, StorageAwayError

log = logging.getLogger(__name__)


class DatabaseRecords:
    """Of one bot on one provider."""

    def __init__(
        self,
        database: Database,
        enqueuer: Enqueuer,
        bot_id: str,
        provider_name: str,
        place: Place | None = None,
        gate: Gate | None = None,
    ) -> None:
        self._database, self._enqueuer, self._place, self._gate = database, enqueuer, place, gate
        self._bot: dict[str, str] = {"bot_id": bot_id, "provider_name": provider_name}

    async def last_id(self, correspondent_id: str) -> int:
        """See Records."""

        async def ask() -> int:
            async with self._database.connection() as connection:
                found = await queries.last_id.value(
                    connection, **self._bot, correspondent_id=correspondent_id
                )
            return int(found)

        return await insist(ask)

    async def accept(self, correspondent_id: str, message: Message, media: Media | None) -> Message | None:
        """See Records. Asking again harms nothing. A staged file is where every worker finds it before its job is."""
        sent = await self._send(media)

        async def ask() -> Message | None:
            async with self._database.transaction() as connection:
                return await self._accept(connection, correspondent_id, message, media, sent)

        try:
            try:
                return await insist(ask)
            except asyncpg.UniqueViolationError:
                # Two that bring the same message at once may meet at its id: now the first is found.
                return await insist(ask)
        except asyncpg.UniqueViolationError as error:
            if error.constraint_name == "arrivals_guid":
                raise BadGuidError("this media_processing_id belongs to another message") from error
            raise IdTakenError from error

    async def _send(self, media: Media | None) -> Sent | None:
        if media is None or self._place is None:
            return None
        try:
            return await send_staged(self._place, media.guid)
        except StorageAwayError as error:
            raise UncertainError(error.message, fix="send it again; it is taken once") from error

    async def _accept(
        self,
        connection: Connection,
        correspondent_id: str,
        message: Message,
        media: Media | None,
        sent: Sent | None,
    ) -> Message | None:
        if media is not None:
            await take_awaited(connection, media.guid)
        added = await queries.accept.value(
            connection,
            **self._bot,
            correspondent_id=correspondent_id,
            provider_message_id=message.provider_message_id,
            id=message.id,
            guid=media.guid if media else None,
            message=json.dumps(message.to_json()),
            media=json.dumps(media.to_json()) if media else None,
            display_name=_name_of(message),
            is_group=message.group is not None,
        )
        if added is None:
            earlier = await self._find(connection, correspondent_id, str(message.provider_message_id))
            if earlier is None:
                raise DuplicateError
            return earlier
        if self._gate is not None and message.source == USER:
            seconds = declared_seconds(media.metadata) if media is not None else 0.0
            await self._gate.count(connection, message.sender, seconds)
        if media is not None:
            await self._enqueuer.enqueue_job(connection, self._job(correspondent_id, message, media))
            if sent is not None and self._place is not None:
                await name_staged(connection, self._place, media.guid, sent)
        return None

    async def find(self, correspondent_id: str, provider_message_id: str) -> Message | None:
        """See Records."""
        async with self._database.connection() as connection:
            return await self._find(connection, correspondent_id, provider_message_id)

    async def _find(
        self, connection: Connection, correspondent_id: str, provider_message_id: str
    ) -> Message | None:
        row = await queries.find_arrival.row(
            connection,
            **self._bot,
            correspondent_id=correspondent_id,
            provider_message_id=provider_message_id,
        )
        return Message.from_json(json.loads(row["message"])) if row and row["message"] else None

    def _job(self, correspondent_id: str, message: Message, media: Media) -> NewJob:
        """The record of the media's job: whose it is beside the message, and the whole placeholder."""
        payload: dict[str, Any] = {
            **self._bot,
            "correspondent_id": correspondent_id,
            "placeholder_message": message.to_json(),
            "guid": media.guid,
            "file": {"staged": media.guid},
            "caption": message.content,
            "original_filename": media.original_filename,
            "media_metadata": dict(media.metadata),
        }
        return NewJob(
            KIND,
            payload,
            owner=owner_of(self._bot["bot_id"]),
            subject_id=media.guid,
            mime_type=media.mime_type,
        )


async def find_message_id(
    database: Database, bot_id: str, provider_name: str, correspondent_id: str, provider_message_id: str
) -> int | None:
    """Our id of a message that a provider has handed over; None if it has not, or long ago."""
    async with database.connection() as connection:
        row = await queries.find_arrival.row(
            connection,
            bot_id=bot_id,
            provider_name=provider_name,
            correspondent_id=correspondent_id,
            provider_message_id=provider_message_id,
        )
    return row["id"] if row else None


async def find_correspondent(
    database: Database, bot_id: str, provider_name: str, identifiers: Sequence[str]
) -> str:
    """Whose conversation it is, by any of somebody's identifiers; all of them are known from now on."""
    names = {"bot_id": bot_id, "provider_name": provider_name}
    async with database.transaction() as connection:
        found = await queries.find_correspondent.value(
            connection, **names, identifiers=identifiers, first=identifiers[0]
        )
        correspondent_id = str(found or identifiers[0])
        if found is None or len(identifiers) > 1:
            await queries.know_correspondent.run(
                connection, **names, identifiers=identifiers, correspondent_id=correspondent_id
            )
        return correspondent_id


async def look_up_correspondent(
    database: Database, bot_id: str, provider_name: str, identifiers: Sequence[str]
) -> str:
    """The same; nothing is remembered."""
    async with database.connection() as connection:
        found = await queries.find_correspondent.value(
            connection,
            bot_id=bot_id,
            provider_name=provider_name,
            identifiers=identifiers,
            first=identifiers[0],
        )
    return str(found or identifiers[0])


def _name_of(message: Message) -> str | None:
    """What the conversation is called: the group, or the other side, never the account's own name."""
    if message.group is not None:
        return message.group.display_name
    return message.sender.display_name if message.source not in (OUTGOING, "bot") else None

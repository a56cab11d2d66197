"""BotQueuesManager: the queues of one bot on one provider, and the one door that every provider uses.

In memory; what must survive is kept by the Records beside it. A text is recorded, then put into its queue. A
placeholder is put into its queue first: its result may come back before the transaction that recorded it has answered.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
import weakref
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from mediamill.conversations.access import Gate, LimitReachedError, declared_seconds
from mediamill.conversations.insist import UncertainError
from mediamill.conversations.model import (
    BOT,
    OUTGOING,
    BadGuidError,
    Group,
    Limits,
    Media,
    Message,
    Sender,
    clean_text,
    clean_time,
)
from mediamill.conversations.queue import Callback, CorrespondentQueue
from mediamill.errors import InvalidError, RetryLaterError, UnavailableError

log = logging.getLogger(__name__)

IDLE_QUEUES = 1_000
LONGEST_ID = 500
UNCERTAIN_SECONDS = 60.0  # for so long a commit may be under way whose connection is lost


class Records(Protocol):
    """The persistence beside the queues."""

    async def last_id(self, correspondent_id: str) -> int:
        """The highest id that was ever given in this conversation."""

    async def accept(self, correspondent_id: str, message: Message, media: Media | None) -> Message | None:
        """Keep a new message, with the job of its media, in one transaction. None: it is kept now.

        A message: this one came before and has not been stored yet; as it stands.
        """

    async def find(self, correspondent_id: str, provider_message_id: str) -> Message | None:
        """A message that is kept and not stored yet."""


class BadIdError(InvalidError):
    """An id of a message or of a correspondent may have 500 characters."""

    code = "bad_id"


class DuplicateError(Exception):
    """The message came before and is stored already."""


class IdTakenError(RetryLaterError):
    """Another process has given the next id of this conversation; send the message again."""

    code = "id_taken"


class QueuesClosedError(UnavailableError):
    """The bot is being stopped; nothing more is taken in."""

    code = "bot_stopping"


class BotQueuesManager:
    """All correspondents of one bot on one provider."""

    def __init__(
        self,
        bot_id: str,
        provider_name: str,
        records: Records,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        gate: Gate | None = None,
    ) -> None:
        self.bot_id = bot_id
        self.provider_name = provider_name
        self._records, self._limits, self._gate = records, limits, gate
        self._callbacks: list[Callback] = []
        self._queues: dict[str, CorrespondentQueue] = {}
        # A door is there as long as somebody stands in it or before it.
        self._doors: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._uncertain: dict[tuple[str, str], float] = {}  # until when they are looked for
        self._adding: set[asyncio.Task[Message | None]] = set()
        self._closed = False

    def register_callback(self, callback: Callback) -> None:
        """To be told of every finished message, with its correspondent."""
        self._callbacks.append(callback)

    async def add_message(
        self,
        correspondent_id: str,
        content: str,
        sender: Sender,
        source: str,
        originating_time: int | None = None,
        group: Group | None = None,
        provider_message_id: str | None = None,
        media_processing_id: str | None = None,
        mime_type: str | None = None,
        original_filename: str | None = None,
        media_metadata: Mapping[str, Any] | None = None,
        *,
        addressed: bool = True,
    ) -> Message | None:
        """Take a message in; it is kept for good when this returns. None: it came before, or may not come in.

        With media_processing_id and mime_type it is a media message: a placeholder and a job. Whether the file is
        there is for the processor to say. `addressed`: in a group, the bot is mentioned or replied to.
        """
        if self._closed:
            raise QueuesClosedError(fix="send it again")
        for text in (correspondent_id, provider_message_id or ""):
            if len(text) > LONGEST_ID:
                raise BadIdError
        media = None
        if media_processing_id is not None and mime_type is not None:
            media = Media(media_processing_id, mime_type, original_filename, media_metadata or {})
        facts: dict[str, Any] = {
            "originating_time": clean_time(originating_time),
            "group": group,
            "provider_message_id": clean_text(provider_message_id or "") or uuid.uuid4().hex,
            "media_processing_id": media.guid if media else None,
        }
        # In a task of its own: a caller that goes away must not leave memory and database apart.
        said = (content, sender, source)
        adding = asyncio.create_task(self._add(clean_text(correspondent_id), said, facts, media, addressed))
        self._adding.add(adding)
        adding.add_done_callback(self._adding.discard)
        return await asyncio.shield(adding)

    async def _admits(
        self,
        correspondent_id: str,
        said: tuple[str, Sender, str],
        facts: Mapping[str, Any],
        media: Media | None,
        addressed: bool,
    ) -> bool:
        _, sender, source = said
        if self._gate is None or source == BOT:
            return True
        if source == OUTGOING:
            return await self._gate.admit_own(correspondent_id, facts["group"])
        return await self._gate.admit(
            correspondent_id,
            sender,
            facts["group"],
            provider_message_id=facts["provider_message_id"],
            addressed=addressed,
            media_seconds=declared_seconds(media.metadata) if media is not None else 0.0,
        )

    async def close(self) -> None:
        """Nothing more comes in: what was recorded after the last look at the records would be seen by nobody."""
        self._closed = True
        if self._adding:
            await asyncio.wait(set(self._adding))

    async def _add(
        self,
        correspondent_id: str,
        said: tuple[str, Sender, str],
        facts: dict[str, Any],
        media: Media | None,
        addressed: bool,
    ) -> Message | None:
        # One at a time per correspondent: ids and places in the queue go together.
        async with self._door(correspondent_id):
            if not await self._admits(correspondent_id, said, facts, media, addressed):
                return None
            queue = await self._open(correspondent_id)
            waiting = queue.awaited(media.guid) if media is not None else None
            if waiting is not None:
                if waiting.provider_message_id == facts["provider_message_id"]:
                    return None
                raise BadGuidError("this media_processing_id belongs to another message")
            message = queue.make_message(*said, datetime.now(UTC), **facts)
            if media is not None:
                queue.add_message(message)
            try:
                earlier = await self._records.accept(correspondent_id, message, media)
            except BaseException as error:
                if media is not None:
                    queue.remove_placeholder(media.guid)
                if isinstance(error, DuplicateError | LimitReachedError):
                    return None
                if isinstance(error, UncertainError):
                    key = (correspondent_id, facts["provider_message_id"])
                    self._uncertain[key] = time.monotonic() + UNCERTAIN_SECONDS
                if isinstance(error, IdTakenError):
                    queue.next_id = max(queue.next_id, await self._records.last_id(correspondent_id) + 1)
                raise
            return self._accepted(queue, message, earlier, media)

    def _accepted(
        self, queue: CorrespondentQueue, message: Message, earlier: Message | None, media: Media | None
    ) -> Message | None:
        key = (queue.correspondent_id, str(message.provider_message_id))
        was_uncertain = self._uncertain.pop(key, None) is not None
        same = (message.id, message.accepted_time)
        if earlier is None or (earlier.id, earlier.accepted_time) == same:  # this very call was answered late
            if media is None:
                queue.add_message(message)
            return message
        if media is not None:
            queue.remove_placeholder(media.guid)
        if was_uncertain:
            self._restore(queue, earlier)
        return None

    async def settle_uncertain(self) -> None:
        """Messages that the database may have taken while it did not answer: those that it has are put in now."""
        for key in list(self._uncertain):
            correspondent_id, provider_message_id = key
            async with self._door(correspondent_id):
                found = await self._records.find(correspondent_id, provider_message_id)
                until = self._uncertain.get(key)
                if until is None:  # it was sent again meanwhile
                    continue
                if found is not None:
                    self._restore(await self._open(correspondent_id), found)
                if found is not None or time.monotonic() > until:
                    del self._uncertain[key]

    def restore(self, correspondent_id: str, message: Message, next_id: int) -> None:
        """A message from an earlier life of this bot, in the order of ids."""
        queue = self._queues.get(correspondent_id)
        if queue is None:
            queue = self._make_queue(correspondent_id, next_id)
        self._restore(queue, message)

    def _restore(self, queue: CorrespondentQueue, message: Message) -> None:
        """Recorded, but perhaps not in memory: the process died, or the answer of the database was lost."""
        if queue.has(message.id):
            return
        if message.is_placeholder:
            queue.inject_placeholder(message)
        else:
            queue.next_id = max(queue.next_id, message.id + 1)
            queue.add_message(message)

    async def update_message_by_media_id(
        self, correspondent_id: str, guid: str, content: str, message_id: int | None = None
    ) -> bool:
        """The text of a placeholder has come. False: there is no such placeholder; it was delivered before."""
        queue = self._queues.get(correspondent_id)
        now = datetime.now(UTC)
        return queue is not None and queue.update_message_by_media_id(guid, content, now, message_id)

    def pop_ready_messages(self) -> Iterator[tuple[str, Message]]:
        """Every finished message with its correspondent, out of memory. Empty queues of long ago are let go."""
        for correspondent_id, queue in list(self._queues.items()):
            while (message := queue.pop_ready_message()) is not None:
                yield correspondent_id, message
            if not len(queue) and len(self._queues) > IDLE_QUEUES and not self._is_busy(correspondent_id):
                del self._queues[correspondent_id]

    def placeholders(self) -> Iterator[tuple[str, Message]]:
        """Every placeholder with its correspondent."""
        for correspondent_id, queue in self._queues.items():
            for message in queue.placeholders:
                yield correspondent_id, message

    def has_placeholder(self, correspondent_id: str, guid: str) -> bool:
        """Is the text of this one still awaited?"""
        queue = self._queues.get(correspondent_id)
        return queue is not None and queue.awaited(guid) is not None

    def drop_placeholder(self, correspondent_id: str, guid: str) -> None:
        """Its text will not come here: it is stored already."""
        queue = self._queues.get(correspondent_id)
        if queue is not None:
            queue.remove_placeholder(guid)

    def _door(self, correspondent_id: str) -> asyncio.Lock:
        return self._doors.setdefault(correspondent_id, asyncio.Lock())

    def _is_busy(self, correspondent_id: str) -> bool:
        return correspondent_id in self._doors

    async def _open(self, correspondent_id: str) -> CorrespondentQueue:
        queue = self._queues.get(correspondent_id)
        if queue is None:
            last_id = await self._records.last_id(correspondent_id)
            queue = self._queues.get(correspondent_id) or self._make_queue(correspondent_id, last_id + 1)
        return queue

    def _make_queue(self, correspondent_id: str, next_id: int) -> CorrespondentQueue:
        queue = CorrespondentQueue(correspondent_id, self._limits, next_id=next_id, callbacks=self._callbacks)
        self._queues[correspondent_id] = queue
        return queue

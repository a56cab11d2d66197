"""CorrespondentQueue: the messages of one correspondent in memory. Pure: no clock of its own, no database, no tasks.

Placeholders stand in their place until their text comes. They are neither counted nor evicted, and popping steps over
them: a video that takes a minute holds nothing up, and limits stay limits.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from mediamill.conversations.model import Group, Limits, Message, Sender, clean_text

log = logging.getLogger(__name__)

Callback = Callable[[str, Message], None]


class CorrespondentQueue:
    """In the order of arrival. `callbacks` are told of every message that is finished, once."""

    def __init__(
        self,
        correspondent_id: str,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        *,
        next_id: int = 1,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.correspondent_id = correspondent_id
        self.next_id = next_id
        self.total_characters = 0
        self._limits = limits
        self._callbacks = callbacks
        self._messages: deque[Message] = deque()
        self._placeholders: dict[str, Message] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    @property
    def placeholders(self) -> Iterable[Message]:
        """Those whose media is still being processed, oldest first."""
        return self._placeholders.values()

    @property
    def finished_count(self) -> int:
        """How many count against the limit."""
        return len(self._messages) - len(self._placeholders)

    def make_message(
        self,
        content: str,
        sender: Sender,
        source: str,
        accepted_time: datetime,
        *,
        originating_time: int | None = None,
        group: Group | None = None,
        provider_message_id: str | None = None,
        media_processing_id: str | None = None,
    ) -> Message:
        """The next message, with its id; it is not in the queue yet."""
        limits = self._limits
        longest = limits.max_caption_characters if media_processing_id else limits.max_message_characters
        content = clean_text(content)[:longest]
        id_, self.next_id = self.next_id, self.next_id + 1
        return Message(
            id_,
            content,
            sender,
            source,
            accepted_time,
            len(content),
            originating_time,
            group,
            provider_message_id,
            media_processing_id,
        )

    def add_message(self, message: Message) -> None:
        """At the end; told at once unless it is a placeholder."""
        self._put(message)
        if not message.is_placeholder:
            self._evict(message.accepted_time)
            self._trigger_callbacks(message)

    def inject_placeholder(self, message: Message) -> None:
        """A ready-made message from an earlier life: its id stays, nothing is cut, nobody is told."""
        self._put(message)
        self.next_id = max(self.next_id, message.id + 1)

    def update_message_by_media_id(
        self, guid: str, content: str, now: datetime | None = None, message_id: int | None = None
    ) -> bool:
        """The text of a placeholder has come. False: there is no such placeholder (any more).

        `message_id`: of that message only. A message that is sent again has a placeholder with the same guid until the
        database rejects it as a duplicate; filling that one would answer the message twice.
        """
        message = self._placeholders.get(guid)
        if message is None or message_id not in (None, message.id):
            return False
        del self._placeholders[guid]
        message.content, message.message_size = content, len(content)
        message.media_processing_id = None
        self.total_characters += message.message_size
        self._evict(now)
        self._trigger_callbacks(message)
        return True

    def remove_placeholder(self, guid: str) -> None:
        """It was never accepted, or has its text elsewhere."""
        message = self._placeholders.pop(guid, None)
        if message is not None:
            self._messages.remove(message)

    def pop_ready_message(self) -> Message | None:
        """The oldest finished message; placeholders are stepped over and stay."""
        for position, message in enumerate(self._messages):
            if not message.is_placeholder:
                self._take(position, message)
                return message
        return None

    def awaited(self, guid: str) -> Message | None:
        """The placeholder with this guid."""
        return self._placeholders.get(guid)

    def has(self, message_id: int) -> bool:
        """Is a message with this id in memory?"""
        return any(message.id == message_id for message in self._messages)

    def _put(self, message: Message) -> None:
        self._messages.append(message)
        if message.media_processing_id is not None:
            self._placeholders[message.media_processing_id] = message
        else:
            self.total_characters += message.message_size

    def _take(self, position: int, message: Message) -> None:
        del self._messages[position]
        self.total_characters -= message.message_size

    def _evict(self, now: datetime | None) -> None:
        """Finished messages, oldest first, until what is finished fits the limits. One walk over the queue."""
        position = 0
        while position < len(self._messages) and self._is_over(now, self._messages[position]):
            message = self._messages[position]
            if message.is_placeholder:
                position += 1
            else:
                self._take(position, message)
                log.debug("message %d of %s is evicted from memory", message.id, self.correspondent_id)

    def _is_over(self, now: datetime | None, oldest: Message) -> bool:
        limits = self._limits
        if self.finished_count > limits.max_messages or self.total_characters > limits.max_characters:
            return True
        if now is None:
            return False
        # A placeholder's age says nothing, but behind it there may be one that is too old.
        return oldest.is_placeholder or (now - oldest.accepted_time).total_seconds() > limits.max_age_seconds

    def _trigger_callbacks(self, message: Message) -> None:
        for callback in self._callbacks:
            try:
                callback(self.correspondent_id, message)
            except Exception:
                log.exception("a callback failed for message %d of %s", message.id, self.correspondent_id)

"""Taking updates: each becomes a message of the conversation, an image that waits, or an answer to a command.

Every step can be done again: a message is taken in once by its id, a run is made once by its key, and an image is saved
in the transaction that says so. Whoever dies in between begins the update again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
import weakref
from collections.abc import Sequence
from typing import Any

from mediamill.conversations.access import DECLARED
from mediamill.conversations.model import USER, Group
from mediamill.conversations.provider import BotContext, NotConnectedError
from mediamill.conversations.records import find_message_id
from mediamill.errors import GiveUpError
from mediamill.inputs.pending import drop_pending
from mediamill.providers.telegram import wording
from mediamill.providers.telegram.config import NAME
from mediamill.providers.telegram.failures import FailedStepError, is_last_try
from mediamill.providers.telegram.identity import Identity
from mediamill.providers.telegram.images import ImageTaker, Piece
from mediamill.providers.telegram.inbox import Inbox, Kept
from mediamill.providers.telegram.media import CannotBeHadError, MediaStager
from mediamill.providers.telegram.runs import Runs
from mediamill.providers.telegram.send import Sender as Mouth
from mediamill.providers.telegram.update import Incoming, read_message, sender_of

log = logging.getLogger(__name__)

Read = tuple[Kept, Incoming | None]
NOT_ADMITTED = "not admitted"
ALBUM_SECONDS = 2.0  # the run of an album's caption waits so long for the rest of the album


class Taker:
    """Of one bot."""

    def __init__(
        self,
        context: BotContext,
        inbox: Inbox,
        runs: Runs,
        images: ImageTaker,
        media: MediaStager,
        mouth: Mouth,
        identity: Identity,
    ) -> None:
        self._identity = identity
        self._context, self._inbox, self._runs = context, inbox, runs
        self._images, self._media, self._mouth = images, media, mouth
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    def turn(self, chat: str) -> asyncio.Lock:
        """From a text that is taken in to its run nobody else makes runs in the chat."""
        return self._turns.setdefault(chat, asyncio.Lock())

    async def take(self, unit: Sequence[Kept]) -> None:
        """One update, or an album. FailedStepError: this one must be tried again; those before it are done."""
        pieces = await self._admitted([(kept, _read(kept)) for kept in unit])
        images = [Piece(kept, message) for kept, message in pieces if message and self._is_image(message)]
        if images:
            await self._images.take(images)
        for kept, message in pieces:
            try:
                await self._take_one(kept, message)
            except Exception as error:
                raise FailedStepError(kept, error) from error

    async def _admitted(self, pieces: Sequence[Read]) -> list[Read]:
        """Those that may come in; the others end here, before any file of theirs is fetched."""
        addressed, admitted = await self._is_addressed(pieces), []
        for kept, message in pieces:
            try:
                if message is None or await self._is_admitted(message, addressed):
                    admitted.append((kept, message))
                else:
                    await self._end(kept, NOT_ADMITTED)
            except Exception as error:
                raise FailedStepError(kept, error) from error
        return admitted

    async def _is_addressed(self, pieces: Sequence[Read]) -> bool:
        """One caption that mentions the bot speaks for the whole album."""
        for kept, message in pieces:
            try:
                if message is not None and (
                    await self._identity.is_addressed(message)
                    or (message.album and await self._inbox.is_album_known(message.chat, message.album))
                ):
                    return True
            except Exception as error:
                raise FailedStepError(kept, error) from error
        return False

    async def _is_admitted(self, message: Incoming, addressed: bool) -> bool:
        return await self._context.gate.admit(
            message.chat,
            sender_of(message),
            _group_of(message),
            provider_message_id=message.provider_message_id,
            addressed=addressed,
            media_seconds=message.file.seconds if message.file is not None else 0,
        )

    async def resume(self) -> None:
        """What was begun when the process died: messages that are there and have no run yet. Before anybody answers."""
        for kept in await self._inbox.open_heads():
            message = _read(kept)
            if message is not None and (found := await self._find(message)) is not None:
                await self._finish(kept, message, found)

    def _is_image(self, message: Incoming) -> bool:
        return message.file is not None and message.file.is_image and self._runs.by_agent

    async def _take_one(self, kept: Kept, message: Incoming | None) -> None:
        if message is None:
            await self._end(kept)
        elif self._is_image(message):
            if message.text:  # else it was ended with its image
                await self._take_text(kept, message)
        elif message.file is not None:
            await self._take_media(kept, message)
        elif message.command in ("start", "forget") and not message.is_group and self._runs.is_answered:
            await self._obey(kept, message)
        else:
            await self._take_text(kept, message)

    async def _take_text(self, kept: Kept, message: Incoming) -> None:
        async with self.turn(message.chat):
            added = await self._context.queues.add_message(message.chat, message.text, **_facts_of(message))
            message_id = added.id if added is not None else await self._find(message)
            await self._finish(kept, message, message_id)

    async def _finish(self, kept: Kept, message: Incoming, message_id: int | None) -> None:
        """The message is in the conversation. Its run is made in the transaction that ends the update."""
        async with self._inbox.database.transaction() as connection:
            is_for_agent = message.file is None or self._is_image(message)
            if is_for_agent and message_id is not None and self._runs.by_agent:
                await self._runs.make(
                    connection,
                    self._runs.scope(message.chat, message.sender),
                    message.text,
                    message_id,
                    start_after_seconds=ALBUM_SECONDS if message.album else 0,
                )
            await self._inbox.end(connection, kept)

    async def _take_media(self, kept: Kept, message: Incoming) -> None:
        """A file: staged first, so that it is there when its job begins."""
        assert message.file is not None
        facts: dict[str, Any] = {
            "original_filename": message.file.filename,
            "media_metadata": {DECLARED: message.file.seconds},
        }
        if await self._find(message) is None:
            try:
                guid, mime_type = await self._media.stage(message.file), message.file.mime_type
            except CannotBeHadError as error:
                if not error.is_final and not is_last_try(kept):
                    raise error.cause from None
                guid, mime_type = str(uuid.uuid4()), f"media_corrupt_{message.file.kind}"
                facts["media_metadata"] = (
                    {"_quota_exceeded": True} if error.is_quota else {}
                )  # nothing to play
                await self._tell_why(kept, message, error)
            await self._add_staged(message, guid, {**facts, "mime_type": mime_type})
        await self._end(kept)

    async def _add_staged(self, message: Incoming, guid: str, facts: dict[str, Any]) -> None:
        added = await self._context.queues.add_message(
            message.chat, message.text, media_processing_id=guid, **facts, **_facts_of(message)
        )
        if added is None:  # it was there already, with a file of its own
            await self._media.drop(guid)

    async def _tell_why(self, kept: Kept, message: Incoming, error: CannotBeHadError) -> None:
        """What the sender can do something about. The placeholder says it to everybody else."""
        log.warning("a file of Telegram could not be had: %s", error.message)
        if error.is_too_large and self._runs.is_answered:
            with contextlib.suppress(NotConnectedError, GiveUpError):
                await self._mouth.send(message.chat, wording.TOO_LARGE, f"large/{self._number(kept)}")

    async def _obey(self, kept: Kept, message: Incoming) -> None:
        """A command."""
        if message.command == "start":
            with contextlib.suppress(GiveUpError):
                await self._mouth.send(message.chat, wording.GREETING, f"start/{self._number(kept)}")
            await self._end(kept)
            return
        async with self._inbox.database.transaction() as connection:
            dropped = await drop_pending(connection, self._runs.scope(message.chat, message.sender))
            await self._inbox.end(connection, kept)
        images = wording.plural(dropped, "image")
        words = wording.FORGOTTEN.format(images=images) if dropped else wording.NOTHING_WAITS
        with contextlib.suppress(NotConnectedError, GiveUpError):
            await self._mouth.send(message.chat, words, f"forget/{self._number(kept)}")

    def _number(self, kept: Kept) -> str:
        return f"{self._inbox.account}/{kept.update_id}"

    async def _end(self, kept: Kept, refusal: str | None = None) -> None:
        async with self._inbox.database.transaction() as connection:
            await self._inbox.end(connection, kept, refusal)

    async def _find(self, message: Incoming) -> int | None:
        return await find_message_id(
            self._inbox.database, self._context.bot_id, NAME, message.chat, message.provider_message_id
        )


def _read(kept: Kept) -> Incoming | None:
    """One that cannot be read is one that says nothing: its chat goes on."""
    try:
        return read_message(kept.update)
    except Exception:
        log.exception("update %d of Telegram cannot be read", kept.update_id)
        return None


def _facts_of(message: Incoming) -> dict[str, Any]:
    """What `add_message` is told of who wrote it, and when."""
    return {
        "sender": sender_of(message),
        "source": USER,
        "originating_time": message.edit or message.date,
        "group": _group_of(message),
        "provider_message_id": message.provider_message_id,
    }


def _group_of(message: Incoming) -> Group | None:
    return Group(message.chat, message.group_name) if message.is_group else None

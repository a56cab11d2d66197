"""Saying something to a bot in the chat for trying out: text, or a file. The API and the pages come by here."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from pathlib import PurePosixPath

from mediamill.conversations.bot_queues import BotQueuesManager, QueuesClosedError
from mediamill.conversations.bots import UnknownBotError, show_bot
from mediamill.conversations.configuration import quota_gb
from mediamill.conversations.insist import UncertainError
from mediamill.conversations.keeper import BotKeeper, BotNotRunningError
from mediamill.conversations.model import CHAT, UNKNOWN_TYPE, USER, Message, Sender, clean_text
from mediamill.conversations.store import queries
from mediamill.errors import ConflictError, InvalidError
from mediamill.staging.put import UploadTooLargeError, drop_staged, put_chunks
from mediamill.staging.quota import limit_bytes

START_SECONDS = 10.0
POLL_SECONDS = 0.05
_CORRESPONDENT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._@+-]{0,127}")
_MESSAGE_ID = re.compile(r"[0-9A-Za-z._:@+=-]{1,200}")
# What programs send along when nobody told them the type of a file.
_NO_CLAIMS = ("", "application/x-www-form-urlencoded", "multipart/form-data")

_Add = Callable[[BotQueuesManager], Awaitable[Message | None]]


class NoChatError(ConflictError):
    """The bot is not on the chat for trying out."""

    code = "no_chat"


class BadCorrespondentError(InvalidError):
    """A chat is named by 1 to 128 letters, digits and . _ @ + -"""

    code = "bad_correspondent"


class BadMessageIdError(InvalidError):
    """A message_id has 1 to 200 letters, digits and . _ : @ + = -"""

    code = "bad_message_id"


class EmptyMessageError(InvalidError):
    """The message says nothing."""

    code = "empty_message"


@dataclass(frozen=True, slots=True)
class Said:
    """A message that was taken in, now or (`repeated`) before."""

    id: int
    provider_message_id: str
    repeated: bool
    guid: str | None = None


async def say_text(
    keeper: BotKeeper,
    bot_id: str,
    correspondent_id: str,
    text: str,
    *,
    message_id: str | None = None,
    display_name: str | None = None,
) -> Said:
    """A text from this correspondent; kept for good when this returns. The same message_id again adds nothing."""
    sender, message_id = _checked(correspondent_id, message_id, display_name)
    if not clean_text(text).strip():
        raise EmptyMessageError

    async def add(queues: BotQueuesManager) -> Message | None:
        return await queues.add_message(
            correspondent_id, text, sender, USER, _now(), provider_message_id=message_id
        )

    message = await _to_bot(keeper, bot_id, add)
    if message is None:
        return await _repeated(keeper, bot_id, correspondent_id, message_id)
    return Said(message.id, message_id, False)


async def say_media(
    keeper: BotKeeper,
    bot_id: str,
    correspondent_id: str,
    chunks: AsyncIterable[bytes],
    *,
    mime_type: str = UNKNOWN_TYPE,
    caption: str = "",
    filename: str | None = None,
    message_id: str | None = None,
    display_name: str | None = None,
    announced_bytes: int | None = None,
) -> Said:
    """A file, streamed to staging; then its placeholder and job. The same message_id again leaves no second file."""
    sender, message_id = _checked(correspondent_id, message_id, display_name)
    await _find_queues(keeper, bot_id)
    before = await _said_before(keeper, bot_id, correspondent_id, message_id)
    if before is not None:
        await _read_through(chunks, keeper.settings.upload_limit_bytes)
        return before
    guid = await _stage(keeper, chunks, announced_bytes)

    async def add(queues: BotQueuesManager) -> Message | None:
        return await queues.add_message(
            correspondent_id,
            caption,
            sender,
            USER,
            _now(),
            provider_message_id=message_id,
            media_processing_id=guid,
            mime_type=_claimed_type(mime_type),
            original_filename=_bare_name(filename),
        )

    message = await _add_staged(keeper, bot_id, add, guid)
    if message is None:
        return await _repeated(keeper, bot_id, correspondent_id, message_id)
    return Said(message.id, message_id, False, guid)


async def _add_staged(keeper: BotKeeper, bot_id: str, add: _Add, guid: str) -> Message | None:
    """The message of a staged file; without a message the file goes again."""
    try:
        message = await _to_bot(keeper, bot_id, add)
    except UncertainError:
        raise  # the database may have it: the janitor deletes the file if it has not
    except Exception:
        await asyncio.to_thread(drop_staged, keeper.settings.data_folder, guid)
        raise
    if message is None:
        await asyncio.to_thread(drop_staged, keeper.settings.data_folder, guid)
    return message


async def _stage(keeper: BotKeeper, chunks: AsyncIterable[bytes], announced_bytes: int | None) -> str:
    guid = str(uuid.uuid4())
    async with keeper.database.connection() as connection:
        quota = await quota_gb(connection)
    await put_chunks(
        keeper.settings.data_folder,
        guid,
        chunks,
        keeper.room,
        quota_bytes=limit_bytes(quota),
        limit_bytes=keeper.settings.upload_limit_bytes,
        announced_bytes=announced_bytes,
    )
    return guid


async def _to_bot(keeper: BotKeeper, bot_id: str, add: _Add) -> Message | None:
    """To the bot; if it stops just now to start again with another configuration, to the new one."""
    while True:
        try:
            return await add(await _find_queues(keeper, bot_id))
        except QueuesClosedError:
            await asyncio.sleep(POLL_SECONDS)


async def _find_queues(keeper: BotKeeper, bot_id: str) -> BotQueuesManager:
    """The chat of a bot that runs. One that is about to start is waited for."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            bot = keeper.get(bot_id)
            break
        except BotNotRunningError:
            async with keeper.database.connection() as connection:
                wanted = (await show_bot(connection, bot_id))["running"]
            if not wanted or time.monotonic() > deadline:
                raise
        await asyncio.sleep(POLL_SECONDS)
    if CHAT not in bot.queues:
        raise NoChatError(f"the bot {bot_id} is not on the chat for trying out", fix="add the provider chat")
    return bot.queues[CHAT]


def _checked(correspondent_id: str, message_id: str | None, display_name: str | None) -> tuple[Sender, str]:
    if not _CORRESPONDENT.fullmatch(correspondent_id):
        raise BadCorrespondentError
    if message_id is not None and not _MESSAGE_ID.fullmatch(message_id):
        raise BadMessageIdError
    return Sender(correspondent_id, display_name or correspondent_id), message_id or uuid.uuid4().hex


async def _said_before(keeper: BotKeeper, bot_id: str, correspondent_id: str, message_id: str) -> Said | None:
    async with keeper.database.connection() as connection:
        row = await queries.find_arrival.row(
            connection,
            bot_id=bot_id,
            provider_name=CHAT,
            correspondent_id=correspondent_id,
            provider_message_id=message_id,
        )
    return None if row is None else Said(row["id"], message_id, True, row["guid"])


async def _repeated(keeper: BotKeeper, bot_id: str, correspondent_id: str, message_id: str) -> Said:
    said = await _said_before(keeper, bot_id, correspondent_id, message_id)
    if said is None:
        raise UnknownBotError(f"the bot {bot_id} was deleted just now")
    return said


async def _read_through(chunks: AsyncIterable[bytes], limit: int) -> None:
    """Whoever sends a file again may only listen once it is through."""
    seen = 0
    async for chunk in chunks:
        seen += len(chunk)
        if seen > limit:
            raise UploadTooLargeError


def _claimed_type(mime_type: str) -> str:
    """What our own bridges say of failed downloads is not for strangers to say."""
    bare = mime_type.partition(";")[0].strip().lower()
    return UNKNOWN_TYPE if bare in _NO_CLAIMS or "/" not in bare else bare


def _bare_name(filename: str | None) -> str | None:
    """Without the folders that it lay in."""
    name = PurePosixPath(clean_text(filename or "").replace("\\", "/")).name
    return name if name.strip(".") else None


def _now() -> int:
    return int(time.time())

"""Gate: who may talk to a bot on one chat network. Asked before anything of a message is fetched, kept or processed.

A stranger gets a pairing code, once an hour, and nothing else happens with the message. Somebody who has used up the
day's limits is told so once. Both notices are written in the transaction of the decision and sent like answers, so a
process that dies in between neither loses nor repeats them.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from datetime import UTC, date
from functools import partial
from typing import Any

from asyncpg import Record

from mediamill.conversations.bots import AccessConfig
from mediamill.conversations.insist import insist
from mediamill.conversations.model import Group, Message, Sender
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection, Database
from mediamill.settings import Settings

ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # nothing that looks like something else
CODE_CHARACTERS = 8
CODE_SECONDS = 3_600.0
MOST_CODES = 50
NAME_CHARACTERS = 80
DECLARED = "declared_seconds"  # in a message's media_metadata: how long the sender's network says it plays

STRANGER = (
    "Hello! I only talk to people I know. Please show this code to the person who runs me: {code}\n"
    "It is valid for one hour."
)
WELCOME = "You have been approved. You can talk to me now."
ENOUGH = "You have reached today's limit of messages or media. It resets at midnight UTC, in {left}."


class LimitReachedError(Exception):
    """The sender has used up a limit of the day."""


@dataclass(frozen=True, slots=True)
class DayLimits:
    """What one sender may use on one day; 0: as much as they like."""

    messages: int = 0
    media_seconds: int = 0
    tokens: int = 0

    @classmethod
    def of(cls, access: AccessConfig, settings: Settings) -> DayLimits:
        """The bot's own, or the server's."""
        return cls(
            _first(access.messages_per_day, settings.sender_messages_per_day),
            _first(access.media_seconds_per_day, settings.sender_media_seconds_per_day),
            _first(access.tokens_per_day, settings.sender_tokens_per_day),
        )

    def allow(self, used: Record | None, media_seconds: float) -> bool:
        """One more message with so much media, after what was used today?"""
        messages, seconds, tokens = tuple(used) if used is not None else (0, 0.0, 0)
        return not (
            (self.messages and messages >= self.messages)
            or (self.tokens and tokens >= self.tokens)
            or (self.media_seconds and seconds + media_seconds > self.media_seconds)
        )


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A message that wants to come in."""

    correspondent_id: str
    sender: Sender
    group: Group | None
    provider_message_id: str
    media_seconds: float


@dataclass(frozen=True, slots=True)
class _Look:
    """What is known of whoever wrote it. `key`: under which id somebody who may talk is counted."""

    key: str = ""
    is_fine: bool = False
    is_stranger: bool = False


class Gate:
    """Of one bot on one chat network."""

    def __init__(
        self, database: Database, bot_id: str, provider_name: str, access: AccessConfig, limits: DayLimits
    ) -> None:
        self._database, self._access, self._limits = database, access, limits
        self._keys: dict[str, Any] = {"bot_id": bot_id, "provider_name": provider_name}

    async def admit(
        self,
        correspondent_id: str,
        sender: Sender,
        group: Group | None,
        *,
        provider_message_id: str,
        addressed: bool = True,
        media_seconds: float = 0.0,
    ) -> bool:
        """May this message come in? One that has come in before may: the queues know it.

        `addressed`: in a group, the bot is mentioned or replied to. Nothing is counted yet.
        """
        if group is not None and not self._wants_group(addressed):
            return False
        attempt = _Attempt(correspondent_id, sender, group, provider_message_id, media_seconds)
        return await insist(partial(self._judge, attempt))

    async def _judge(self, attempt: _Attempt) -> bool:
        async with self._database.connection() as connection:
            if (await self._look(connection, attempt)).is_fine or await self._came_before(
                connection, attempt
            ):
                return True
        async with self._database.transaction() as connection:
            await self._notify(connection, attempt, await self._look(connection, attempt))
        return False

    async def _look(self, connection: Connection, attempt: _Attempt) -> _Look:
        found = await self._find(connection, attempt.sender, attempt.group)
        if not self._may_talk(found):
            return _Look(is_stranger=found is None or found["is_live"] is False)
        key = await self._key(connection, attempt.sender)
        used = await queries.read_day.row(connection, **self._keys, sender_id=key)
        return _Look(key=key, is_fine=self._limits.allow(used, attempt.media_seconds))

    async def _notify(self, connection: Connection, attempt: _Attempt, look: _Look) -> None:
        """In a group a stranger gets no code: everybody would read it."""
        if look.key and not look.is_fine:
            await self._tell_limit(connection, attempt.correspondent_id, look.key)
        elif look.is_stranger and attempt.group is None:
            await self._greet(connection, attempt.correspondent_id, attempt.sender)

    async def admit_own(self, correspondent_id: str, group: Group | None) -> bool:
        """May a message come in that the account's owner wrote on another device? Where the other side may talk."""
        if group is not None:
            return self._access.groups == "always"

        async def look() -> bool:
            async with self._database.connection() as connection:
                return self._may_talk(await self._find(connection, Sender(correspondent_id), None))

        return await insist(look)

    async def count(
        self, connection: Connection, sender: Sender, media_seconds: float = 0.0, *, strict: bool = True
    ) -> None:
        """One message, in the transaction that accepts it. LimitReachedError: others were faster."""
        key = await self._key(connection, sender)
        used = await queries.lock_day.row(connection, **self._keys, sender_id=key)
        if strict and not self._limits.allow(used, media_seconds):
            raise LimitReachedError
        await queries.count_used.run(
            connection,
            **self._keys,
            sender_id=key,
            day=None,
            messages=1,
            media_seconds=media_seconds,
            tokens=0,
        )

    def _wants_group(self, addressed: bool) -> bool:
        return self._access.groups == "always" or (self._access.groups == "mentioned" and addressed)

    def _may_talk(self, found: Record | None) -> bool:
        state = found["state"] if found is not None else None
        return state == "allowed" or (self._access.mode == "open" and state != "blocked")

    async def _find(self, connection: Connection, sender: Sender, group: Group | None) -> Record | None:
        """In a group the sender must be allowed, or the group; a sender who is blocked is so everywhere."""
        places = [group.identifier] if group is not None else []
        return await queries.find_sender.row(
            connection, **self._keys, identifiers=[*identifiers_of(sender), *places]
        )

    async def _key(self, connection: Connection, sender: Sender) -> str:
        ids = identifiers_of(sender)
        return str(
            await queries.sender_key.value(connection, **self._keys, identifiers=ids, first=sender.identifier)
        )

    async def _came_before(self, connection: Connection, attempt: _Attempt) -> bool:
        found = await queries.find_arrival.row(
            connection,
            **self._keys,
            correspondent_id=attempt.correspondent_id,
            provider_message_id=attempt.provider_message_id,
        )
        return found is not None

    async def _greet(self, connection: Connection, correspondent_id: str, sender: Sender) -> None:
        """A code for a stranger who has none. Nothing of the message is kept."""
        bot_id = self._keys["bot_id"]
        await queries.lock_codes.row(connection, bot_id=bot_id)
        await queries.forget_codes.run(connection, bot_id=bot_id)
        if await self._find(connection, sender, None) is not None:
            return  # of two messages at once, the other was first
        code = await queries.add_code.value(
            connection,
            **self._keys,
            sender_id=sender.identifier,
            display_name=clean_name(sender.display_name),
            identifiers=identifiers_of(sender),
            code=make_code(),
            seconds=CODE_SECONDS,
            most=MOST_CODES,
        )
        if code is not None:
            await self._say(connection, correspondent_id, STRANGER.format(code=code))

    async def _tell_limit(self, connection: Connection, correspondent_id: str, key: str) -> None:
        left = await queries.note_notified.value(connection, **self._keys, sender_id=key)
        if left is not None:
            await self._say(connection, correspondent_id, ENOUGH.format(left=time_left(left)))

    async def _say(self, connection: Connection, correspondent_id: str, text: str) -> None:
        await queries.add_notice.row(connection, **self._keys, correspondent_id=correspondent_id, text=text)


async def count_measured(
    connection: Connection, bot_id: str, provider_name: str, message: Message, more_seconds: float
) -> None:
    """Media played longer or shorter than its network declared: the day on which it came is corrected."""
    await _count_later(
        connection, bot_id, provider_name, message.sender, _day(message), media_seconds=more_seconds
    )


async def count_tokens(
    connection: Connection, bot_id: str, provider_name: str, sender_id: str, tokens: int
) -> None:
    """What the answer to somebody has cost, on the day of the answer."""
    await _count_later(connection, bot_id, provider_name, Sender(sender_id), None, tokens=tokens)


async def _count_later(
    connection: Connection,
    bot_id: str,
    provider_name: str,
    sender: Sender,
    day: date | None,
    *,
    media_seconds: float = 0.0,
    tokens: int = 0,
) -> None:
    keys = {"bot_id": bot_id, "provider_name": provider_name}
    key = await queries.sender_key.value(
        connection, **keys, identifiers=identifiers_of(sender), first=sender.identifier
    )
    used = {"messages": 0, "media_seconds": media_seconds, "tokens": tokens}
    await queries.count_used.run(connection, **keys, sender_id=key, day=day, **used)


def identifiers_of(sender: Sender) -> list[str]:
    """All ids of somebody, the first one first. A user name is none: others can take it over."""
    others = (other for other in sender.alternate_identifiers if not other.startswith("@"))
    return list(dict.fromkeys((sender.identifier, *others)))


def make_code() -> str:
    """A pairing code that nobody can guess within its hour."""
    return "".join(secrets.choice(ALPHABET) for _ in range(CODE_CHARACTERS))


def clean_name(name: str | None) -> str | None:
    """A stranger's name on one line: what can be printed, and not without end."""
    shown = "".join(character if character.isprintable() else " " for character in name or "")
    return " ".join(shown.split())[:NAME_CHARACTERS].strip() or None


def time_left(seconds: float) -> str:
    """In words, rounded up."""
    minutes = max(1, math.ceil(seconds / 60))
    if minutes < 60:
        return f"{minutes} minute{'' if minutes == 1 else 's'}"
    hours = math.ceil(minutes / 60)
    return f"{hours} hour{'' if hours == 1 else 's'}"


def declared_seconds(metadata: Any) -> float:
    """How long the media of a message plays, as declared; whatever cannot be right is 0."""
    found = metadata.get(DECLARED) if hasattr(metadata, "get") else None
    return float(found) if isinstance(found, int | float) and 0 <= found < 10**7 else 0.0


def _day(message: Message) -> date:
    return message.accepted_time.astimezone(UTC).date()


def _first(own: int | None, common: int) -> int:
    return common if own is None else own

"""The owner's side of who may talk to a bot: list, pair by code, allow, block, forget.

What is decided is in force from the next message on.
"""

from __future__ import annotations

import re
from typing import Any

from mediamill.conversations.access import ALPHABET, WELCOME
from mediamill.conversations.bots import show_bot
from mediamill.conversations.model import CHAT, clean_text
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection
from mediamill.errors import InvalidError, NotFoundError

LONGEST_SENDER = 256
_TELEGRAM = re.compile(r"-?[0-9]{1,20}")
_WHATSAPP = re.compile(r"[0-9]{5,20}@(s\.whatsapp\.net|lid)|[0-9-]{5,40}@g\.us")
_NUMBER = re.compile(r"\+?[0-9][0-9 ()./-]{3,30}")


class UnknownCodeError(NotFoundError):
    """There is no such pairing code."""

    code = "unknown_pairing_code"


class UnknownSenderError(NotFoundError):
    """Nothing was decided about this sender."""

    code = "unknown_sender"


class BadSenderError(InvalidError):
    """This is no sender on that chat network."""

    code = "bad_sender"


async def list_senders(connection: Connection, bot_id: str) -> list[dict[str, Any]]:
    """Those who wait with a code, then those who are allowed and blocked, with what they have used today."""
    await show_bot(connection, bot_id)
    return [dict(row) for row in await queries.list_senders.rows(connection, bot_id=bot_id)]


async def pair_sender(connection: Connection, bot_id: str, code: str) -> dict[str, Any]:
    """Whoever was given this code may talk to the bot, and is told so."""
    given = "".join(character for character in code.upper() if character in ALPHABET)
    found = await queries.find_code.row(connection, bot_id=bot_id, code=given)
    if found is None:
        await show_bot(connection, bot_id)
        raise UnknownCodeError(
            f"nobody waits with the code {clean_text(code)[:20]}; codes are valid for one hour",
            fix=f"mediamill bots senders {bot_id} lists them; after an hour the bot gives a new one",
        )
    return await decide_sender(connection, bot_id, found["provider_name"], found["sender_id"], "allowed")


async def decide_sender(
    connection: Connection, bot_id: str, provider_name: str | None, sender: str, state: str
) -> dict[str, Any]:
    """`allowed` or `blocked`. Somebody who waited with a code is told that they may talk."""
    provider_name = await find_provider(connection, bot_id, provider_name)
    sender_id = sender_id_of(provider_name, sender)
    keys = {"bot_id": bot_id, "provider_name": provider_name}
    stranger = await queries.lock_stranger.row(connection, **keys, sender_id=sender_id)
    await queries.decide_sender.run(connection, **keys, sender_id=sender_id, state=state)
    if state == "allowed" and stranger is not None:
        known = {"identifiers": stranger["identifiers"], "correspondent_id": sender_id}
        await queries.know_correspondent.run(connection, **keys, **known)
        await queries.add_notice.row(connection, **keys, correspondent_id=sender_id, text=WELCOME)
    return {"provider_name": provider_name, "sender_id": sender_id, "state": state}


async def forget_sender(
    connection: Connection, bot_id: str, provider_name: str | None, sender: str
) -> dict[str, Any]:
    """A stranger again: neither allowed nor blocked."""
    provider_name = await find_provider(connection, bot_id, provider_name)
    sender_id = sender_id_of(provider_name, sender)
    gone = await queries.forget_sender.row(
        connection, bot_id=bot_id, provider_name=provider_name, sender_id=sender_id
    )
    if gone is None:
        raise UnknownSenderError(
            f"nothing was decided about {sender_id}", fix=f"mediamill bots senders {bot_id} lists all"
        )
    return {"provider_name": provider_name, "sender_id": sender_id, "state": "unknown"}


async def find_provider(connection: Connection, bot_id: str, given: str | None) -> str:
    """The chat network that is named, or the only one that the bot is on beside the chat in the browser."""
    networks = [name for name in (await show_bot(connection, bot_id))["config"]["providers"] if name != CHAT]
    if given in networks and given is not None:
        return given
    if given is None and len(networks) == 1:
        return str(networks[0])
    what = f"{bot_id} is not on {given}" if given else f"{bot_id} is on {len(networks)} chat networks"
    fix = f"name one of: {', '.join(networks)}" if networks else "the chat in the browser asks for a login"
    raise BadSenderError(what, fix=fix)


def sender_id_of(provider_name: str, given: str) -> str:
    """As the network names people and groups: a phone number may be written as people write them."""
    given = clean_text(given).strip()
    if provider_name == "whatsapp":
        if _NUMBER.fullmatch(given) and not _WHATSAPP.fullmatch(given):
            given = f"{''.join(filter(str.isdigit, given))}@s.whatsapp.net"
        if not _WHATSAPP.fullmatch(given):
            fix = (
                "give a phone number with its country code, such as +491701234567, or an id of `bots senders`"
            )
            raise BadSenderError(f"{given[:60]!r} is neither a phone number nor a WhatsApp id", fix=fix)
    elif provider_name == "telegram" and not _TELEGRAM.fullmatch(given):
        fix = "let them write to the bot and approve the code; user names can change hands"
        raise BadSenderError(f"{given[:60]!r} is no numeric Telegram id", fix=fix)
    if not 0 < len(given) <= LONGEST_SENDER:
        raise BadSenderError(f"a sender has 1 to {LONGEST_SENDER} characters")
    return given

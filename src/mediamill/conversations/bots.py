"""Bots: create, change, start, stop, list, delete. The database says which bots should run; a keeper runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Literal

from asyncpg import Record
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from mediamill.conversations.findable import forget_findable
from mediamill.conversations.model import CHAT, Limits, owner_of
from mediamill.conversations.store import queries
from mediamill.db.connection import Connection
from mediamill.engine.hold import forget_owner, hold_owner
from mediamill.errors import ConflictError, InvalidError, NotFoundError

_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
SECRETS = ("token",)  # in a provider's part of the configuration: taken, and shown to nobody
HIDDEN = "********"
LARGEST_LIMIT = 1_000_000_000


class UnknownBotError(NotFoundError):
    """There is no such bot."""

    code = "unknown_bot"


class BotExistsError(ConflictError):
    """There is a bot of that name already."""

    code = "bot_exists"


class BadBotError(InvalidError):
    """The configuration of the bot is not valid."""

    code = "bad_bot"

    def __init__(self, message: str, *, faults: list[str] | None = None, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.faults = faults


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReplyConfig(_Strict):
    """Who answers, and how."""

    by: Literal["none", "echo", "openai", "pi"] = "none"
    prompt: str = Field(default="", max_length=20_000)
    model: str | None = None


class AccessConfig(_Strict):
    """Who may talk to the bot, when it answers in groups, and how much anybody may use in a day.

    A limit of 0 is none; None is the server's. Logged-in users of the chat in the browser are not affected.
    """

    mode: Literal["paired", "open"] = "paired"
    groups: Literal["mentioned", "always", "never"] = "mentioned"
    messages_per_day: int | None = Field(default=None, ge=0, le=LARGEST_LIMIT)
    media_seconds_per_day: int | None = Field(default=None, ge=0, le=LARGEST_LIMIT)
    tokens_per_day: int | None = Field(default=None, ge=0, le=LARGEST_LIMIT)


class LimitsConfig(_Strict):
    """How much of each conversation is kept in memory."""

    max_messages: int = Field(default=1_000, ge=1)
    max_characters: int = Field(default=1_000_000, ge=1)
    max_age_seconds: float = Field(default=24 * 3600, gt=0)


class BotConfig(_Strict):
    """A bot: on which chat networks it is, and who answers."""

    providers: dict[str, dict[str, JsonValue]] = Field(default={"chat": {}})
    reply: ReplyConfig = ReplyConfig()
    access: AccessConfig = AccessConfig()
    limits: LimitsConfig = LimitsConfig()

    @property
    def queue_limits(self) -> Limits:
        """For the queues."""
        return Limits(**self.limits.model_dump())


def check_config(given: Mapping[str, Any], providers: Collection[str]) -> BotConfig:
    """The configuration, or every fault in it."""
    try:
        config = BotConfig.model_validate(given)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise BadBotError("; ".join(faults), faults=faults) from None
    unknown = sorted(set(config.providers) - set(providers))
    if unknown or not config.providers:
        what = f"unknown provider {', '.join(unknown)}" if unknown else "a bot needs a provider"
        raise BadBotError(what, fix=f"choose from {', '.join(sorted(providers))}")
    return config


async def create_bot(connection: Connection, bot_id: str, config: BotConfig) -> None:
    """A new bot; it does not run yet."""
    if not _ID.fullmatch(bot_id):
        raise BadBotError(
            f"{bot_id!r} cannot be the name of a bot", fix="use small letters, digits, - and _, at most 63"
        )
    given = _keep_secrets(config, {})
    if await queries.add_bot.value(connection, id=bot_id, config=given.model_dump_json()) is None:
        raise BotExistsError(f"there is a bot {bot_id} already", fix=f"mediamill bots show {bot_id}")


async def change_bot(connection: Connection, bot_id: str, config: BotConfig) -> None:
    """Another configuration; a bot that runs is restarted with it. A secret that is hidden in it stays as it was."""
    rows = await queries.list_bots.rows(connection, id=bot_id)
    before = json.loads(rows[0]["config"])["providers"] if rows else {}
    await _change(connection, bot_id, config=_keep_secrets(config, before).model_dump_json())


async def start_bot(connection: Connection, bot_id: str) -> None:
    """It should run from now on. Its jobs are released by whoever runs it, once their placeholders are in memory."""
    await _change(connection, bot_id, running=True)


async def stop_bot(connection: Connection, bot_id: str) -> int:
    """It should not run any more; its jobs are held from this moment on. How many."""
    await _change(connection, bot_id, running=False)
    return await hold_owner(connection, owner_of(bot_id))


async def delete_bot(connection: Connection, bot_id: str) -> None:
    """With all its conversations, and what waits of its jobs. It must be stopped first."""
    bot = await show_bot(connection, bot_id)
    if bot["running"] or await queries.delete_bot.row(connection, id=bot_id) is None:
        raise ConflictError(f"the bot {bot_id} runs", fix=f"mediamill bots stop {bot_id}")
    await forget_owner(connection, owner_of(bot_id))
    await forget_findable(connection, bot_id)


def is_open_to_all(bot: Mapping[str, Any]) -> bool:
    """May anybody who knows its number or name talk to it? The chat in the browser asks for a login."""
    config = BotConfig.model_validate(bot["config"])
    return config.access.mode == "open" and set(config.providers) != {CHAT}


async def list_bots(connection: Connection) -> list[dict[str, Any]]:
    """All of them, with what their providers say."""
    return [_plain(row) for row in await queries.list_bots.rows(connection, id=None)]


async def show_bot(connection: Connection, bot_id: str) -> dict[str, Any]:
    """One bot."""
    rows = await queries.list_bots.rows(connection, id=bot_id)
    if not rows:
        raise UnknownBotError(f"there is no bot {bot_id}", fix="mediamill bots list shows those there are")
    return _plain(rows[0])


async def _change(
    connection: Connection, bot_id: str, *, running: bool | None = None, config: str | None = None
) -> None:
    if await queries.change_bot.row(connection, id=bot_id, running=running, config=config) is None:
        raise UnknownBotError(f"there is no bot {bot_id}", fix="mediamill bots list shows those there are")


def _plain(row: Record) -> dict[str, Any]:
    config = json.loads(row["config"])
    config.setdefault("access", AccessConfig().model_dump())
    for part in config["providers"].values():
        part.update({name: HIDDEN for name in SECRETS if part.get(name)})
    return {**row, "config": config, "status": json.loads(row["status"])}


def _keep_secrets(config: BotConfig, before: Mapping[str, Mapping[str, Any]]) -> BotConfig:
    """Whoever changes a configuration that was shown to him gives back what was hidden from him."""
    providers = {}
    for provider, part in config.providers.items():
        hidden = {name for name in SECRETS if part.get(name) == HIDDEN}
        kept = {name: before.get(provider, {}).get(name) for name in hidden}
        if missing := [name for name in hidden if not kept[name]]:
            raise BadBotError(f"providers.{provider}.{missing[0]} is not known", fix="give it in full")
        providers[provider] = {**part, **kept}
    return config.model_copy(update={"providers": providers})

"""A bot's own part of the configuration: its token, and how updates come to us."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from mediamill.errors import InvalidError
from mediamill.settings import Settings

NAME = "telegram"
_TOKEN = re.compile(r"(?P<account>[0-9]{1,18}):[A-Za-z0-9_-]{20,100}")


class BadTelegramConfigError(InvalidError):
    """The configuration of the bot on Telegram is not valid."""

    code = "bad_telegram_config"


class TelegramConfig(BaseModel):
    """`token` is what @BotFather says; unset, it is MEDIAMILL_TELEGRAM_TOKEN."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    token: SecretStr | None = None
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: str | None = Field(default=None, max_length=1_000, pattern=r"^https?://[^\s?#]+$")


def read_config(given: Mapping[str, Any], settings: Settings) -> tuple[TelegramConfig, str]:
    """The configuration and the token; every fault is named, never the token."""
    try:
        config = TelegramConfig.model_validate(dict(given))
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        raise BadTelegramConfigError("; ".join(faults)) from None
    if config.mode == "webhook" and config.webhook_url is None:
        fix = "set webhook_url to the address under which this server is reached from outside"
        raise BadTelegramConfigError("a webhook needs webhook_url", fix=fix)
    if config.webhook_url is not None and not _may_be_called(config.webhook_url, settings):
        fix = "put a proxy with a certificate in front of the server; see docs/how-to/telegram.md"
        raise BadTelegramConfigError("Telegram calls webhooks by https:// only", fix=fix)
    secret = config.token or settings.telegram_token
    return config, checked_token(secret.get_secret_value() if secret else "")


def _may_be_called(webhook_url: str, settings: Settings) -> bool:
    """A Bot API server of one's own calls http:// too."""
    own = settings.telegram_url != Settings.model_fields["telegram_url"].default
    return own or webhook_url.startswith("https://")


def checked_token(token: str) -> str:
    """A token as Telegram gives them."""
    token = token.strip()
    if not _TOKEN.fullmatch(token):
        what = "this is no token of a Telegram bot" if token else "the token of the Telegram bot is missing"
        raise BadTelegramConfigError(
            f"{what}; @BotFather gives one: digits, a colon, letters and digits",
            fix="mediamill bots set NAME providers.telegram.token=…, or MEDIAMILL_TELEGRAM_TOKEN",
        )
    return token


def account_of(token: str) -> int:
    """Telegram's id of the bot stands before the colon."""
    return int(token.partition(":")[0])

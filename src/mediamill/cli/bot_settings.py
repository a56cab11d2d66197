"""The configuration of a bot from words and files: `reply=echo`, `limits.max_messages=500`, a JSON document."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from mediamill.errors import InvalidError

LIMITS = ("messages_per_day", "media_seconds_per_day", "tokens_per_day")
SHORT = {
    "reply": "reply.by",
    "prompt": "reply.prompt",
    "model": "reply.model",
    "access": "access.mode",
    "groups": "access.groups",
    **{name: f"access.{name}" for name in LIMITS},
}
TEXTS = ("reply.by", "reply.prompt")
NOTHING = ("", "none", "null")
LONGEST_TOKEN_FILE = 1_000


def change_config(before: Mapping[str, Any], words: Sequence[str]) -> dict[str, Any]:
    """The configuration with these changes; every word that cannot be read is named."""
    config = copy.deepcopy(dict(before))
    faults = []
    for word in words:
        key, equals, text = word.partition("=")
        if not equals or not key:
            faults.append(f"{word!r} is not of the form key=value")
        else:
            _put(config, SHORT.get(key, key), text)
    if faults:
        raise InvalidError("; ".join(faults), fix="write it like reply=echo limits.max_messages=500")
    return config


def add_options(
    config: dict[str, Any], networks: Mapping[str, Any], reply: Mapping[str, Any], access: Mapping[str, Any]
) -> dict[str, Any]:
    """The configuration with what was said beside it; an option that was not given changes nothing."""
    if networks:
        config["providers"] = dict(networks)
    for part, options in (("reply", reply), ("access", access)):
        given = {key: value for key, value in options.items() if value is not None}
        before = config.get(part, {})
        if given and isinstance(before, dict):  # else it is refused with the rest, by name
            config[part] = {**before, **given}
    return config


def _put(config: dict[str, Any], key: str, text: str) -> None:
    """What does not fit is refused with the whole configuration, by name."""
    *path, last = key.split(".")
    place = config
    for part in path:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise InvalidError(f"{key} goes too deep: {part} is {json.dumps(inner)}")
        place = inner
    if path == ["providers"] and text in NOTHING:
        place.pop(last, None)
    else:
        place[last] = _value(key, text)


def _value(key: str, text: str) -> Any:
    if key in TEXTS:
        return text
    if key == "reply.model" or (key.startswith("access.") and text in NOTHING):
        return None if text in NOTHING else text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_token(path: Path | None) -> dict[str, str]:
    """Telegram's part of a configuration: with the token of a file, or of whoever sits there, or of the settings."""
    from mediamill.providers.telegram.config import checked_token
    from mediamill.settings import Settings

    if path is not None:
        return {"token": checked_token(_read_text(path)[:LONGEST_TOKEN_FILE])}
    if Settings().telegram_token is not None:
        return {}  # the server has it
    return {"token": checked_token(typer.prompt("Token of the Telegram bot", hide_input=True))}


def _read_text(path: Path) -> str:
    try:
        return typer.get_text_stream("stdin").read() if str(path) == "-" else path.read_text()
    except OSError as error:
        raise InvalidError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidError(f"{path} is no text") from None


def read_json(path: Path) -> Any:
    """What a JSON file says; - is stdin."""
    text = _read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidError(f"{path} is not JSON: {error}") from None


def read_config(path: Path) -> dict[str, Any]:
    """A configuration, or a whole bot as `bots show --json` prints it."""
    found = read_json(path)
    if isinstance(found, dict) and isinstance(found.get("config"), dict):
        found = found["config"]
    if not isinstance(found, dict):
        raise InvalidError(
            f"{path} must hold a JSON object", fix="mediamill bots show NAME --json prints one"
        )
    return found

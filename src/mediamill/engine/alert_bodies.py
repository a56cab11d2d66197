"""How alerts read: the generic webhook body, and ones that show well in Slack and Discord."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

_TITLES = {
    "test": "A test: alerts arrive here",
    "stale_job_recovered": "Stale jobs recovered",
    "job_max_retries_exceeded": "A job used up its attempts",
    "job_failed": "A job failed for good",
    "job_failed_pattern": "The same thing fails again and again",
    "worker_startup": "A worker started",
    "worker_shutdown": "A worker stopped",
}
_COLOURS = {
    "test": 0x2E7D32,
    "worker_startup": 0x2E7D32,
    "worker_shutdown": 0x546E7A,
    "stale_job_recovered": 0xEF6C00,
}
_RED = 0xC62828
_FIELDS = 10
_VALUE_CHARACTERS = 300


def alert_body(url: str, type_: str, at: datetime, data: dict[str, Any]) -> dict[str, Any]:
    """The body for this address."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if host in ("hooks.slack.com", "hooks.slack-gov.com"):
        return _slack_body(type_, at, data)
    if host in ("discord.com", "discordapp.com") and parts.path.startswith("/api/webhooks/"):
        return _discord_body(type_, at, data)
    return {"type": type_, "timestamp": at.isoformat(), "data": data}


def _slack_body(type_: str, at: datetime, data: dict[str, Any]) -> dict[str, Any]:
    title = _title(type_, data)
    fields = [
        {"type": "mrkdwn", "text": f"*{_slack_text(name)}*\n{_slack_text(value)}"}
        for name, value in _facts(data)
    ]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": f"mediamill: {title}"}}
    ]
    if fields:
        blocks.append({"type": "section", "fields": fields})
    when = f"{type_} · {at.isoformat(timespec='seconds')}"
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": _slack_text(when)}]})
    return {"text": _slack_text(f"mediamill: {title}"), "blocks": blocks}


def _discord_body(type_: str, at: datetime, data: dict[str, Any]) -> dict[str, Any]:
    embed = {
        "title": _title(type_, data),
        "color": _COLOURS.get(type_, _RED),
        "timestamp": at.isoformat(),
        "footer": {"text": type_},
        "fields": [{"name": name, "value": value, "inline": True} for name, value in _facts(data)],
    }
    # A name such as @everyone in the data must not call everyone.
    return {"username": "mediamill", "embeds": [embed], "allowed_mentions": {"parse": []}}


def _title(type_: str, data: dict[str, Any]) -> str:
    """`and_more`: others of its type, which were not sent by themselves."""
    title = _TITLES.get(type_, type_)
    return f"{title}, and {data['and_more']} more" if data.get("and_more") else title


def _facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and value of what is known, within what both services take."""
    known = [(name, value) for name, value in data.items() if value is not None and name != "and_more"]
    return [(name[:100].replace("_", " "), _value(value)) for name, value in known[:_FIELDS]]


def _value(value: Any) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value[:20])) + (f" and {len(value) - 20} more" if len(value) > 20 else "")
    text = str(value) or "(empty)"
    return text if len(text) <= _VALUE_CHARACTERS else f"{text[: _VALUE_CHARACTERS - 1]}…"


def _slack_text(text: str) -> str:
    """Slack reads these three as its own language: a link, a call to everyone."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

"""Every setting as it holds now: its value, where it comes from, how to change it. Secrets are never told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from mediamill.settings import Settings

# The setting that begins each section; those that follow it in settings.py belong to it.
SECTIONS = {
    "data": "Files",
    "database_url": "Database",
    "host": "Server",
    "worker_processes": "Workers",
    "speech": "Processors",
    "video_segment_seconds": "Videos",
    "library_vanished_days": "Libraries",
    "intake_watch_seconds": "Projects",
    "agent": "Agents",
    "staged_keep_hours": "Media that wait",
    "ingest_seconds": "Conversations",
    "bridge_url": "Chat networks",
    "heartbeat_seconds": "Engine",
    "redis_url": "Dispatch",
    "alert_webhook_url": "Alerts",
    "log_level": "Logs",
}
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class SettingFact:
    """One setting. `source`: default or environment."""

    name: str
    variable: str
    section: str
    value: str
    default: str
    source: str
    secret: bool
    description: str

    def as_dict(self) -> dict[str, Any]:
        """For people and scripts."""
        return asdict(self)


def explain_settings(settings: Settings) -> list[SettingFact]:
    """All of them, in the order of settings.py."""
    return list(_facts(settings))


def _facts(settings: Settings) -> Iterator[SettingFact]:
    section = ""
    prefix = str(settings.model_config.get("env_prefix", ""))
    for name, field in type(settings).model_fields.items():
        section = SECTIONS.get(name, section)
        value = getattr(settings, name)
        secret = isinstance(value, SecretStr) or "SecretStr" in str(field.annotation)
        yield SettingFact(
            name=name,
            variable=f"{prefix}{name}".upper(),
            section=section,
            value=_masked(value) if secret else _shown(value),
            default=_shown(_default(field)),
            source="environment" if name in settings.model_fields_set else "default",
            secret=secret,
            description=field.description or "",
        )


def _default(field: FieldInfo) -> Any:
    return field.get_default(call_default_factory=False)


def _masked(value: Any) -> str:
    return "set" if value else ""


def _shown(value: Any) -> str:
    """In words; what may be a password within an address is left out."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return _CREDENTIALS.sub("…@", str(value))

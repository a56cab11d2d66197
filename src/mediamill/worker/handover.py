"""What `mediamill up` hands to the workers that it starts: plain variables by their environment, and the settings that
they need by a descriptor, which each reads once. Secrets that only the server needs do not leave the server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import get_args

import msgspec
from pydantic import SecretStr

from mediamill.environment import PROXIES, is_plain
from mediamill.settings import Settings

HANDOVER = "MEDIAMILL_HANDOVER_FD"
PREFIX = "MEDIAMILL_"
LARGEST_BYTES = 1 << 20
SECRETS = frozenset(
    name
    for name, field in Settings.model_fields.items()
    if SecretStr in (field.annotation, *get_args(field.annotation))
)
FOR_WORKERS = frozenset(
    (
        "database_url",
        "database_direct_url",
        "redis_url",
        "bucket_secret",
        "openai_key",
        "gemini_key",
        "moondream_key",
    )
)
# Nor where the files are that hold them.
NOT_FOR_WORKERS = SECRETS - FOR_WORKERS | {"secrets"}
# A worker raises alerts, and the server sends them: it must know that somebody wants them, not where they go.
ONLY_WHETHER = frozenset(("alert_webhook_url",))
# Keys of a bucket and of a model hub, and where traces go.
OTHER_NAMES, OTHER_PREFIXES = (
    PROXIES | {"HF_ENDPOINT", "HF_HOME", "HF_TOKEN", "MEDIAMILL_DEBUG"},
    ("AWS_", "OTEL_"),
)


def plain_of(environment: Mapping[str, str]) -> dict[str, str]:
    """What may stand in the environment of a worker, where every process of this user can read it."""
    return {name: value for name, value in environment.items() if is_plain(name)}


def encode_handover(environment: Mapping[str, str], more: str = "") -> bytes:
    """What a worker needs besides. `more`: further variables by their names, separated by commas."""
    chosen = OTHER_NAMES | {name.strip().upper() for name in more.split(",")}
    given: dict[str, str] = {}
    for name, value in environment.items():
        setting = name.upper().removeprefix(PREFIX).lower() if name.upper().startswith(PREFIX) else None
        if setting in ONLY_WHETHER:
            given[name] = "set"
        elif (setting in Settings.model_fields and setting not in NOT_FOR_WORKERS) or (
            name.upper() in chosen or name.upper().startswith(OTHER_PREFIXES)
        ):
            given[name] = value
    return msgspec.json.encode(given)


def take_handover() -> None:
    """In a worker, before it reads its settings. /proc/<pid>/environ stays as it was when the process began."""
    descriptor = os.environ.pop(HANDOVER, None)
    if descriptor is None:
        return
    content = os.pread(
        int(descriptor), LARGEST_BYTES, 0
    )  # others read the same file: its position is not ours
    os.close(int(descriptor))
    os.environ.update(msgspec.json.decode(content, type=dict[str, str]))

"""The secret that bridge and server share: a setting, or a random one kept in the data folder."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

from mediamill.settings import Settings

FILE = "bridge_secret"
LONGEST_BYTES = 1_000


def bridge_secret(settings: Settings) -> str:
    """The setting, or the one in the data folder, which is made the first time."""
    if settings.bridge_secret is not None and settings.bridge_secret.get_secret_value():
        return settings.bridge_secret.get_secret_value()
    file = settings.data_folder / FILE
    with contextlib.suppress(FileNotFoundError):
        return _read(file)
    _make(file)
    return _read(file)


def is_right(given: str, secret: str) -> bool:
    """In constant time, whatever was given."""
    return hmac.compare_digest(_digest(given), _digest(secret))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(LONGEST_BYTES).decode().strip()


def _make(file: Path) -> None:
    """Whole or not at all, for this user's eyes only; the first of two that make it at once wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, made = tempfile.mkstemp(prefix=f".{FILE}-", dir=file.parent)  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as opened:
            opened.write(f"{secrets.token_urlsafe(32)}\n")
            opened.flush()
            os.fsync(opened.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(made, file)
    finally:
        Path(made).unlink()

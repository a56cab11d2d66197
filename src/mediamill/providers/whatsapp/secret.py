"""The secret that bridge and server share: a setting, or a random one kept in the data folder."""

from __future__ import annotations

import hashlib
import hmac

from mediamill.local_key import keep_secret
from mediamill.settings import Settings

FILE = "bridge_secret"


def bridge_secret(settings: Settings) -> str:
    """The setting, or the one in the data folder, which is made the first time."""
    if settings.bridge_secret is not None and settings.bridge_secret.get_secret_value():
        return settings.bridge_secret.get_secret_value()
    return keep_secret(settings.data_folder / FILE)


def is_right(given: str, secret: str) -> bool:
    """In constant time, whatever was given."""
    return hmac.compare_digest(_digest(given), _digest(secret))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

"""The secret that Telegram shows at our door: made from the token, so that every server knows it, and nobody else."""

from __future__ import annotations

import hashlib
import hmac

PURPOSE = b"mediamill: secret of the webhook"


def webhook_secret(token: str) -> str:
    """Letters and digits, as Telegram wants them; it tells nothing of the token."""
    return hmac.new(token.encode(), PURPOSE, hashlib.sha256).hexdigest()


def is_right(given: str, secret: str) -> bool:
    """In constant time, whatever was given."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode())

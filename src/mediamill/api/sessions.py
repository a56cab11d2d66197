"""Who may come in: the admin secret, compared in constant time, and in a browser the signed cookie for it."""

from __future__ import annotations

import hashlib
import hmac
import time
from http.cookies import CookieError, SimpleCookie

from pydantic import SecretStr

COOKIE = "mediamill_session"
SESSION_SECONDS = 7 * 86_400


def is_secret(given: str | None, secret: SecretStr | None) -> bool:
    """Whether it is the admin secret. Without one nothing is."""
    if given is None or secret is None:
        return False
    return hmac.compare_digest(_digest(given), _digest(secret.get_secret_value()))


def bearer(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer` header."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def new_session(secret: SecretStr) -> str:
    """The value of the cookie: until when, and a signature by the secret. A changed secret ends all sessions."""
    until = str(int(time.time()) + SESSION_SECONDS)
    return f"{until}.{_sign(until, secret)}"


def is_session(cookie_header: str | None, secret: SecretStr | None) -> bool:
    """Whether the cookies hold a session of ours that is not over."""
    if not cookie_header or secret is None:
        return False
    try:
        found = SimpleCookie(cookie_header).get(COOKIE)
    except CookieError:
        return False
    until, _, signature = (found.value if found else "").partition(".")
    right = hmac.compare_digest(signature.encode(), _sign(until, secret).encode())
    return right and until.isascii() and until.isdigit() and int(until) > time.time()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _sign(text: str, secret: SecretStr) -> str:
    key = secret.get_secret_value().encode()
    return hmac.new(
        key, f"mediamill session {text}".encode("utf-8", "surrogatepass"), hashlib.sha256
    ).hexdigest()

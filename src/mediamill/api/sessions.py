"""What a request shows of itself: a bearer token, or the cookie of a session; and how the cookie is given."""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response

COOKIE = "mediamill_session"
SAFE_COOKIE = (
    f"__Host-{COOKIE}"  # by https: no other name of the domain can set it, and it never travels in the open
)


def is_secret(given: str | None, secret: SecretStr | None) -> bool:
    """Whether it is the admin secret, compared in constant time. Without one, or with an empty one, nothing is."""
    if given is None or secret is None or not secret.get_secret_value():
        return False
    return hmac.compare_digest(_digest(given), _digest(secret.get_secret_value()))


def bearer(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer` header."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def session_of(cookie_header: str | None, scheme: str) -> str | None:
    """The value of the session's cookie; by https only of the one that was given by https."""
    try:
        found = SimpleCookie(cookie_header or "").get(cookie_name(scheme))
    except CookieError:
        return None
    return found.value if found and found.value else None


def cookie_name(scheme: str) -> str:
    """What the cookie is called there."""
    return SAFE_COOKIE if scheme == "https" else COOKIE


def give_cookie(request: Request, answer: Response, value: str, seconds: float) -> None:
    """For this browser alone, for pages of ours alone, out of reach of scripts."""
    scheme = request.url.scheme
    answer.set_cookie(
        cookie_name(scheme),
        value,
        max_age=int(seconds),
        httponly=True,
        samesite="lax",
        secure=scheme == "https",
    )


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

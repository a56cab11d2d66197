"""What a request shows of itself: a bearer token, or the cookie of a session; and how the cookie is given."""

from __future__ import annotations

import hashlib
import hmac
from http.cookies import CookieError, SimpleCookie

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response

from mediamill.local_key import local_key
from mediamill.settings import Settings

COOKIE = "mediamill_session"
STEP_COOKIE = "mediamill_login"  # of a login that takes several steps


def session_secret(settings: Settings) -> SecretStr:
    """What sessions without a user depend on: another admin secret ends them, or (without one) another key."""
    secret = settings.admin_secret
    return secret if secret and has_value(secret) else SecretStr(local_key(settings.data_folder))


def has_value(secret: SecretStr | None) -> bool:
    """Whether there is one, and it is not empty."""
    return secret is not None and bool(secret.get_secret_value())


def is_secret(given: str | None, secret: SecretStr | None) -> bool:
    """Whether it is the admin secret, compared in constant time. Without one, or with an empty one, nothing is."""
    if given is None or secret is None or not has_value(secret):
        return False
    return hmac.compare_digest(_digest(given), _digest(secret.get_secret_value()))


def bearer(authorization: str | None) -> str | None:
    """The token of an `Authorization: Bearer` header."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.strip() else None


def session_of(cookie_header: str | None, scheme: str, cookie: str = COOKIE) -> str | None:
    """The value of the session's cookie; by https only of the one that was given by https."""
    try:
        found = SimpleCookie(cookie_header or "").get(cookie_name(scheme, cookie))
    except CookieError:
        return None
    return found.value if found and found.value else None


def step_of(request: Request) -> str | None:
    """The value of the cookie of a login that takes several steps."""
    return session_of(request.headers.get("cookie"), request.url.scheme, STEP_COOKIE)


def cookie_name(scheme: str, cookie: str = COOKIE) -> str:
    """What it is called there. `__Host-`: no other name of the domain can set it, and it never travels in the open."""
    return f"__Host-{cookie}" if scheme == "https" else cookie


def give_cookie(request: Request, answer: Response, value: str, seconds: float, cookie: str = COOKIE) -> None:
    """For this browser alone, for pages of ours alone, out of reach of scripts."""
    scheme = request.url.scheme
    answer.set_cookie(
        cookie_name(scheme, cookie),
        value,
        max_age=int(seconds),
        httponly=True,
        samesite="lax",
        secure=scheme == "https",
    )


def take_cookie(request: Request, answer: Response, cookie: str = COOKIE) -> None:
    """The browser forgets it."""
    scheme = request.url.scheme
    answer.delete_cookie(cookie_name(scheme, cookie), httponly=True, samesite="lax", secure=scheme == "https")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

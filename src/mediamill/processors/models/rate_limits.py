"""What a server's headers say of its rate limit: for how long it wants no request.

`Retry-After` is the standard; `retry-after-ms` and the families of `x-ratelimit-…` are what model servers really send:
how many requests or tokens remain, and when there will be more, as seconds, as `1m30s`, or as a time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx

from mediamill.clock import retry_after_seconds

LONGEST_ASKED_SECONDS = 3600.0  # a server that asks for more is asked again after so long
TOO_MANY = 429
_FAMILIES = [f"{head}ratelimit-%s{tail}" for head in ("x-", "") for tail in ("", "-requests", "-tokens")]
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_A_TIME = 1e8  # larger numbers are seconds since 1970


def asked_seconds(status: int, headers: httpx.Headers) -> float | None:
    """For how long the server wants to be left alone; None if it does not say."""
    asked = [*_retry_after(headers), *_until_reset(headers, refused=status == TOO_MANY)]
    return min(max(asked), LONGEST_ASKED_SECONDS) if asked else None


def _retry_after(headers: httpx.Headers) -> Iterator[float]:
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        yield milliseconds / 1000
    elif (seconds := retry_after_seconds(headers.get("Retry-After"))) is not None:
        yield seconds


def _until_reset(headers: httpx.Headers, *, refused: bool) -> Iterator[float]:
    """Of each limit that is used up. One that does not say how much remains counts if we were refused."""
    for family in _FAMILIES:
        remaining = _number(headers.get(family % "remaining"))
        reset = _duration(headers.get(family % "reset"))
        if reset is not None and (remaining == 0 or (remaining is None and refused)):
            yield reset


def _duration(text: str | None) -> float | None:
    number = _number(text)
    if number is not None:
        return max(0.0, number - time.time()) if number > _A_TIME else number
    parts = _PART.findall(text or "")
    if not parts or "".join(map("".join, parts)) != text:
        return None
    return sum(float(amount) * _UNITS[unit] for amount, unit in parts)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < 1e12 else None

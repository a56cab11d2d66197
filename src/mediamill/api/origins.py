"""Where a request comes from, as far as a browser tells: nothing here is for pages of another origin.

Browsers name the origin of a page that changes something, or that wants to read an answer; newer ones say of every
request how its page is related to us (Fetch Metadata). Programs send neither. A link on another site may be followed.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def host_name(headers: Headers) -> str:
    """The name in the Host header, without its port."""
    try:
        return urlsplit(f"//{headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def is_foreign(scope: Scope, headers: Headers) -> bool:
    """Whether a page of another origin asks. Another port of this machine is another origin, too."""
    origin = headers.get("origin")
    if origin is not None:
        scheme, _, host = origin.partition("://")
        return host.lower() != headers.get("host", "").lower() or (scope["scheme"], scheme) == (
            "https",
            "http",
        )
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    return not _is_visit(scope, headers)


def names_origin(headers: Headers) -> bool:
    """Whether a browser says that a page of ours asks; every browser does when it changes something."""
    return "origin" in headers or headers.get("sec-fetch-site") == "same-origin"


def _is_visit(scope: Scope, headers: Headers) -> bool:
    """Somebody follows a link to us: the page behind it is shown to them, and to no other page."""
    return (
        scope["method"] == "GET"
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )

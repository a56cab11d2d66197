"""Where browsers reach this server: what passkeys and single sign-on are bound to."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class RelyingParty:
    """What a passkey belongs to: a domain, used from one origin."""

    id: str
    origin: str


def public_origin(public_url: str | None, scheme: str, host: str) -> str | None:
    """As it was configured; else of a request to this machine itself. None: nobody said, and Host is a stranger's."""
    if public_url is not None:
        return public_url
    return f"{scheme}://{host}" if is_loopback(_name(f"//{host}")) else None


def relying_party(origin: str | None) -> RelyingParty | None:
    """None where passkeys cannot be: browsers want a name, not an IP address, and https beyond this machine."""
    parts = urlsplit(origin or "")
    name = parts.hostname or ""
    if not name or is_address(name) or (parts.scheme != "https" and not is_loopback(name)):
        return None
    return RelyingParty(name, f"{parts.scheme}://{parts.netloc}")


def localhost_instead(origin: str | None) -> str | None:
    """The same server by a name, if it is reached by a loopback address."""
    parts = urlsplit(origin or "")
    name = parts.hostname or ""
    if not is_address(name) or not is_loopback(name):
        return None
    return f"{parts.scheme}://localhost" + (f":{parts.port}" if parts.port else "")


def _name(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    """Whether it is an address, not a name: nobody can point one of their own names at it."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Whether a name or address reaches only this machine."""
    name = host.strip("[]").lower()
    return name == "localhost" or (is_address(name) and ipaddress.ip_address(name).is_loopback)

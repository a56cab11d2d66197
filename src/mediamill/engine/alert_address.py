"""Which addresses a webhook may reach: public ones, unless private ones are allowed.

The name is resolved once, every address it has is judged, and the connection goes to a judged address: a
name that answers differently the second time (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import httpx

from mediamill.errors import InvalidError

Resolve = Callable[[str, int], Awaitable[list[str]]]

_NAT64 = (ipaddress.IPv6Network("64:ff9b::/96"), ipaddress.IPv6Network("64:ff9b:1::/48"))


class AddressRefusedError(InvalidError):
    """The webhook's address is not allowed."""

    code = "webhook_address_refused"


@dataclass(frozen=True, slots=True)
class Target:
    """Where to connect, and the name to show to the server and to check its certificate against."""

    url: httpx.URL
    host_header: str
    server_name: str


async def find_targets(url: str, *, allow_private: bool, resolve: Resolve | None = None) -> list[Target]:
    """One target per address of the host; refused if the URL is wrong or any address is private."""
    parsed = _parse(url)
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    addresses = await (resolve or resolve_host)(parsed.host, port)
    if not addresses:
        raise OSError("the webhook's host has no address")
    for address in addresses:
        if not allow_private and not is_public(address):
            raise AddressRefusedError(
                f"the webhook's host {parsed.host} is at {address}, which is not a public address",
                fix="use a public address, or set MEDIAMILL_ALERT_ALLOW_PRIVATE=true",
            )
    header, name = parsed.netloc.decode("ascii"), parsed.raw_host.decode("ascii")
    return [Target(parsed.copy_with(host=address), header, name) for address in addresses]


def is_public(address: str) -> bool:
    """Not private, loopback, link-local, multicast or reserved, nor a way round to such an IPv4 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        embedded = _embedded(parsed)
        if embedded is not None:
            return _is_public(embedded)
    return _is_public(parsed)


async def resolve_host(host: str, port: int) -> list[str]:
    """All addresses of a host, in the order of the system's preference."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _parse(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise AddressRefusedError(f"the webhook's address is no URL: {error}") from None
    if parsed.scheme not in ("https", "http") or not parsed.host:
        raise AddressRefusedError("the webhook's address must begin with https:// or http:// and name a host")
    return parsed


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that packets to this one may end at."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if any(address in network for network in _NAT64) or int(address) >> 32 == 0:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    return (
        address.is_global
        and not address.is_multicast
        and not address.is_reserved
        and not address.is_unspecified
        and not (isinstance(address, IPv6Address) and address.is_site_local)
    )

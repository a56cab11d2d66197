"""Where a webhook may be: what an address hides, and what the connection is made of."""

from __future__ import annotations

import httpx
import pytest

from mediamill.engine.alert_address import Target, find_targets, is_public, resolve_host


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", True),  # Teredo to 8.8.8.8
        ("2002:808:808::1", True),  # 6to4 to 8.8.8.8
        ("64:ff9b:1::808:808", True),  # NAT64
        ("64:ff9b:2::808:808", False),
        ("::808:808", True),
        ("::1:808:808", False),  # one bit more than an IPv4 address has
        ("8.8.8.8%eth0", True),
    ],
)
def test_an_address_is_judged_by_the_one_that_it_leads_to(address: str, public: bool) -> None:
    assert is_public(address) is public


async def test_a_target_has_the_address_and_keeps_the_name_for_the_certificate() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["8.8.8.8", "2606:4700:4700::1111"]

    assert await find_targets(
        "https://bücher.example:8443/hook?a=1", allow_private=False, resolve=resolve
    ) == [
        Target(
            httpx.URL(f"https://{host}:8443/hook?a=1"), "xn--bcher-kva.example:8443", "xn--bcher-kva.example"
        )
        for host in ("8.8.8.8", "[2606:4700:4700::1111]")
    ]


async def test_private_addresses_are_targets_if_they_are_allowed() -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["10.0.0.1"]

    (target,) = await find_targets("http://intern/", allow_private=True, resolve=resolve)
    assert (str(target.url), target.host_header) == ("http://10.0.0.1/", "intern")


async def test_each_address_of_a_host_is_found_once() -> None:
    assert await resolve_host("127.0.0.1", 80) == ["127.0.0.1"]
    found = await resolve_host("localhost", 80)
    assert len(found) == len(set(found)) > 0

"""Where a webhook may be: what an address hides, and what the connection is made of."""

from __future__ import annotations

import httpx
import pytest

from mediamill.engine.alert_address import AddressRefusedError, Target, find_targets, is_public, resolve_host


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


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://hooks.example/a", 443),
        ("http://hooks.example/a", 80),
        ("https://hooks.example:80/a", 80),
        ("http://hooks.example:8443/a", 8443),
    ],
)
async def test_a_name_is_looked_up_for_the_port_of_the_webhook(url: str, port: int) -> None:
    asked: list[tuple[str, int]] = []

    async def resolve(host: str, port: int) -> list[str]:
        asked.append((host, port))
        return ["8.8.8.8"]

    await find_targets(url, allow_private=False, resolve=resolve)
    assert asked == [("hooks.example", port)]


async def test_a_host_without_addresses_and_one_with_a_private_one_are_no_targets() -> None:
    found: list[str] = []

    async def resolve(_host: str, _port: int) -> list[str]:
        return found

    with pytest.raises(OSError, match="has no address"):
        await find_targets("https://a.example", allow_private=True, resolve=resolve)
    found += ["8.8.8.8", "10.0.0.1"]
    with pytest.raises(
        AddressRefusedError, match=r"a\.example is at 10\.0\.0\.1, which is not a public address"
    ):
        await find_targets("https://a.example", allow_private=False, resolve=resolve)
    for wrong in ("ftp://a.example", "https://", "a.example", "https://a:b:c"):
        with pytest.raises(AddressRefusedError):
            await find_targets(wrong, allow_private=True, resolve=resolve)

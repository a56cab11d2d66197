from __future__ import annotations

import pytest

from mediamill.access.places import localhost_instead, public_origin, relying_party


@pytest.mark.parametrize(
    ("public_url", "host", "expected"),
    [
        ("https://mill.example", "evil.example", "https://mill.example"),
        (None, "localhost:8420", "http://localhost:8420"),
        (None, "127.0.0.1:8420", "http://127.0.0.1:8420"),
        (None, "[::1]:8420", "http://[::1]:8420"),
        (None, "evil.example", None),
        (None, "localhost.evil.example", None),
        (None, "localhost@evil.example", None),
        (None, "[", None),
        (None, "", None),
    ],
)
def test_beyond_this_machine_only_the_configured_address_counts(
    public_url: str | None, host: str, expected: str | None
) -> None:
    assert public_origin(public_url, "http", host) == expected


@pytest.mark.parametrize(
    ("origin", "id_"),
    [
        ("https://mill.example", "mill.example"),
        ("https://mill.example:8443", "mill.example"),
        ("http://localhost:8420", "localhost"),
        ("http://mill.example", None),
        ("http://127.0.0.1:8420", None),
        ("https://192.0.2.7", None),
        ("https://[::1]", None),
        ("https://", None),
        (None, None),
    ],
)
def test_passkeys_need_a_name_and_https_beyond_this_machine(origin: str | None, id_: str | None) -> None:
    party = relying_party(origin)
    assert (party.id if party else None) == id_
    assert party is None or party.origin == origin


def test_a_loopback_address_has_a_name() -> None:
    assert localhost_instead("http://127.0.0.1:8420") == "http://localhost:8420"
    assert localhost_instead("http://[::1]") == "http://localhost"
    for other in ("http://localhost:8420", "https://192.0.2.7", "https://mill.example", None):
        assert localhost_instead(other) is None

"""A caller calls the configured servers and nothing else, however the request is written."""

from __future__ import annotations

import pytest

from mediamill.processors.models.calls import PLACEHOLDER, Call, CallFailed, ModelServer, Outcome, Reply
from mediamill.worker.call_rules import CallRules, hide_key

KEY = "sk-very-secret-0123456789"
OLLAMA = ModelServer("http://127.0.0.1:11434/v1", "Authorization", "Bearer ", KEY)
CLOUD = ModelServer("https://api.example.com", "x-goog-api-key", "", "g-very-secret-0123456789")
INTERNATIONAL = ModelServer("https://MODELLE.münchen.example/api/")
RULES = CallRules([OLLAMA, CLOUD, INTERNATIONAL])

ALLOWED = {
    "http://127.0.0.1:11434/v1/chat/completions": "http://127.0.0.1:11434/v1/chat/completions",
    "http://127.0.0.1:11434/v1": "http://127.0.0.1:11434/v1",
    "http://127.0.0.1:11434/v1/models?limit=3&after=a%2Fb": "http://127.0.0.1:11434/v1/models?limit=3&after=a%2Fb",
    "https://api.example.com": "https://api.example.com/",
    "https://api.example.com:443/v1beta/models/m:generateContent": (
        "https://api.example.com/v1beta/models/m:generateContent"
    ),
    "https://API.Example.COM/v1beta/files/a-b_c": "https://api.example.com/v1beta/files/a-b_c",
    "https://api.example.com/a%20b".replace("%20", "%C3%BC"): "https://api.example.com/a%C3%BCb",
    "https://api.example.com/a%21b": "https://api.example.com/a%21b",
    "https://modelle.xn--mnchen-3ya.example/api/x": "https://modelle.xn--mnchen-3ya.example/api/x",
}

FORBIDDEN = [
    # another server
    "http://127.0.0.1:8420/api/tokens",
    "http://127.0.0.1/v1/models",
    "http://127.0.0.1:11435/v1/models",
    "http://127.0.0.1:011434/v1/models ",
    "https://127.0.0.1:11434/v1/models",
    "http://localhost:11434/v1/models",
    "http://127.1:11434/v1/models",
    "http://2130706433:11434/v1/models",
    "http://0x7f000001:11434/v1/models",
    "http://[::1]:11434/v1/models",
    "http://[::ffff:127.0.0.1]:11434/v1/models",
    "http://127.0.0.1.:11434/v1/models",
    "http://127.0.0.1.evil.example:11434/v1/models",
    "http://api.example.com/v1",
    "https://api.example.com./v1",
    "https://api.example.com.evil.example/v1",
    "https://evil-api.example.com/v1",
    "https://api.example.com:8443/v1",
    "https://api.example.com%2eevil.example/v1",
    "https://api。example。com/v1",
    "https://ａpi.example.com/v1",
    "https://modelle.munchen.example/api/x",
    # who is meant depends on who reads it
    "http://user@127.0.0.1:11434/v1/models",
    "http://user:password@127.0.0.1:11434/v1/models",
    "http://127.0.0.1:11434@evil.example/v1/models",
    "http://evil.example@127.0.0.1:11434/v1/models",
    "http://127.0.0.1:11434#@evil.example/v1/models",
    "http://evil.example#http://127.0.0.1:11434/v1/models",
    "http://evil.example\\@127.0.0.1:11434/v1/models",
    "http://127.0.0.1:11434\\@evil.example/v1/models",
    "http:/\\127.0.0.1:11434/v1/models",
    "http:127.0.0.1:11434/v1/models",
    "//evil/v1/models",
    "/v1/models",
    "",
    # another path
    "http://127.0.0.1:11434/",
    "http://127.0.0.1:11434/api/pull",
    "http://127.0.0.1:11434/v10/models",
    "http://127.0.0.1:11434/V1/models",
    "http://127.0.0.1:11434//v1/models",
    "http://127.0.0.1:11434/v1//models",
    "http://127.0.0.1:11434/v1/../admin",
    "http://127.0.0.1:11434/v1/./models",
    "http://127.0.0.1:11434/v1/..",
    "http://127.0.0.1:11434/v1/..;/admin",
    "http://127.0.0.1:11434/v1/%2e%2e/admin",
    "http://127.0.0.1:11434/v1/.%2E/admin",
    "http://127.0.0.1:11434/v1/%252e%252e/admin",
    "http://127.0.0.1:11434/v1%2f..%2fadmin",
    "http://127.0.0.1:11434/v1/..%2fadmin",
    "http://127.0.0.1:11434/v1/..%5cadmin",
    "http://127.0.0.1:11434/v1\\..\\admin",
    "http://127.0.0.1:11434/%76%31/models",
    "http://127.0.0.1:11434/v1/%",
    "http://127.0.0.1:11434/v1/%0d%0aX: y",
    "http://127.0.0.1:11434/v1/mo%20dels",
    "http://127.0.0.1:11434/v1/mo%7Fdels",
    "http://127.0.0.1:11434/v1/models#fragment",
    # what no address has
    "http://127.0.0.1:11434/v1/mo dels",
    "http://127.0.0.1:11434/v1/models\r\nX-Injected: yes",
    "http://127.0.0.1:11434/v1/models\n",
    "http://127.0.0.1:11434/v1/mod\tels",
    "http://127.0.0.1:11434/v1/mod\0els",
    " http://127.0.0.1:11434/v1/models",
    "http://127.0.0.1:99999999/v1/models",
    "http://127.0.0.1:/v1/models",
    "http://:11434/v1/models",
    "http://[/v1",
    "http:///v1/models",
    "http://127.0.0.1:11434/v1/" + "a" * 9000,
    # another scheme
    "file:///etc/passwd",
    "ftp://127.0.0.1:11434/v1/models",
    "unix:///run/docker.sock",
    "gopher://127.0.0.1:11434/v1/x",
    "data:text/plain,x",
    "HTTP://127.0.0.1:11434/v1/models",
]


def call(url: str, *headers: tuple[str, str]) -> Call:
    return Call("POST", url, list(headers), 0, 10)


@pytest.mark.parametrize(("asked", "made"), ALLOWED.items())
def test_what_is_beneath_a_configured_address_is_called(asked: str, made: str) -> None:
    applied = RULES.apply(call(asked))
    assert isinstance(applied, tuple)
    assert applied[0].url == made


@pytest.mark.parametrize("url", FORBIDDEN)
def test_any_other_address_is_forbidden(url: str) -> None:
    applied = RULES.apply(call(url))
    assert isinstance(applied, CallFailed)
    assert applied.kind == "forbidden"


def test_the_key_is_that_of_the_settings_and_headers_of_the_connection_are_dropped() -> None:
    asked = call(
        "http://127.0.0.1:11434/v1/models",
        ("authorization", "Bearer guessed"),
        ("AUTHORIZATION", f"Bearer {PLACEHOLDER}"),
        ("Host", "evil.example"),
        ("Connection", "upgrade"),
        ("Transfer-Encoding", "chunked"),
        ("Content-Length", "3"),
        ("Proxy-Authorization", "Basic x"),
        ("X-Forwarded-Host", "evil.example"),
        ("X-Original-URL", "/admin"),
        ("Content-Type", "application/json"),
    )
    applied = RULES.apply(asked)
    assert isinstance(applied, tuple)
    assert applied[0].headers == [("Content-Type", "application/json"), ("Authorization", f"Bearer {KEY}")]


def test_the_key_of_one_server_does_not_go_to_another() -> None:
    applied = RULES.apply(call("https://modelle.xn--mnchen-3ya.example/api/x", ("X-Own", "1")))
    assert isinstance(applied, tuple)
    assert applied[0].headers == [("X-Own", "1")]


def test_of_two_servers_at_one_address_the_one_that_is_meant_is_opened() -> None:
    url = "http://gpu:9000/v1"
    rules = CallRules(
        [ModelServer(url, "Authorization", "Bearer ", "one"), ModelServer(url, "X-Auth", "", "two")]
    )
    for header, value in (("Authorization", "Bearer one"), ("X-Auth", "two")):
        applied = rules.apply(call(f"{url}/caption", (header, PLACEHOLDER)))
        assert isinstance(applied, tuple)
        assert applied[0].headers == [(header, value)]


@pytest.mark.parametrize(
    "header", [("X-A", "b\r\nX-C: d"), ("X A", "b"), ("X-A\r\n", "b"), ("X-A", "ü"), ("", "b")]
)
def test_a_header_that_cannot_be_sent_is_forbidden(header: tuple[str, str]) -> None:
    applied = RULES.apply(call("https://api.example.com/v1", header))
    assert isinstance(applied, CallFailed)
    assert applied.kind == "forbidden"


@pytest.mark.parametrize(
    "outcome",
    [
        Reply(401, [("X-Upload-URL", f"https://h/?key={KEY}")], f'{{"error": "bad {KEY}"}}'.encode(), 0),
        CallFailed("transport", f"illegal header {KEY}"),
    ],
    ids=["reply", "failure"],
)
def test_a_key_that_a_server_repeats_is_hidden(outcome: Outcome) -> None:
    hidden = repr(hide_key(outcome, KEY))
    assert KEY not in hidden
    assert PLACEHOLDER in hidden


def test_a_key_that_is_a_word_does_not_garble_answers() -> None:
    reply = Reply(200, [], b'{"text": "none of it"}', 0)
    assert hide_key(reply, "none") == reply

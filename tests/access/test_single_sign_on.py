"""A provider that is hostile or broken: tokens that others made, answers without an end, addresses of others."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OKPKey, RSAKey
from pydantic import ValidationError

from mediamill.access import single_sign_on
from mediamill.access.identities import scopes_for
from mediamill.access.model import Scope
from mediamill.access.single_sign_on import (
    ANSWER_BYTES,
    LoginRefusedError,
    ProviderError,
    SingleSignOn,
)
from mediamill.settings import Settings
from tests.access.sign_on import config_of

KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"})
OTHER = RSAKey.generate_key(2048, {"kid": "one"})
REDIRECT = "https://mill.example/login/oidc/callback"

Answers = dict[str, bytes]


@asynccontextmanager
async def provider(
    change: Callable[[str, Answers], None] = lambda _issuer, _answers: None,
    seen: list[tuple[str, bytes, bytes]] | None = None,
) -> AsyncIterator[str]:
    """Answers what it is told to, by path; what it was never told is a redirect to itself.

    `seen` gets each request: its path, its head and its body.
    """
    answers: Answers = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        path = head.split(b" ")[1].decode()
        length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
        sent = await reader.readexactly(int(length[1])) if length else b""
        if seen is not None:
            seen.append((path, head, sent))
        body = answers.get(path)
        if body is None:
            writer.write(b"HTTP/1.1 302 Found\r\nLocation: /keys\r\nContent-Length: 0\r\n\r\n")
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    answers["/.well-known/openid-configuration"] = json.dumps(
        {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/auth",
            "token_endpoint": f"{issuer}/token",
            "jwks_uri": f"{issuer}/keys",
        }
    ).encode()
    odd_ones = [
        {"kty": "unheard of"},
        {"kty": "RSA"},
        KEY.as_dict(private=False) | {"use": "enc", "kid": "two"},
    ]
    answers["/keys"] = json.dumps({"keys": [*odd_ones, KEY.as_dict(private=False)]}).encode()
    change(issuer, answers)
    async with server:
        yield issuer


def claims_of(issuer: str, nonce: str, **more: Any) -> dict[str, Any]:
    now = int(time.time())
    return {"iss": issuer, "aud": "mill", "sub": "7", "nonce": nonce, "iat": now, "exp": now + 60, **more}


async def finish(issuer: str, make: Callable[[str], str]) -> dict[str, Any]:
    """Log in with the token that `make` makes for a nonce."""
    sign_on = SingleSignOn(config_of(issuer))
    _, data = await sign_on.begin(REDIRECT)
    found = await sign_on.discover()
    return await sign_on._verify(found, make(data["nonce"]), data["nonce"])


async def test_a_good_token_names_its_subject_whatever_other_keys_are_listed() -> None:
    async with provider() as issuer:
        claims = await finish(
            issuer, lambda nonce: jwt.encode({"alg": "RS256", "kid": "one"}, claims_of(issuer, nonce), KEY)
        )
        assert claims["sub"] == "7"


@pytest.mark.parametrize(
    "more",
    [
        {"iss": "https://elsewhere.example"},
        {"aud": "another"},
        {"aud": ["mill", "another"]},
        {"azp": "another"},
        {"nonce": "another"},
        {"nonce": None},
        {"exp": 1},
        {"exp": "tomorrow"},
        {"iat": 9_999_999_999},
        {"sub": ""},
        {"sub": "x" * 300},
        {"sub": 7},
    ],
    ids=str,
)
async def test_a_token_with_a_wrong_claim_is_refused(more: dict[str, Any]) -> None:
    async with provider() as issuer:
        with pytest.raises(LoginRefusedError):
            await finish(
                issuer,
                lambda nonce: jwt.encode(
                    {"alg": "RS256", "kid": "one"}, claims_of(issuer, nonce) | more, KEY
                ),
            )


def by_hand(header: Any, claims: dict[str, Any], secret: bytes = b"") -> str:
    """A token whose header a library would not write, with a signature by a shared secret."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signature = hmac.new(secret, b".".join(parts), hashlib.sha256).digest() if secret else b""
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


FORGERIES: dict[str, Callable[[dict[str, Any]], str]] = {
    "another key": lambda claims: jwt.encode({"alg": "RS256", "kid": "one"}, claims, OTHER),
    "an unknown key": lambda claims: jwt.encode({"alg": "RS256", "kid": "new"}, claims, OTHER),
    "its own key": lambda claims: jwt.encode(
        {"alg": "RS256", "jwk": OTHER.as_dict(private=False)}, claims, OTHER
    ),
    "our public key as a secret": lambda claims: by_hand(
        {"alg": "HS256", "kid": "one"}, claims, KEY.as_pem(private=False)
    ),
    "no signature": lambda claims: by_hand({"alg": "none"}, claims),
    "odd header": lambda claims: by_hand({"alg": ["RS256"], "kid": {"a": 1}}, claims),
    "no header": lambda claims: by_hand([7], claims),
    "no token": lambda _claims: "a.b.c",
    "a long text": lambda _claims: "x" * 100_000,
}


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_a_token_that_others_made_is_refused(forgery: str) -> None:
    async with provider() as issuer:
        with pytest.raises(LoginRefusedError):
            await finish(issuer, lambda nonce: FORGERIES[forgery](claims_of(issuer, nonce)))


@pytest.mark.parametrize("issuer", ["http://id.example", "http://10.0.0.1/realm"])
def test_a_provider_beyond_this_machine_has_an_https_address(issuer: str) -> None:
    with pytest.raises(ValidationError, match="must be an https address"):
        Settings(oidc_issuer=issuer)


def _endless(_issuer: str, answers: Answers) -> None:
    answers["/.well-known/openid-configuration"] = b"{" + b" " * (ANSWER_BYTES + 1)


def _redirected(_issuer: str, answers: Answers) -> None:
    del answers["/.well-known/openid-configuration"]


def _no_json(_issuer: str, answers: Answers) -> None:
    answers["/.well-known/openid-configuration"] = b"<html>"


def _other_issuer(issuer: str, answers: Answers) -> None:
    path = "/.well-known/openid-configuration"
    answers[path] = answers[path].replace(f'"{issuer}"'.encode(), b'"https://elsewhere.example"')


def _other_scheme(issuer: str, answers: Answers) -> None:
    path = "/.well-known/openid-configuration"
    answers[path] = answers[path].replace(f"{issuer}/token".encode(), b"file:///etc/passwd")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_endless, "more than"),
        (_redirected, r"127.0.0.1:\d+/.well-known/openid-configuration answered 302"),
        (_no_json, "not what it should be"),
        (_other_issuer, "calls itself"),
        (_other_scheme, "without https"),
    ],
)
async def test_a_provider_whose_description_is_not_right_is_not_used(
    change: Callable[[str, Answers], None], said: str
) -> None:
    async with provider(change) as issuer:
        with pytest.raises(ProviderError, match=said):
            await SingleSignOn(config_of(issuer)).begin(REDIRECT)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({"groups": ["Owners"]}, [Scope.ADMIN]),
        ({"groups": ["owners"]}, []),
        ({"groups": "Owners"}, []),
        ({"groups": [7, {"a": 1}, "family"]}, [Scope.READ, Scope.INGEST]),
        ({"groups": ["family", "Owners"]}, [Scope.ADMIN]),
        ({"groups": ["ann@home.example"]}, [Scope.READ, Scope.INGEST]),
        ({"email": "ANN@home.example", "email_verified": True}, [Scope.READ, Scope.INGEST]),
        ({"email": "ann@home.example"}, []),
        ({"email": "ann@home.example", "email_verified": "true"}, []),
        ({"email": "family", "email_verified": True}, []),
        ({}, []),
    ],
    ids=str,
)
def test_what_somebody_may_do_comes_from_the_lists_alone(
    claims: dict[str, Any], expected: list[Scope]
) -> None:
    config = config_of("https://id.example", oidc_admins="Owners", oidc_users="family, Ann@home.example")
    assert scopes_for(config, claims) == expected


DISCOVERY = "/.well-known/openid-configuration"


def described(**more: Any) -> Callable[[str, Answers], None]:
    """The provider says this of itself, too."""

    def change(_issuer: str, answers: Answers) -> None:
        answers[DISCOVERY] = json.dumps(json.loads(answers[DISCOVERY]) | more).encode()

    return change


def signed(claims: dict[str, Any], key: RSAKey = KEY, kid: str = "one") -> str:
    return jwt.encode({"alg": "RS256", "kid": kid}, claims, key)


async def test_the_browser_is_sent_to_the_provider_with_all_that_the_answer_is_checked_by() -> None:
    async with provider() as issuer:
        url, data = await SingleSignOn(config_of(issuer)).begin(REDIRECT)
    query = dict(parse_qsl(urlsplit(url).query))
    assert url.startswith(f"{issuer}/auth?")
    challenge = base64.urlsafe_b64encode(hashlib.sha256(data["verifier"].encode()).digest()).decode()
    assert query == {
        "response_type": "code",
        "client_id": "mill",
        "redirect_uri": REDIRECT,
        "scope": config_of(issuer).scopes,
        "state": data["state"],
        "nonce": data["nonce"],
        "code_challenge": challenge.rstrip("="),
        "code_challenge_method": "S256",
    }


async def test_a_provider_whose_address_has_a_query_keeps_it() -> None:
    change = described(authorization_endpoint="https://id.example/auth?tenant=7")
    async with provider(change) as issuer:  # and https is fine, although the issuer of this test has none
        url, _ = await SingleSignOn(config_of(issuer)).begin(REDIRECT)
    assert url.startswith("https://id.example/auth?tenant=7&response_type=code&")


async def test_what_the_provider_says_of_itself_is_asked_for_once_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, bytes, bytes]] = []
    async with provider(seen=seen) as issuer:
        sign_on = SingleSignOn(config_of(issuer))
        for later in (0.0, 3590.0, 3610.0):
            now = time.monotonic() + later
            monkeypatch.setattr(single_sign_on, "time", SimpleNamespace(monotonic=lambda now=now: now))
            await sign_on._key_set(await sign_on.discover())
    assert [path for path, _, _ in seen] == [DISCOVERY, "/keys"] * 2


async def test_a_new_key_of_the_provider_is_fetched_but_not_for_every_forgery(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, bytes, bytes]] = []
    published: Answers = {}
    new = RSAKey.generate_key(2048, {"kid": "new", "use": "sig"})

    def change(_issuer: str, answers: Answers) -> None:
        nonlocal published
        published = answers

    async with provider(change, seen) as issuer:
        sign_on = SingleSignOn(config_of(issuer))
        found = await sign_on.discover()
        token = signed(claims_of(issuer, "n"), new, "new")
        for _ in range(2):
            with pytest.raises(LoginRefusedError, match="not valid"):
                await sign_on._verify(found, token, "n")
        assert [path for path, _, _ in seen].count("/keys") == 1
        published["/keys"] = json.dumps({"keys": [new.as_dict(private=False)]}).encode()
        assert sign_on._keys is not None
        now = sign_on._keys[0] + single_sign_on.REFRESH_SECONDS
        monkeypatch.setattr(single_sign_on, "time", SimpleNamespace(monotonic=lambda: now))
        assert (await sign_on._verify(found, token, "n"))["sub"] == "7"


@pytest.mark.parametrize(
    ("methods", "secret", "basic", "in_form"),
    [
        (None, None, None, {"client_id": "mill"}),
        (None, "a secret&more", b"mill:a+secret%26more", {}),
        (["client_secret_post"], "s", None, {"client_id": "mill", "client_secret": "s"}),
    ],
)
async def test_a_code_is_exchanged_in_the_way_that_the_provider_supports(
    methods: list[str] | None, secret: str | None, basic: bytes | None, in_form: dict[str, str]
) -> None:
    def change(issuer: str, answers: Answers) -> None:
        if methods is not None:
            described(token_endpoint_auth_methods_supported=methods)(issuer, answers)
        answers["/token"] = b'{"id_token": "i", "access_token": "a"}'

    seen: list[tuple[str, bytes, bytes]] = []
    async with provider(change, seen) as issuer:
        sign_on = SingleSignOn(config_of(issuer, **({"oidc_client_secret": secret} if secret else {})))
        tokens = await sign_on._exchange(await sign_on.discover(), "the code", "the verifier", REDIRECT)
    assert (tokens.id_token, tokens.access_token) == ("i", "a")
    _, head, body = seen[-1]
    assert head.startswith(b"POST /token ")
    expected = {"grant_type": "authorization_code", "code": "the code", "redirect_uri": REDIRECT}
    assert dict(parse_qsl(body.decode())) == expected | {"code_verifier": "the verifier"} | in_form
    given = re.search(rb"\nauthorization: basic (\S+)", head, re.IGNORECASE)
    assert (base64.b64decode(given[1]) if given else None) == basic


@pytest.mark.parametrize(
    ("promised", "answer", "said"),
    [
        (False, {"state": "another", "code": "c"}, "another login"),
        (False, {"code": "c"}, "another login"),
        (False, {"state": "s", "code": "c", "iss": "https://elsewhere.example"}, "another provider"),
        (True, {"state": "s", "code": "c"}, "another provider"),
        (False, {"state": "s", "error": "access_denied"}, r"refused the login \(access_denied\)$"),
        (False, {"state": "s", "error": "<script>"}, "refused the login$"),
        (True, {"state": "s", "iss": "ours"}, "refused the login$"),
    ],
)
async def test_an_answer_of_another_login_or_provider_is_refused(
    promised: bool, answer: dict[str, str], said: str
) -> None:
    change = described(authorization_response_iss_parameter_supported=True) if promised else described()
    async with provider(change) as issuer:
        if "iss" in answer:
            answer |= {"iss": answer["iss"].replace("ours", issuer)}
        with pytest.raises(LoginRefusedError, match=said):
            await SingleSignOn(config_of(issuer)).finish(answer, {"state": "s"}, REDIRECT)


@pytest.mark.parametrize(
    "more", [{"aud": ["mill"]}, {"aud": ["mill", "b"], "azp": "mill"}, {"sub": "x" * 255}]
)
async def test_a_token_for_several_programs_says_that_it_is_ours(more: dict[str, Any]) -> None:
    async with provider() as issuer:
        found = await finish(issuer, lambda nonce: signed(claims_of(issuer, nonce, **more)))
    assert found["sub"] == more.get("sub", "7")


async def test_what_a_token_leaves_out_is_asked_for_and_must_be_about_the_same_person() -> None:
    def change(issuer: str, answers: Answers) -> None:
        described(userinfo_endpoint=f"{issuer}/me")(issuer, answers)
        answers["/me"] = b'{"sub": "7", "email": "ann@home.example", "groups": ["family"]}'

    seen: list[tuple[str, bytes, bytes]] = []
    async with provider(change, seen) as issuer:
        sign_on = SingleSignOn(config_of(issuer))
        found = await sign_on.discover()
        told = await sign_on._complete(found, {"sub": "7", "groups": ["owners"]}, "a token")
        assert told == {"sub": "7", "email": "ann@home.example", "groups": ["owners"]}
        head = seen[-1][1].lower()
        assert b"\r\nauthorization: bearer a token\r\n" in head
        assert b"\r\naccept: application/json\r\n" in head
        assert b"\r\naccept-encoding: identity\r\n" in head
        with pytest.raises(LoginRefusedError, match="different people"):
            await sign_on._complete(found, {"sub": "8"}, "a token")
        asked = len(seen)
        whole = {"sub": "7", "email": "e", sign_on.config.name_claim: "n", sign_on.config.groups_claim: []}
        assert await sign_on._complete(found, whole, "a token") == whole
        assert len(seen) == asked


@pytest.mark.parametrize("missing", ["iss", "aud", "sub", "exp", "iat", "nonce"])
async def test_a_token_without_a_claim_is_refused(missing: str) -> None:
    async with provider() as issuer:

        def make(nonce: str) -> str:
            return signed(
                {name: value for name, value in claims_of(issuer, nonce).items() if name != missing}
            )

        with pytest.raises(LoginRefusedError, match="not valid"):
            await finish(issuer, make)


CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "Ed25519": "Ed25519", "EdDSA": "Ed25519"}


@pytest.mark.parametrize("algorithm", [*("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), *CURVES])
async def test_every_usual_signature_with_a_key_pair_is_known(algorithm: str) -> None:
    kind = OKPKey if CURVES.get(algorithm) == "Ed25519" else ECKey
    key = kind.generate_key(CURVES[algorithm], {"kid": "one"}) if algorithm in CURVES else KEY  # type: ignore[arg-type]

    def change(_issuer: str, answers: Answers) -> None:
        answers["/keys"] = json.dumps({"keys": [key.as_dict(private=False)]}).encode()

    async with provider(change) as issuer:
        header = {"alg": algorithm, "kid": "one"}
        claims = await finish(
            issuer, lambda nonce: jwt.encode(header, claims_of(issuer, nonce), key, algorithms=[algorithm])
        )
    assert claims["sub"] == "7"

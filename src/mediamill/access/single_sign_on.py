"""Single sign-on by OpenID Connect: the authorization code flow with PKCE, state and nonce, for one provider.

No address comes from a visitor: the issuer is configured, its endpoints are in its own discovery document, redirects
are not followed, and every answer is bounded. joserfc checks signatures and claims; algorithms with a shared secret,
and keys that a token names itself, are not accepted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from mediamill.errors import DeniedError, UnavailableError
from mediamill.settings import Settings
from mediamill.tls import tls_context

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

DISCOVERY = "/.well-known/openid-configuration"
ALGORITHMS = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "Ed25519",
    "EdDSA",
)
KEY_TYPES = ("RSA", "EC", "OKP")
MOST_KEYS = 50
ANSWER_BYTES = 256 * 1024
ANSWER_SECONDS = 15.0
CACHE_SECONDS = 3600.0
REFRESH_SECONDS = (
    60.0  # keys are asked for again this often at most, when a token names one that is not known
)
LEEWAY_SECONDS = 60
SUBJECT_CHARACTERS = 255
T = TypeVar("T")
_ERROR_CODE = re.compile(r"[a-z_]{1,40}")


class LoginRefusedError(DeniedError):
    """Single sign-on did not log you in."""

    code = "single_sign_on_refused"


class ProviderError(UnavailableError):
    """The provider of the single sign-on does not answer as it should."""

    code = "single_sign_on_unavailable"


@dataclass(frozen=True, slots=True)
class SignOnConfig:
    """What the settings say of the provider."""

    issuer: str
    client_id: str
    client_secret: str | None
    label: str
    scopes: str
    name_claim: str
    groups_claim: str
    admins: frozenset[str]
    users: frozenset[str]

    @classmethod
    def of(cls, settings: Settings) -> SignOnConfig | None:
        """None if single sign-on is off."""
        if settings.oidc_issuer is None or settings.oidc_client_id is None:
            return None
        secret = settings.oidc_client_secret
        return cls(
            settings.oidc_issuer,
            settings.oidc_client_id,
            secret.get_secret_value() if secret else None,
            settings.oidc_label,
            settings.oidc_scopes,
            settings.oidc_name_claim,
            settings.oidc_groups_claim,
            _names(settings.oidc_admins),
            _names(settings.oidc_users),
        )


class Discovery(msgspec.Struct):
    """What we need of the provider's description of itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class Tokens(msgspec.Struct):
    """The provider's answer to a code."""

    id_token: str
    access_token: str


class SingleSignOn:
    """One for each server process; what the provider says of itself is remembered for an hour."""

    def __init__(self, config: SignOnConfig) -> None:
        self.config = config
        self._discovery: tuple[float, Discovery] | None = None
        self._keys: tuple[float, KeySet] | None = None

    async def begin(self, redirect_uri: str) -> tuple[str, dict[str, str]]:
        """Where the browser goes, and what must be remembered until it comes back."""
        found = await self.discover()
        data = {name: secrets.token_urlsafe(32) for name in ("state", "nonce", "verifier")}
        challenge = hashlib.sha256(data["verifier"].encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.config.client_id,
            "redirect_uri": redirect_uri,
            "scope": self.config.scopes,
            "state": data["state"],
            "nonce": data["nonce"],
            "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(found.authorization_endpoint).query else "?"
        return f"{found.authorization_endpoint}{joint}{urlencode(query)}", data

    async def finish(
        self, answer: Mapping[str, str], data: Mapping[str, str], redirect_uri: str
    ) -> dict[str, Any]:
        """Who came back, as the provider vouches for them."""
        if not hmac.compare_digest(answer.get("state", "").encode(), data["state"].encode()):
            raise LoginRefusedError("this answer belongs to another login", fix="log in again")
        found = await self.discover()
        said = answer.get("iss")
        if said != found.issuer and (said or found.authorization_response_iss_parameter_supported):
            raise LoginRefusedError("this answer is of another provider", fix="log in again")
        if "code" not in answer:
            error = answer.get("error", "")
            known = f" ({error})" if _ERROR_CODE.fullmatch(error) else ""
            raise LoginRefusedError(f"the provider refused the login{known}", fix="log in again")
        tokens = await self._exchange(found, answer["code"], data["verifier"], redirect_uri)
        claims = await self._verify(found, tokens.id_token, data["nonce"])
        return await self._complete(found, claims, tokens.access_token)

    async def discover(self) -> Discovery:
        """The provider's description of itself; it must be of the issuer that was configured."""
        if self._discovery is not None and time.monotonic() - self._discovery[0] < CACHE_SECONDS:
            return self._discovery[1]
        issuer = self.config.issuer
        body = await _fetch("GET", issuer.rstrip("/") + DISCOVERY)
        found = _decode(body, Discovery)
        if found.issuer != issuer:
            raise ProviderError(
                f"the provider calls itself {found.issuer[:200]!r}, not {issuer!r}",
                fix="set MEDIAMILL_OIDC_ISSUER to exactly what the provider calls itself",
            )
        endpoints = (
            found.authorization_endpoint,
            found.token_endpoint,
            found.jwks_uri,
            found.userinfo_endpoint,
        )
        for url in filter(None, endpoints):
            if urlsplit(url).scheme not in ("https", urlsplit(issuer).scheme):
                raise ProviderError(f"the provider names an address without https: {url[:200]!r}")
        self._discovery = (time.monotonic(), found)
        return found

    async def _exchange(self, found: Discovery, code: str, verifier: str, redirect_uri: str) -> Tokens:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        headers, config = {}, self.config
        if config.client_secret and "client_secret_basic" in found.token_endpoint_auth_methods_supported:
            pair = urlencode({config.client_id: config.client_secret}).replace("=", ":", 1)
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        else:
            form["client_id"] = config.client_id
            if config.client_secret:
                form["client_secret"] = config.client_secret
        return _decode(await _fetch("POST", found.token_endpoint, headers, form), Tokens)

    async def _verify(self, found: Discovery, token: str, nonce: str) -> dict[str, Any]:
        """Signature, issuer, audience, time and nonce of the ID token."""
        from joserfc import jwt
        from joserfc.errors import InvalidKeyIdError, JoseError

        try:
            try:
                claims = jwt.decode(token, await self._key_set(found), list(ALGORITHMS)).claims
            except InvalidKeyIdError:  # the provider may have taken a new key
                claims = jwt.decode(
                    token, await self._key_set(found, REFRESH_SECONDS), list(ALGORITHMS)
                ).claims
            jwt.JWTClaimsRegistry(
                leeway=LEEWAY_SECONDS,
                iss={"essential": True, "value": found.issuer},
                aud={"essential": True, "value": self.config.client_id},
                sub={"essential": True},
                exp={"essential": True},
                iat={"essential": True},
                nonce={"essential": True, "value": nonce},
            ).validate(claims)
        except (JoseError, ValueError) as error:
            raise LoginRefusedError(
                f"the provider's token is not valid ({error})", fix="log in again"
            ) from error
        others = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
        if claims.get("azp", None if others else self.config.client_id) != self.config.client_id:
            raise LoginRefusedError("the provider's token is for another program", fix="log in again")
        if not 1 <= len(claims["sub"]) <= SUBJECT_CHARACTERS:
            raise LoginRefusedError("the provider's token names nobody")
        return dict(claims)

    async def _key_set(self, found: Discovery, oldest_seconds: float = CACHE_SECONDS) -> KeySet:
        from joserfc.errors import JoseError
        from joserfc.jwk import JWKRegistry, KeySet

        if self._keys is None or time.monotonic() - self._keys[0] >= oldest_seconds:
            listed = _decode(await _fetch("GET", found.jwks_uri), dict[str, list[dict[str, Any]]]).get(
                "keys", []
            )
            keys = []
            for each in listed[:MOST_KEYS]:
                if each.get("kty") in KEY_TYPES and each.get("use", "sig") == "sig":
                    try:
                        keys.append(JWKRegistry.import_key(each))
                    except (JoseError, ValueError):
                        continue  # of a kind that we do not know; others may be good
            self._keys = (time.monotonic(), KeySet(keys))
        return self._keys[1]

    async def _complete(self, found: Discovery, claims: dict[str, Any], access_token: str) -> dict[str, Any]:
        """What the token leaves out is asked for; it must be about the same person."""
        wanted = {self.config.name_claim, self.config.groups_claim, "email"}
        if found.userinfo_endpoint is None or wanted <= claims.keys():
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        more = _decode(await _fetch("GET", found.userinfo_endpoint, headers), dict[str, Any])
        if more.get("sub") != claims["sub"]:
            raise LoginRefusedError("the provider's answers are about different people", fix="log in again")
        return more | claims


async def _fetch(
    method: str, url: str, headers: dict[str, str] | None = None, form: dict[str, str] | None = None
) -> bytes:
    """One bounded answer, uncompressed: a compressed one could be of any length."""
    import httpx

    told = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
    body = bytearray()
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            httpx.AsyncClient(follow_redirects=False, timeout=ANSWER_SECONDS, verify=tls_context()) as client,
            client.stream(method, url, headers=told, data=form) as answer,
        ):
            if answer.status_code != 200:
                raise ProviderError(
                    f"{_place(url)} answered {answer.status_code}", fix="the server's log says more"
                )
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > ANSWER_BYTES:
                    raise ProviderError(f"{_place(url)} sent more than {ANSWER_BYTES} bytes")
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
        what = str(error) or type(error).__name__
        raise ProviderError(f"{_place(url)} does not answer: {what}", fix="try again") from error
    return bytes(body)


def _decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise ProviderError(f"the provider's answer is not what it should be: {error}") from error


def _place(url: str) -> str:
    return f"{urlsplit(url).netloc}{urlsplit(url).path}"[:200]


def _names(listed: str) -> frozenset[str]:
    return frozenset(filter(None, (part.strip() for part in listed.split(","))))

"""What a remote worker says to its server, and what an answer that is none means: away, refused, too late, or wrong."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from mediamill import __version__, traces
from mediamill.errors import ClaimLostError, GiveUpError, InvalidError, NotNowError, RetryLaterError
from mediamill.silence import SOCKET_OPTIONS
from mediamill.staging.inputs import RootAwayError, StoredAwayError
from mediamill.worker.away import AwayError, RefusedError

ANSWER_SECONDS = 30.0
CONNECT_SECONDS = 10.0
BUSY = frozenset({408, 425, 429, 502, 503, 504})


class BadServerUrlError(InvalidError):
    """The address of the server is not valid."""

    code = "bad_server_url"


class WordRefusedError(GiveUpError):
    """The server refuses what it was told; telling it again cannot help."""

    def __init__(self, code: str, message: str, fix: str | None = None) -> None:
        super().__init__(message, fix=fix)
        self.code = code


class ServerFailedError(RetryLaterError):
    """The server could not do what it was asked to; it may later."""

    code = "server_failed"


def check_url(url: str) -> str:
    """The address without the slash at its end, if it can be one."""
    try:
        given = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise BadServerUrlError(f"{url!r} is no address: {error}", fix="write http://host:8420") from error
    if given.scheme not in ("http", "https") or not given.host:
        raise BadServerUrlError(
            f"{url!r} is no address of a server", fix="write http://host:8420 or https://host"
        )
    return url.rstrip("/")


class ServerLink:
    """One client for everything a worker says; `refused` is told when the server does not want it any more."""

    def __init__(
        self, url: str, key: str, *, refused: Callable[[RefusedError], None] = lambda _: None
    ) -> None:
        self.url = check_url(url)
        self.refused = refused
        headers = {"User-Agent": f"mediamill-worker/{__version__}"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if not key.isascii() or not key.isprintable():
            raise InvalidError(
                "a worker key has plain letters, digits and signs", fix="copy it again, without line ends"
            )
        self._http = httpx.AsyncClient(
            base_url=self.url,
            headers=headers,
            timeout=httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS),
            transport=httpx.AsyncHTTPTransport(
                limits=httpx.Limits(max_connections=100, max_keepalive_connections=20),
                verify=ssl.create_default_context(),
                trust_env=False,
                socket_options=SOCKET_OPTIONS,
            ),
            trust_env=False,
        )

    def speak_as(self, instance: str) -> None:
        """Greeted: every later word says which process it comes from."""
        self._http.headers["X-Worker-Instance"] = instance

    async def close(self) -> None:
        """Hang up."""
        await self._http.aclose()

    async def ask(self, method: str, path: str, *, patient: bool = True, **more: Any) -> dict[str, Any]:
        """The answer. AwayError: not now; ClaimLostError: too late; WordRefusedError: never.

        `patient`: a fault of the server's is taken for its being away.
        """
        if (trace := traces.traceparent()) is not None:
            more["headers"] = {**more.get("headers", {}), "traceparent": trace}
        try:
            answer = await self._http.request(method, path, **more)
        except (httpx.HTTPError, OSError) as error:
            raise self._lost(error) from error
        return self._read(answer, patient)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        read_seconds: float,
        allow: Collection[int] = (),
        **params: Any,
    ) -> AsyncIterator[httpx.Response]:
        """An answer that is read as it comes; what is no success, nor allowed, is raised as by `ask`."""
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, read=read_seconds)
        if (trace := traces.traceparent()) is not None:
            headers = {**(headers or {}), "traceparent": trace}
        try:
            async with self._http.stream(
                "GET", path, headers=headers, params=params, timeout=timeout
            ) as answer:
                if not answer.is_success and answer.status_code not in allow:
                    await answer.aread()
                    self._read(answer, True)
                yield answer
        except httpx.HTTPError as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> AwayError:
        """Why nothing came; a certificate that is not trusted does not become so by waiting."""
        for each in _chain(error):
            if isinstance(each, ssl.SSLCertVerificationError):
                return self._refuse(
                    RefusedError(
                        f"the certificate of {self.url} is not trusted: {each.verify_message}",
                        fix="let SSL_CERT_FILE name the file of the authority that signed it",
                    )
                )
            if isinstance(each, ssl.SSLError):
                return self._refuse(
                    RefusedError(
                        f"{self.url} does not speak TLS: {each.reason or each}",
                        fix="write http:// if it has none",
                    )
                )
        return AwayError(f"{self.url} does not answer: {str(error) or type(error).__name__}")

    def _refuse(self, error: RefusedError) -> RefusedError:
        self.refused(error)
        return error

    def _read(self, answer: httpx.Response, patient: bool) -> dict[str, Any]:
        status, body = answer.status_code, _json(answer)
        if answer.is_success and (body is not None or status == 204):
            return body or {}
        if body is None or not isinstance(body.get("code"), str):
            if status in BUSY:
                raise AwayError(f"{self.url} answers {status}")
            raise NotMediamillError(
                f"what answers at {self.url} ({status}) is not a mediamill",
                fix="check the address; it is the one that `mediamill up` names",
            )
        code, message, fix = body["code"], str(body.get("detail")), body.get("fix")
        if status in (401, 403):
            raise self._refuse(_refusal(code, message, fix))
        if code == ClaimLostError.code:
            raise ClaimLostError(message)
        if code == RootAwayError.code:  # the server is there, a folder of its is not
            raise NotNowError(message, fix=fix)
        if code == StoredAwayError.code:
            raise StoredAwayError(message, fix=fix)
        if status in BUSY or (status >= 500 and patient):
            raise AwayError(f"{self.url}: {message}")
        if status >= 500:
            raise ServerFailedError(message, fix=fix)
        raise WordRefusedError(code, message, fix)


class NotMediamillError(AwayError):
    """Something else answers at the address of the server (a proxy, perhaps, while the server restarts)."""

    code = "not_mediamill"


def _refusal(code: str, message: str, fix: str | None) -> RefusedError:
    error = RefusedError(message, fix=fix)
    error.code = code
    return error


def _json(answer: httpx.Response) -> dict[str, Any] | None:
    try:
        body = answer.json()
    except ValueError:
        return None
    return body if isinstance(body, dict) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    each: BaseException | None = error
    while each is not None:
        yield each
        each = each.__cause__ or each.__context__

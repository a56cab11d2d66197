"""A thin client of the Bot API. Every answer is bounded in size and time; the token is in no message, log or error.

| Telegram says | we |
|---|---|
| 429 with retry_after | wait that long, for this method only, and ask again; if that is too long, TelegramAwayError |
| nothing, half an answer, nonsense, 5xx | TelegramAwayError: later |
| 401, 404 | TokenRefusedError |
| 409 | ConflictToldError: somebody else takes this bot's updates |
| any other error | TelegramRefusedError: never |
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

from mediamill.conversations.provider import NotConnectedError
from mediamill.errors import GiveUpError
from mediamill.tls import tls_context

ANSWER_BYTES = 16 * 1024**2  # a hundred of the longest updates have less
CALL_SECONDS = 30.0
CONNECT_SECONDS = 10.0
IDLE_SECONDS = 30.0
FILE_SECONDS = 1_800.0
LONGEST_PAUSE_SECONDS = 60.0
TRIES = 4
_TOKEN = re.compile(r"bot[0-9]+:[A-Za-z0-9_-]+")
_FILE_PATH = re.compile(r"[A-Za-z0-9_./-]{1,500}")


class TelegramAwayError(NotConnectedError):
    """Telegram cannot be reached now. `may_be_done`: it may have done what it was asked for, and we were not told."""

    code = "telegram_away"

    def __init__(
        self,
        message: str,
        *,
        may_be_done: bool = False,
        reached: bool = True,
        after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.may_be_done, self.reached, self.after_seconds = may_be_done, reached, after_seconds


class TokenRefusedError(NotConnectedError):
    """Telegram refuses the token."""

    code = "token_refused"

    def __init__(self) -> None:
        super().__init__(
            fix="ask @BotFather for the token; mediamill bots set NAME providers.telegram.token=…"
        )


class ConflictToldError(NotConnectedError):
    """Another program takes this bot's updates."""

    code = "telegram_conflict"


class TelegramRefusedError(GiveUpError):
    """Telegram refuses what it was asked for."""

    code = "telegram_refused"


class _HideToken(logging.Filter):
    """The libraries below us log addresses, and ours have the token in them."""

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        if _TOKEN.search(said):
            record.msg, record.args = _TOKEN.sub("bot…", said), ()
        return True


for _name in ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy"):
    logging.getLogger(_name).addFilter(_HideToken())


class BotApi:
    """Of one bot. Telegram's limits are each method's own: a send that must wait holds up no poll."""

    def __init__(self, url: str, token: str) -> None:
        self._url, self._token = url.rstrip("/"), token
        timeout = httpx.Timeout(IDLE_SECONDS, connect=CONNECT_SECONDS, pool=None)
        limits = httpx.Limits(max_connections=50, max_keepalive_connections=10)
        plain = {"Accept-Encoding": "identity"}  # so that the bytes that are counted are all that come
        self._client = httpx.AsyncClient(
            headers=plain, timeout=timeout, limits=limits, follow_redirects=False, verify=tls_context()
        )
        self._quiet_until: dict[str, float] = {}

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def call(self, method: str, *, seconds: float = CALL_SECONDS, **parameters: Any) -> Any:
        """The result."""
        given = {name: value for name, value in parameters.items() if value is not None}
        for attempt in range(1, TRIES + 1):
            await self._wait_for_turn(method)
            try:
                return await self._ask(method, given, seconds)
            except TelegramAwayError as error:
                if error.after_seconds is None:
                    raise
                self._quiet_until[method] = asyncio.get_running_loop().time() + error.after_seconds
                if attempt == TRIES or error.after_seconds > LONGEST_PAUSE_SECONDS:
                    raise
        raise AssertionError

    async def _wait_for_turn(self, method: str) -> None:
        left = self._quiet_until.get(method, 0.0) - asyncio.get_running_loop().time()
        if left > LONGEST_PAUSE_SECONDS:
            raise TelegramAwayError(f"Telegram asked for {left:.0f} more seconds of quiet")
        if left > 0:
            await asyncio.sleep(left)

    async def _ask(self, method: str, parameters: Mapping[str, Any], seconds: float) -> Any:
        url = f"{self._url}/bot{self._token}/{method}"
        timeout = httpx.Timeout(seconds, connect=CONNECT_SECONDS, pool=None)
        async with self._patiently(seconds):
            request = self._client.build_request("POST", url, json=parameters, timeout=timeout)
            response = await self._client.send(request, stream=True)
            try:
                body = await _read(response)
            finally:
                await response.aclose()
        return self._result(response.status_code, body)

    def _result(self, status: int, body: bytes) -> Any:
        try:
            told = json.loads(body)
        except (ValueError, RecursionError):
            told = None
        if isinstance(told, dict) and told.get("ok") is True and "result" in told:
            return told["result"]
        raise self._failure(status, told if isinstance(told, dict) else {})

    def _failure(self, status: int, told: Mapping[str, Any]) -> Exception:
        code = told.get("error_code")
        status = code if isinstance(code, int) and 400 <= code < 600 else status
        said = self._clean(str(told.get("description") or ""))
        match status:
            case 401 | 404:
                return TokenRefusedError()
            case 409:
                return ConflictToldError(f"Telegram: {said}" if said else None)
            case 429:
                return TelegramAwayError("Telegram: too many requests", after_seconds=_retry_after(told))
            case status if 400 <= status < 500:
                return TelegramRefusedError(f"Telegram refuses it ({status}): {said}")
        return TelegramAwayError(f"Telegram failed ({status}){': ' if said else ''}{said}")

    @asynccontextmanager
    async def open_file(self, file_path: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of a file, as they come. FileGoneError: it is not there any more."""
        if not _FILE_PATH.fullmatch(file_path) or ".." in file_path:
            raise FileGoneError("Telegram names a file that cannot be asked for")
        url = f"{self._url}/file/bot{self._token}/{quote(file_path)}"
        async with self._patiently(FILE_SECONDS):
            response = await self._client.send(self._client.build_request("GET", url), stream=True)
            try:
                if response.status_code in (400, 401, 403, 404, 410):
                    raise FileGoneError
                if response.status_code != 200:
                    raise TelegramAwayError(f"Telegram failed ({response.status_code})")
                yield response.aiter_raw(64 * 1024)
            finally:
                await response.aclose()

    @asynccontextmanager
    async def _patiently(self, seconds: float) -> AsyncIterator[None]:
        """What goes wrong on the way, without the address."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
            what = self._clean(str(error)) or type(error).__name__
            raise TelegramAwayError(f"Telegram cannot be reached: {what}", reached=False) from None
        except (TimeoutError, httpx.TimeoutException):
            raise TelegramAwayError("Telegram does not answer in time", may_be_done=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            what = self._clean(str(error)) or type(error).__name__
            raise TelegramAwayError(f"the connection to Telegram failed: {what}", may_be_done=True) from None

    def _clean(self, text: str) -> str:
        """Short, on one line, without the token."""
        return _TOKEN.sub("bot…", " ".join(text.split()).replace(self._token, "…"))[:300]


class FileGoneError(GiveUpError):
    """Telegram does not have the file any more."""

    code = "telegram_file_gone"


async def _read(response: httpx.Response) -> bytes:
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise TelegramAwayError(f"Telegram's answer has more than {ANSWER_BYTES} bytes", may_be_done=True)
    return bytes(body)


def _retry_after(told: Mapping[str, Any]) -> float:
    parameters = told.get("parameters")
    asked = parameters.get("retry_after") if isinstance(parameters, dict) else None
    return min(max(float(asked), 0.0), 1e6) if isinstance(asked, int | float) else 1.0

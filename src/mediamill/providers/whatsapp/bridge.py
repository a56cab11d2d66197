"""Bridge: the way to the one bridge of this server. Its process runs while a bot uses it, unless another runs it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import httpx

from mediamill.conversations.provider import NotConnectedError
from mediamill.errors import MediamillError
from mediamill.providers.whatsapp.process import BridgeProcess
from mediamill.providers.whatsapp.secret import bridge_secret
from mediamill.settings import Settings
from mediamill.tls import tls_context

log = logging.getLogger(__name__)

CALL_SECONDS = 30.0
LATER = frozenset({401, 403, 408, 425, 429})  # the bridge may be of another time, or overloaded; it passes


class BridgeRefusedError(MediamillError):
    """The bridge refused what it was asked for."""

    code = "bridge_refused"

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        self.reason = str(answer.get("code", ""))[:100]
        super().__init__(f"{str(answer.get('detail') or self.reason)[:500]} ({status})")
        self.is_unknown_bot = status == 404


class BridgeUser(Protocol):
    """A bot on WhatsApp."""

    def bridge_is_up(self) -> None:
        """It was started, perhaps again: it knows nothing of the bot."""

    def bridge_says(self, status: Mapping[str, Any]) -> None:
        """What there is to tell while there is no bridge."""


class Bridge:
    """One per server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._url = settings.bridge_url
        self._users: set[BridgeUser] = set()
        self._last_word: Mapping[str, Any] | None = None
        self._running: asyncio.Task[None] | None = None
        self._client: httpx.AsyncClient | None = None

    @property
    def data_folder(self) -> Path:
        """Where the bridge stages files."""
        return self._settings.data_folder

    def enter(self, user: BridgeUser) -> None:
        """A bot needs the bridge: the first one has it started."""
        self._users.add(user)
        if self._settings.bridge_url is None and self._running is None:
            process = BridgeProcess(self._settings, self._is_up, self._tell)
            self._running = asyncio.create_task(process.run(), name="WhatsApp bridge")
        elif self._last_word is not None:
            user.bridge_says(self._last_word)

    async def leave(self, user: BridgeUser) -> None:
        """The last one has it stopped."""
        self._users.discard(user)
        if self._users:
            return
        running, self._running = self._running, None
        client, self._client = self._client, None
        self._url, self._last_word = self._settings.bridge_url, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        if client is not None:
            await client.aclose()

    async def call(
        self, route: str, body: Mapping[str, Any], seconds: float = CALL_SECONDS
    ) -> Mapping[str, Any]:
        """Ask the bridge. NotConnectedError: it cannot be reached now; BridgeRefusedError: it says no."""
        if self._url is None:
            raise NotConnectedError("the WhatsApp bridge is not up yet")
        try:
            response = await self._http().post(f"{self._url.rstrip('/')}{route}", json=body, timeout=seconds)
            found = response.json()
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise NotConnectedError(f"the WhatsApp bridge does not answer: {type(error).__name__}") from error
        answer: Mapping[str, Any] = found if isinstance(found, dict) else {}
        if response.status_code >= 500 or response.status_code in LATER:
            raise NotConnectedError(f"WhatsApp cannot be reached: {str(answer.get('detail', ''))[:500]}")
        if response.status_code != 200:
            raise BridgeRefusedError(response.status_code, answer)
        return answer

    def _http(self) -> httpx.AsyncClient:
        if self._client is None:
            headers = {"Authorization": f"Bearer {bridge_secret(self._settings)}"}
            self._client = httpx.AsyncClient(headers=headers, trust_env=False, verify=tls_context())
        return self._client

    def _is_up(self, url: str) -> None:
        self._url, self._last_word = url, None
        for user in self._users:
            user.bridge_is_up()

    def _tell(self, status: Mapping[str, Any]) -> None:
        """There is no bridge now, for this reason."""
        self._url, self._last_word = None, status
        for user in self._users:
            user.bridge_says(status)

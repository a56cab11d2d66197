"""Whether the bucket answers, for those who ask often: asked anew now and then, and never waited for long."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from mediamill.errors import MediamillError
from mediamill.storage.contract import Storage, StoredMissingError
from mediamill.storage.objects import Objects

ASK_SECONDS = 10.0
WAIT_SECONDS = 1.0
NOBODY = "mediamill-pulse"


class Pulse:
    """One per server."""

    def __init__(self, storage: Storage) -> None:
        self._objects: Objects | None = getattr(storage, "objects", None)
        self._asking: asyncio.Task[None] | None = None
        self._asked_at = float("-inf")
        self._state, self._error = "unknown", ""

    async def facts(self) -> dict[str, Any] | None:
        """`state`: ok, away, or unknown while the first answer is waited for; None: there is no bucket."""
        if self._objects is None:
            return None
        if time.monotonic() - self._asked_at > ASK_SECONDS and (self._asking is None or self._asking.done()):
            self._asked_at = time.monotonic()
            self._asking = asyncio.create_task(self._ask(self._objects))
        if self._asking is not None:
            await asyncio.wait({self._asking}, timeout=WAIT_SECONDS)
        told = {"name": self._objects.place.name, "state": self._state}
        return {**told, "error": self._error} if self._error else told

    async def _ask(self, objects: Objects) -> None:
        try:
            await objects.read(NOBODY, 0, 1)
        except StoredMissingError:
            self._state, self._error = "ok", ""
        except MediamillError as error:
            self._state, self._error = "away", error.message

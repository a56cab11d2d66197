"""How many requests this server has answered, how, and how soon: for /metrics."""

from __future__ import annotations

import time
from bisect import bisect_left

from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "other")
STATUSES = ("2xx", "3xx", "4xx", "5xx")
BOUNDS = (0.005, 0.025, 0.1, 0.5, 2.5, 10.0)  # seconds


class Requests:
    """Counts by method and sort of answer, and how long it took until the answer began."""

    def __init__(self) -> None:
        self.counts = {(method, status): 0 for method in METHODS for status in STATUSES}
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0

    def note(self, method: str, status: int, seconds: float) -> None:
        """An answer began."""
        known = method if method in METHODS else "other"
        self.counts[known, f"{min(max(status // 100, 2), 5)}xx"] += 1
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class CountRequests:
    """ASGI middleware, the outermost: refusals and faults count too."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The time is that until the answer begins: a stream or a download may go on for as long as it likes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._requests.note(scope["method"], message["status"], time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, answer)

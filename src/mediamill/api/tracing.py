"""Requests as steps of a trace: named by their route, never by what is in their address."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mediamill import traces

# Asked all the time by probes and idle workers, or open for as long as a page is: not worth a trace.
QUIET = ("/health", "/metrics", "/static", "/live", "/api/events", "/api/worker/wakes")
POLLED = ("/api/worker/claim", "/api/worker/heartbeat", "/api/worker/extend", "/api/worker/pools")


class Tracing:
    """Does nothing as long as nobody traces."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request, below whatever its sender says that it belongs to."""
        if scope["type"] != "http" or not traces.is_on() or scope["path"].startswith((*QUIET, *POLLED)):
            await self._app(scope, receive, send)
            return
        parent = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1") or None
        method = scope["method"] if scope["method"].isalpha() else "_OTHER"
        with traces.span(method, kind="server", parent=parent, http__request__method=method) as span:

            async def answer(message: Message) -> None:
                if message["type"] == "http.response.start":
                    span.note(http__response__status_code=message["status"])
                    if message["status"] >= 500:
                        span.fail(str(message["status"]))
                await send(message)

            try:
                await self._app(scope, receive, answer)
            finally:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    span.rename(f"{method} {route}")
                    span.note(http__route=route)

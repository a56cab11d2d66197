"""What both clients say to httpx, and how its errors are read."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx

from mediamill.client.plans import STREAM, Answer, Ask, Listen, Lost
from mediamill.local_key import DATA_FOLDER, find_local_key, sign_pass

URL = "http://127.0.0.1:8420"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 90.0  # on a stream of events the server says something every 30
LOST = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError)
REFUSED = ("refused", "All connection attempts failed")


class LocalPass(httpx.Auth):
    """Shows a server of this machine that its own user asks: each request has a pass, signed with the server's key."""

    def __init__(self, data_folder: Path | None = None) -> None:
        self._folder = data_folder or Path(os.environ.get("MEDIAMILL_DATA") or DATA_FOLDER).expanduser()

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Without a key that this user may read, the request goes as it is."""
        key = find_local_key(self._folder)
        if key is not None and "Authorization" not in request.headers:
            request.headers["Authorization"] = f"Bearer {sign_pass(key)}"
        yield request


def options(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    """Of a httpx client."""
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {token}"} if token else {},
        "auth": LocalPass() if not token and httpx.URL(url).host in LOOPBACK else None,
        "timeout": httpx.Timeout(timeout, connect=min(CONNECT_SECONDS, timeout)),
        "trust_env": False,  # a proxy that the environment names does not reach this machine's own server
    }


def request_of(ask: Ask) -> dict[str, Any]:
    """A request without its body, but with the body's length."""
    headers = {"Accept": "application/json", **ask.headers}
    if ask.body is not None:
        headers |= {"Content-Type": ask.body.content_type, "Content-Length": str(ask.body.length)}
    return {"method": ask.method, "url": ask.path, "params": dict(ask.params), "headers": headers}


def request_of_stream(listen: Listen) -> dict[str, Any]:
    """A request for events, from where they broke off."""
    headers = {"Accept": STREAM, "Cache-Control": "no-store"}
    if listen.after is not None:
        headers["Last-Event-ID"] = listen.after
    timeout = httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS)
    return {"method": "GET", "url": listen.path, "headers": headers, "timeout": timeout}


def answer_of(response: httpx.Response, body: bytes = b"") -> Answer:
    """What came, as plans know it."""
    return Answer(response.status_code, response.headers, body)


def lost(error: httpx.TransportError) -> Lost:
    """Why nothing came; that nobody listens there needs no reason."""
    reason = str(error) or type(error).__name__
    if not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return Lost(reason)
    return Lost("" if any(word in reason for word in REFUSED) else reason, connected=False)

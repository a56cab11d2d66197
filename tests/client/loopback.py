"""A server on loopback that answers as the API is specified, from memory, and breaks off where a test says so."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import uvicorn

RUN_ID = "00000000-0000-4000-8000-0000000000{:02d}"
CUT = "cut"  # in a stream: the connection breaks
NOBODY: dict[str, Any] = {"cut": True}  # as an answer: the connection breaks before its end


def problem(status: int, code: str, **more: Any) -> dict[str, Any]:
    """A refusal."""
    return {
        "status": status,
        "headers": more.pop("headers", {}),
        "json": {"code": code, "detail": "no", **more},
    }


def event(name: str, data: Any, id: str | None = None) -> str:
    """An event of a stream."""
    head = f"id: {id}\n" if id else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


@dataclass
class Received:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Loopback:
    """What it was asked, and what it shall say."""

    url: str = ""
    answer: list[str] = field(default_factory=lambda: ["Hello"])  # the pieces of every answer
    first: deque[dict[str, Any]] = field(default_factory=deque)  # said instead, one request each
    streams: deque[list[str]] = field(default_factory=deque)  # instead of the usual one
    received: list[Received] = field(default_factory=list)
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    hold: threading.Event = field(
        default_factory=threading.Event
    )  # streams wait for it before their last event

    def asked(self, path: str) -> list[Received]:
        return [each for each in self.received if each.path == path]

    def finished(self, run_id: str, **more: Any) -> str:
        """The last event of a run."""
        self.runs[run_id] |= {"state": "completed", "answer": "".join(self.answer), **more}
        return event(self.runs[run_id]["state"], self.runs[run_id])

    def add_run(self, **facts: Any) -> dict[str, Any]:
        run_id = RUN_ID.format(len(self.runs) + 1)
        self.runs[run_id] = {
            "run_id": run_id,
            "source": "api",
            "thread_key": "t",
            "user_key": None,
            "delivery_mode": "prompt",
            "text": "hi",
            "state": "queued",
            "answer": "",
            "error_code": None,
            "error": None,
            "tries": 0,
            "image_count": 0,
            "image_bytes": 0,
            "images_waiting": 0,
            "created_at": "2030-01-02T03:04:05+00:00",
            "started_at": None,
            "ended_at": None,
            **facts,
        }
        return self.runs[run_id]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while (message := await receive()).get("more_body", False) or message.get("body"):
            body += message["body"]
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        query = parse_qs(scope["query_string"].decode())
        asked = Received(scope["method"], scope["raw_path"].decode(), query, headers, body)
        self.received.append(asked)
        if self.first:
            await _say(send, self.first.popleft())
        elif asked.path.endswith("/events"):
            await self._stream(send, asked.path.split("/")[-2])
        else:
            await _say(send, self._answer(asked))

    def _answer(self, asked: Received) -> dict[str, Any]:
        parts = asked.path.strip("/").split("/")
        match asked.method, *parts:
            case "POST", "v1", "messages":
                return self._take(asked.json)
            case "GET", "v1", "runs", run_id if run_id in self.runs:
                return {"json": self.runs[run_id]}
            case "POST", "v1", "runs", run_id, "retry" if run_id in self.runs:
                self.runs[run_id]["state"] = "queued"
                return {"json": self.runs[run_id]}
            case "GET", "v1", "threads", key, "runs":
                return self._page(unquote(key), asked.query)
        return problem(404, "unknown_run")

    def _take(self, said: dict[str, Any]) -> dict[str, Any]:
        key = said["idempotency_key"]
        known = next((run for run in self.runs.values() if run.get("key") == key), None)
        images = len(said.get("images", []))
        facts = {name: said[name] for name in ("thread_key", "text", "delivery_mode")}
        run = known or self.add_run(**facts, image_count=images, key=key)
        shown = ("run_id", "thread_key", "delivery_mode", "state", "image_count")
        told = {name: run[name] for name in shown}
        return {"status": 202, "json": {**told, "repeated": known is not None, "links": {}}}

    def _page(self, key: str, query: dict[str, list[str]]) -> dict[str, Any]:
        begin, limit = int(query.get("before", ["0"])[0]), int(query["limit"][0])
        mine = [run for run in reversed(self.runs.values()) if run["thread_key"] == key]
        following = str(begin + limit) if len(mine) > begin + limit else None
        return {"json": {"runs": mine[begin : begin + limit], "next": following}}

    async def _stream(self, send: Any, run_id: str) -> None:
        await _begin(send, 200, {"content-type": "text/event-stream; charset=utf-8"})
        async for text in self._events(run_id):
            if text == CUT:
                raise ConnectionError("as the test wants it")
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, run_id: str) -> AsyncIterator[str]:
        if self.streams:
            for text in self.streams.popleft():
                yield text
            return
        yield "retry: 3000\n: connected\n\n"
        yield event("state", {"state": "running", "tries": 1})
        offset = 0
        for piece in self.answer:
            offset += len(piece)
            yield event("text", {"text": piece}, f"1-{offset}")
        while not self.hold.is_set():  # noqa: ASYNC110 - it is set in another thread
            await asyncio.sleep(0.01)
        yield self.finished(run_id)


async def _begin(send: Any, status: int, headers: dict[str, str]) -> None:
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": lines})


async def _say(send: Any, what: dict[str, Any]) -> None:
    body = json.dumps(what["json"]).encode() if "json" in what else what.get("body", b"x")
    length = str(len(body) + (100 if what.get("cut") else 0))
    await _begin(send, what.get("status", 200), {"content-length": length, **what.get("headers", {})})
    if what.get("cut"):
        raise ConnectionError("as the test wants it")
    await send({"type": "http.response.body", "body": body})


@contextmanager
def hold_port() -> Iterator[int]:
    """A port on which nobody listens, and that nobody else is given meanwhile."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextmanager
def serve_loopback(port: int = 0) -> Iterator[Loopback]:
    """Serve in a thread until the end of the block."""
    loopback = Loopback()
    loopback.hold.set()
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    door.bind(("127.0.0.1", port))
    loopback.url = f"http://127.0.0.1:{door.getsockname()[1]}"
    config = uvicorn.Config(loopback, log_config=None, lifespan="off", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    try:
        yield loopback
    finally:
        loopback.hold.set()
        server.should_exit = True
        thread.join(20)
        door.close()

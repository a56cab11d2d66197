"""Live events as Server-Sent Events: ids, `retry`, keep-alive, resumption by Last-Event-ID or `?after=`.

The topic `changed` is special: sent only when asked for, without an id, at most once a second after anything moved.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import StreamingResponse

from mediamill.api.deps import Deps, Wired
from mediamill.api.event_hub import READ_EVENTS, Client, EventHub, read_cursor, read_with_cursors
from mediamill.api.file_answer import sent_as
from mediamill.api.welcome import open_stream, while_welcome
from mediamill.engine.events import Event, EventReader
from mediamill.errors import InvalidError
from mediamill.settings import Settings

router = APIRouter(tags=["events"])

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class CursorInvalidError(InvalidError):
    """The event id to go on from is not one."""

    code = "cursor_invalid"


@router.get(
    "/api/events",
    response_class=StreamingResponse,
    responses=sent_as("text/event-stream", what="Server-Sent Events.", binary=False),
)
async def stream_events(
    request: Request,
    deps: Wired,
    topic: Annotated[list[str] | None, Query()] = None,
    subject: Annotated[list[str] | None, Query()] = None,
    after: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """From now on, or from an event id on."""
    begin = last_event_id or after
    reader = None if begin is None else read_cursor(begin)
    if begin is not None and reader is None:
        raise CursorInvalidError(fix="send the last `id:` that was received, or nothing")
    hub: EventHub = request.app.state.event_hub
    opened = open_stream(request)
    client = await hub.join(ticks="changed" in (topic or ()))
    stream = _Stream(deps, hub, client, reader, frozenset(topic or ()), frozenset(subject or ()))
    return StreamingResponse(
        while_welcome(request, opened, stream.lines()), media_type="text/event-stream", headers=HEADERS
    )


def first_lines(settings: Settings) -> str:
    """What a stream begins with: how long to wait before it is opened again."""
    return f"retry: {round(1000 * settings.stream_retry_seconds)}\n: connected\n\n"


class _Stream:
    """What one client is sent."""

    def __init__(
        self,
        deps: Deps,
        hub: EventHub,
        client: Client,
        reader: EventReader | None,
        topics: frozenset[str],
        subjects: frozenset[str],
    ) -> None:
        self._deps, self._hub, self._client, self._reader = deps, hub, client, reader
        self._topics, self._subjects = topics, subjects

    async def lines(self) -> AsyncGenerator[str, None]:
        """First what was missed, then what comes."""
        try:
            yield first_lines(self._deps.settings)
            async for text in self._missed():
                yield text
            while True:
                try:
                    async with asyncio.timeout(self._deps.settings.stream_keep_alive_seconds):
                        got = await self._client.queue.get()
                except TimeoutError:
                    yield ": keep-alive\n\n"
                    continue
                if got is None:
                    return
                yield self._write(*got)
        finally:
            self._hub.leave(self._client)

    async def _missed(self) -> AsyncIterator[str]:
        """From the given cursor to where this client joined the hub; the rest comes from there."""
        reader, client = self._reader, self._client
        while reader is not None and not client.dropped:
            async with self._deps.database.connection() as connection:
                events = await read_with_cursors(reader, connection)
            mine = [(cursor, event) for cursor, event in events if event.id <= client.joined_after]
            for cursor, event in mine:
                if event.id not in client.joined_gaps:
                    yield self._write(cursor, event)
            if len(events) < READ_EVENTS or len(mine) < len(events):
                return

    def _write(self, cursor: str, event: Event) -> str:
        if self._topics and event.topic not in self._topics:
            return ""
        if self._subjects and event.subject not in self._subjects and event.id:
            return ""
        head = f"id: {cursor}\n" if cursor else ""
        body = json.dumps({"topic": event.topic, "subject": event.subject, "data": event.data})
        return f"{head}event: {_one_line(event.topic)}\ndata: {body}\n\n"


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")

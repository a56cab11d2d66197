"""One bridge's WebSocket for one bot: frames in, answers out. Bad frames are refused and counted; the line goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import Any, Protocol

import asyncpg
from starlette.websockets import WebSocket, WebSocketDisconnect

from mediamill.db.connection import LOST
from mediamill.errors import InvalidError, MediamillError
from mediamill.providers.whatsapp.payload import (
    AskFrame,
    BadFrameError,
    MessageFrame,
    MessagePayload,
    StatusPayload,
    read_frame,
)

log = logging.getLogger(__name__)

AT_ONCE = 64  # twice what a bridge may send without an answer: reading never waits for a well-behaved one
GOING_AWAY = 1001


class Listener(Protocol):
    """Whoever the frames are for: the provider of one bot."""

    bot_id: str

    async def begin_message(self, payload: MessagePayload) -> asyncio.Task[object]:
        """Take a message; it is in the database when the task is done."""

    async def admits(self, payload: MessagePayload) -> bool:
        """May the message come in? Its file is not fetched yet."""

    def hear_status(self, status: StatusPayload) -> None:
        """The bridge says how it is connected."""

    def count_refusal(self) -> None:
        """A bad frame came."""


class BridgeLine:
    """Several messages are on their way into the database at once; each conversation keeps its order."""

    def __init__(self, websocket: WebSocket, bridge_id: str, listener: Listener) -> None:
        self.bridge_id = bridge_id
        self._websocket, self._listener = websocket, listener
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._turn = asyncio.Lock()  # first come, first served
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Until the bridge goes or the line is closed; then whatever was begun is finished."""
        try:
            await self._websocket.accept()
            while (event := await self._websocket.receive())["type"] != "websocket.disconnect":
                text, raw = event.get("text"), event.get("bytes")
                await self._hear(text if text is not None else raw if raw is not None else b"")
        except (WebSocketDisconnect, RuntimeError) as error:  # gone, or closed by us in the meantime
            log.debug("bot %s: the bridge's line ended: %s", self._listener.bot_id, error)
        finally:
            if self._tasks:
                await asyncio.wait(set(self._tasks))
            self._ended.set()

    async def close(self) -> None:
        """Hang up, and wait until nothing of this line is on its way any more."""
        with contextlib.suppress(Exception):
            await self._websocket.close(GOING_AWAY)
        await self._ended.wait()

    async def _hear(self, text: str | bytes) -> None:
        try:
            frame = read_frame(text)
        except BadFrameError as error:
            await self._refuse(error.spool_id, error.code, error.message, error.faults)
            return
        if isinstance(frame, MessageFrame | AskFrame):
            await self._room.acquire()
            task = asyncio.create_task(self._take(frame))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        else:
            self._listener.hear_status(frame.status)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()

    async def _take(self, frame: MessageFrame | AskFrame) -> None:
        """An acknowledgement only when the message is in the database, or may not come in."""
        id_ = frame.spool_id
        try:
            if isinstance(frame, AskFrame):
                answer = "admit" if await self._listener.admits(frame.payload) else "ack"
            else:
                async with self._turn:
                    adding = await self._listener.begin_message(frame.payload)
                await adding
                answer = "ack"
            await self._answer({"type": answer, "spool_id": id_})
        except (InvalidError, asyncpg.DataError) as error:
            code = error.code if isinstance(error, InvalidError) else "unstorable"
            await self._refuse(id_, code, "the message cannot be taken", [str(error)[:200]])
        except LOST as error:
            await self._later(id_, f"the database is away: {type(error).__name__}")
        except MediamillError as error:
            await self._later(id_, error.message)
        except Exception:
            log.exception("bot %s: a message could not be taken in", self._listener.bot_id)
            await self._later(id_, "the server failed; see its log")

    async def _later(self, spool_id: str, detail: str) -> None:
        await self._answer({"type": "later", "spool_id": spool_id, "detail": detail})

    async def _refuse(self, spool_id: str | None, code: str, detail: str, faults: list[str]) -> None:
        log.warning("bot %s: a frame of the bridge is refused: %s %s", self._listener.bot_id, code, faults)
        self._listener.count_refusal()
        await self._answer(
            {"type": "refused", "spool_id": spool_id, "code": code, "detail": detail, "faults": faults}
        )

    async def _answer(self, frame: dict[str, Any]) -> None:
        """A bridge that is gone asks again on its next line."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await self._websocket.send_text(json.dumps(frame))

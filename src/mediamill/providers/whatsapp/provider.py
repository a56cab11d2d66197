"""WhatsAppProvider: one bot on WhatsApp. It keeps the bridge told of the bot, takes its messages in, and sends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Mapping
from typing import Any

from starlette.websockets import WebSocket

from mediamill.clock import wait_at_most
from mediamill.conversations.provider import BotContext, NotConnectedError
from mediamill.conversations.records import find_message_id
from mediamill.db.connection import LOST, Database
from mediamill.errors import ConflictError, GiveUpError, MediamillError
from mediamill.providers.whatsapp.bridge import Bridge, BridgeRefusedError
from mediamill.providers.whatsapp.line import BridgeLine
from mediamill.providers.whatsapp.payload import MessagePayload, StatusPayload
from mediamill.providers.whatsapp.receive import (
    NAME,
    find_conversation,
    look_up_conversation,
    message_of,
)
from mediamill.staging.awaited import await_file, take_awaited
from mediamill.staging.put import drop_staged

__all__ = ["NAME", "AnotherBridgeError", "WhatsAppProvider"]

log = logging.getLogger(__name__)

AGAIN_SECONDS = 10.0
SOON_SECONDS = 1.0
STOP_SECONDS = 10.0
SEND_SECONDS = 60.0
TELL_AGAIN_SECONDS = 1.0


class AnotherBridgeError(ConflictError):
    """Another bridge serves this bot."""

    code = "another_bridge"


class WhatsAppProvider:
    """See Provider. The bridge comes to us by a line of its own, once it was told of the bot."""

    def __init__(self, context: BotContext, database: Database, bridge: Bridge) -> None:
        self.bot_id = context.bot_id
        self._context, self._database, self._bridge = context, database, bridge
        self._quota_gb = context.quota_gb
        self._known_quota_gb: float | None = None  # to the bridge
        self._line: BridgeLine | None = None
        self._woken = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopped = False
        self._status: dict[str, Any] = {"state": "connecting"}
        self._refused = 0
        self._news = asyncio.Event()

    # --- the provider contract ---

    async def start(self) -> None:
        """See Provider. The bridge is started, and told of the bot, in the background."""
        self._tell(self._status)
        self._tasks = [
            asyncio.create_task(self._keep_initialized()),
            asyncio.create_task(self._tell_news()),
        ]
        self._bridge.enter(self)

    async def stop(self) -> None:
        """See Provider. What the bridge has not handed over yet stays in its spool."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(MediamillError):
            await self._bridge.call("/stop", {"bot_id": self.bot_id}, STOP_SECONDS)
        if self._line is not None:
            await self._line.close()
        await self._bridge.leave(self)
        await self._context.tell_status({"state": "stopped", "refused": self._refused})

    async def send(self, recipient: str, text: str, send_id: str) -> str:
        """See Provider."""
        body = {"bot_id": self.bot_id, "recipient": recipient, "text": text, "send_id": send_id}
        try:
            answer = await self._bridge.call("/send", body, SEND_SECONDS)
        except BridgeRefusedError as error:
            if error.is_unknown_bot:
                self.bridge_is_up()  # it has forgotten us
                raise NotConnectedError("the bridge does not know the bot yet") from error
            raise GiveUpError(f"the bridge refused the message: {error.message}") from error
        return str(answer.get("provider_message_id", send_id))

    def change_quota(self, quota_gb: float) -> None:
        """See Provider. The bridge takes it over; its connections stay."""
        self._quota_gb = quota_gb
        self._woken.set()

    # --- the bridge's line ---

    def attach(self, websocket: WebSocket, bridge_id: str) -> Coroutine[Any, Any, None]:
        """The line of a bridge, to be awaited until it ends. One bridge at a time; the same one may call again."""
        before = self._line
        if self._stopped or (before is not None and before.bridge_id != bridge_id):
            raise AnotherBridgeError("the bot stops" if self._stopped else None)
        self._line = BridgeLine(websocket, bridge_id, self)
        return self._serve(self._line, before)

    async def _serve(self, line: BridgeLine, before: BridgeLine | None) -> None:
        closing = asyncio.create_task(before.close()) if before is not None else None
        try:
            await line.run()
        finally:
            if self._line is line:
                self._line = None
                self._woken.set()
            if closing is not None:
                await closing

    async def begin_message(self, payload: MessagePayload) -> asyncio.Task[object]:
        """See Listener. What may not come in leaves nothing behind, not even whose conversation it would be."""
        if not await self._may_come_in(payload):
            return asyncio.create_task(self._drop(payload))
        correspondent_id = await find_conversation(self._database, self.bot_id, payload)
        return asyncio.create_task(self._add(correspondent_id, payload))

    async def admits(self, payload: MessagePayload) -> bool:
        """See Listener. What has come in before is not fetched again; the file of what may is awaited from now on."""
        correspondent_id = await look_up_conversation(self._database, self.bot_id, payload)
        names = self.bot_id, NAME, correspondent_id, payload.provider_message_id
        if await find_message_id(self._database, *names) is not None or not await self._may_come_in(payload):
            return False
        if payload.media_processing_id is not None:
            async with self._database.connection() as connection:
                await await_file(connection, payload.media_processing_id)
        return True

    async def _may_come_in(self, payload: MessagePayload) -> bool:
        gate, facts = self._context.gate, message_of(payload)
        correspondent_id = await look_up_conversation(self._database, self.bot_id, payload)
        if payload.direction == "outgoing":
            return await gate.admit_own(correspondent_id, facts["group"])
        return await gate.admit(
            correspondent_id,
            facts["sender"],
            facts["group"],
            provider_message_id=payload.provider_message_id,
            addressed=payload.addressed,
            media_seconds=payload.media_seconds or 0,
        )

    async def _add(self, correspondent_id: str, payload: MessagePayload) -> object:
        if self._stopped:
            raise NotConnectedError("the bot stops")
        return await self._context.queues.add_message(correspondent_id, **message_of(payload))

    async def _drop(self, payload: MessagePayload) -> None:
        """Its file was fetched before somebody was blocked, or by a bridge that does not ask."""
        if payload.media_processing_id is not None:
            folder = self._bridge.data_folder
            await asyncio.to_thread(drop_staged, folder, payload.media_processing_id)
            async with self._database.connection() as connection:
                await take_awaited(connection, payload.media_processing_id)

    # --- what it says of itself ---

    def hear_status(self, status: StatusPayload) -> None:
        """See Listener."""
        self._tell(status.model_dump())

    def bridge_says(self, status: Mapping[str, Any]) -> None:
        """See BridgeUser."""
        self._tell(status)

    def count_refusal(self) -> None:
        """See Listener."""
        self._refused += 1
        self._news.set()

    def _tell(self, status: Mapping[str, Any]) -> None:
        self._status = dict(status)
        self._news.set()

    async def _tell_news(self) -> None:
        """The latest status only; a database that is away is told when it is back."""
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._context.tell_status({**self._status, "refused": self._refused})
            except LOST as error:
                log.debug("bot %s: its status cannot be kept: %s", self.bot_id, error)
                self._news.set()
            except Exception:
                log.exception("bot %s: its status cannot be kept", self.bot_id)
            await asyncio.sleep(TELL_AGAIN_SECONDS if self._news.is_set() else 0)

    # --- keeping the bridge told ---

    def bridge_is_up(self) -> None:
        """See BridgeUser."""
        self._woken.set()

    async def _keep_initialized(self) -> None:
        """As long as the bridge has no line to us, or another quota: it may be new, or have been restarted."""
        while True:
            self._woken.clear()
            is_known = self._line is not None and self._known_quota_gb == self._quota_gb
            pause = AGAIN_SECONDS if is_known else await self._initialize()
            await wait_at_most(self._woken, pause)

    async def _initialize(self) -> float:
        """When to ask again, in seconds."""
        quota_gb = self._quota_gb
        body = {
            "bot_id": self.bot_id,
            "provider_config": dict(self._context.config),
            "media_storage_quota_gb": quota_gb,
        }
        try:
            await self._bridge.call("/initialize", body)
            self._known_quota_gb = quota_gb
            return AGAIN_SECONDS
        except BridgeRefusedError as error:
            log.error("bot %s: the bridge refuses it: %s", self.bot_id, error.message)
            self._tell({"state": "failed", "detail": error.message})
            return AGAIN_SECONDS
        except NotConnectedError as error:
            log.debug("bot %s: %s", self.bot_id, error.message)
            return SOON_SECONDS
        except Exception:
            log.exception("bot %s: the bridge could not be told of it", self.bot_id)
            return AGAIN_SECONDS

"""One conversation with a bot over the running server: what is sent, what comes of it, and what is told on the way."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from mediamill.cli.server_client import NoServerError, ServerClient, ServerSaidError
from mediamill.clock import wait_at_most
from mediamill.conversations.reply import send_id_of
from mediamill.errors import InvalidError

PROVIDER = "chat"
BUSY_SECONDS, IDLE_SECONDS = 0.5, 5.0
AGAIN_SECONDS = 1.0


@dataclass(slots=True)
class Exchange:
    """One thing that was sent, and what came of it."""

    provider_message_id: str
    said: str  # the text, or the caption
    file: str | None = None
    sent_percent: int = 0
    message: dict[str, Any] | None = None
    answer: dict[str, Any] | None = None
    answer_failed: str | None = None

    @property
    def is_ready(self) -> bool:
        """Is all of its text there?"""
        return self.message is not None and self.message["media_processing_id"] is None

    @property
    def failed_reason(self) -> str | None:
        """Why its media did not become text."""
        media = self.message["media"] if self.message and self.is_ready else None
        return media["failed_reason"] if media else None

    @property
    def text(self) -> str:
        """The text of its media, without the caption."""
        content = str(self.message["content"]) if self.message else ""
        return content.removeprefix(self.said).strip() if self.file else content

    @property
    def pending(self) -> str | None:
        """What is going on, for people; None when nothing is."""
        if self.file is None or self.is_ready:
            return None
        if self.message is None:
            return f"{self.file}  sending {self.sent_percent} %"
        media = self.message["media"]
        percent = f" {media['percent']:.0f} %" if media["percent"] is not None else ""
        return f"{self.file}  {media['state']}{percent}"


class Screen(Protocol):
    """Whoever tells what happens."""

    def show_media(self, exchange: Exchange) -> None:
        """The text of a file has come, or word that there is none."""

    def show_message(self, name: str, message: dict[str, Any]) -> None:
        """Somebody said something: the bot, or the same person elsewhere."""

    def show_fault(self, text: str) -> None:
        """Something went wrong."""

    def show_pending(self, lines: list[str]) -> None:
        """What is going on now."""


@dataclass(slots=True)
class ChatSession:
    """`answers`: whether the bot answers at all."""

    client: ServerClient
    bot: str
    correspondent: str
    display_name: str
    answers: bool
    screen: Screen
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    _floor: int = 0  # everything up to this id was shown
    _shown: set[int] = field(default_factory=set)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)
    _settled: asyncio.Event = field(default_factory=asyncio.Event)
    _away: bool = False
    _fault: ServerSaidError | None = None

    @property
    def _path(self) -> str:
        who = quote(self.correspondent, safe="")
        return f"/api/bots/{quote(self.bot, safe='')}/conversations/{PROVIDER}/{who}/messages"

    async def begin(self) -> None:
        """What was said before is not told again."""
        found = await self._fetch(amount=1)
        self._floor = found["messages"][-1]["id"] if found and found["messages"] else 0

    async def say(self, text: str) -> Exchange:
        """Send a text."""
        exchange = self._open(Exchange(uuid.uuid4().hex, text))
        try:
            await self.client.say(self.bot, self.correspondent, text, **self._facts(exchange))
        except BaseException:
            del self.exchanges[exchange.provider_message_id]
            raise
        self._moved.set()
        return exchange

    async def send_file(self, path: Path, caption: str = "") -> Exchange:
        """Send a file."""
        from mediamill.media.sniff import sniff
        from mediamill.staging.process import printable_name

        if not await asyncio.to_thread(path.is_file):
            raise InvalidError(f"there is no file {path}")
        exchange = self._open(Exchange(uuid.uuid4().hex, caption, printable_name(path)))

        def progress(percent: int) -> None:
            exchange.sent_percent = percent
            self._tell_pending()

        facts = {**self._facts(exchange), "caption": caption, "filename": str(exchange.file)}
        try:
            mime_type = await asyncio.to_thread(lambda: sniff(path).mime_type)
            await self.client.send_file(self.bot, self.correspondent, path, mime_type, progress, **facts)
        except BaseException:
            del self.exchanges[exchange.provider_message_id]
            raise
        finally:
            self._tell_pending()
            self._moved.set()
        return exchange

    async def follow(self) -> None:
        """Tell what comes, until cancelled; a server that goes away is waited for, one that refuses is not."""
        listening = asyncio.create_task(self._listen())
        try:
            while self._fault is None:
                await self._refresh_patiently()
                busy = any(not self._is_settled(each) for each in self.exchanges.values())
                await wait_at_most(self._moved, BUSY_SECONDS if busy else IDLE_SECONDS)
                self._moved.clear()
        finally:
            listening.cancel()

    async def until_settled(self) -> None:
        """Until everything that was sent has its text and its answer. `follow` must run."""
        while self._fault is None and not all(self._is_settled(each) for each in self.exchanges.values()):
            self._settled.clear()
            await self._settled.wait()
        if self._fault is not None:
            raise self._fault

    async def refresh(self) -> None:
        """Look once, and tell what is new."""
        found = await self._fetch(after=self._floor, amount=500)
        if found is None:
            return
        answers = {self._answer_id(each): each for each in self.exchanges.values() if each.message}
        for message in found["messages"]:
            self._take(message, answers)
        failed = {each["message_id"]: each["error"] for each in found["failed_replies"]}
        for exchange in self.exchanges.values():
            self._take_failure(exchange, failed)
        while self._floor + 1 in self._shown:
            self._floor += 1
            self._shown.discard(self._floor)
        self._tell_pending()
        self._settled.set()

    def _take(self, message: dict[str, Any], answers: dict[str, Exchange]) -> None:
        own = self.exchanges.get(message["provider_message_id"])
        if own is not None:
            own.message = message
            answers[self._answer_id(own)] = own
        if message["media_processing_id"] is not None or message["id"] in self._shown:
            return
        self._shown.add(message["id"])
        if own is None:
            answered = answers.get(message["provider_message_id"])
            if answered is not None:
                answered.answer = message
            self.screen.show_message(message["sender"]["display_name"] or self.bot, message)
        elif own.file is not None:
            self._tell_pending()
            self.screen.show_media(own)

    def _take_failure(self, exchange: Exchange, failed: dict[int, str]) -> None:
        reason = failed.get(exchange.message["id"]) if exchange.message else None
        if reason is not None and exchange.answer_failed is None:
            exchange.answer_failed = reason
            self.screen.show_fault(f"no answer: {reason}")

    def _is_settled(self, exchange: Exchange) -> bool:
        if not exchange.is_ready or exchange.message is None:
            return False
        wanted = self.answers and bool(exchange.message["content"])
        return not wanted or exchange.answer is not None or exchange.answer_failed is not None

    def _tell_pending(self) -> None:
        self.screen.show_pending([each.pending for each in self.exchanges.values() if each.pending])

    def _open(self, exchange: Exchange) -> Exchange:
        self.exchanges[exchange.provider_message_id] = exchange
        return exchange

    def _facts(self, exchange: Exchange) -> dict[str, str]:
        return {"message_id": exchange.provider_message_id, "display_name": self.display_name}

    def _answer_id(self, exchange: Exchange) -> str:
        id_ = exchange.message["id"] if exchange.message else 0
        return send_id_of(self.bot, PROVIDER, self.correspondent, id_)

    async def _fetch(self, **query: int) -> Any:
        """None: nothing was ever said here."""
        try:
            return await self.client.ask("GET", self._path, params=query)
        except ServerSaidError as error:
            if error.code == "unknown_conversation":
                return None
            raise

    async def _refresh_patiently(self) -> None:
        try:
            await self.refresh()
            self._away = False
        except NoServerError as error:
            if not self._away:
                self.screen.show_fault(f"{error.message}; waiting for it")
            self._away = True
        except ServerSaidError as error:
            self._fault = error
            self._settled.set()
            self.screen.show_fault(error.message)

    async def _listen(self) -> None:
        while True:
            async for _ in self.client.events(self.bot):
                self._moved.set()
            await asyncio.sleep(AGAIN_SECONDS)

"""Automatic replies. They hang on the callbacks alone and keep their own history, in the database.

That an answer is due is written down before its message leaves memory; the answer is written down before it is sent;
and it is sent under an id made from the message that it answers. So nothing is answered twice, whoever dies in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from asyncpg import Record

from mediamill.clock import wait_at_most
from mediamill.conversations.access import count_tokens
from mediamill.conversations.bot_queues import BotQueuesManager
from mediamill.conversations.model import BOT, USER, Message, Sender, clean_text
from mediamill.conversations.provider import NotConnectedError, Provider
from mediamill.conversations.store import queries
from mediamill.db.connection import LOST, Connection, Database
from mediamill.errors import GiveUpError, RetryLaterError

log = logging.getLogger(__name__)

HISTORY_TURNS = 20
TRIES = 5
FIRST_PAUSE_SECONDS = 1.0
NOT_CONNECTED_SECONDS = 10.0
ANSWERS_AT_ONCE = 8
ANSWER_CHARACTERS = 60_000


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said, and what was answered."""

    told: str
    answer: str


class AnswerFailedError(RetryLaterError):
    """Whoever answers, or the chat network, failed. Not the database: this counts as a try."""

    code = "answer_failed"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is said, and how many tokens of a model it cost."""

    text: str
    tokens: int = 0


class Answerer(Protocol):
    """Whoever writes the answers: a model, an agent, an echo."""

    async def answer(self, thread: str, history: Sequence[Turn], told: str, message_id: int) -> Answer:
        """The answer to this message. GiveUpError: there will be none; any other error: perhaps later."""


class EchoAnswerer:
    """For trying out: says what it was told."""

    async def answer(self, thread: str, history: Sequence[Turn], told: str, message_id: int) -> Answer:
        """The same again."""
        del thread, history, message_id
        return Answer(f"You said: {told}")


@dataclass(frozen=True, slots=True)
class Line:
    """One conversation's way out. `answerer`: the network's own, who bounds his time and his work himself."""

    queues: BotQueuesManager
    provider: Provider
    answerer: Answerer | None = None


class ReplyService:
    """Of one bot; `lines` by provider's name. One answer at a time in a conversation, several conversations at once.

    Notices (see access.py) are sent by it too, also for a bot for which nobody answers (`answerer` is None).
    """

    def __init__(
        self,
        database: Database,
        bot_id: str,
        answerer: Answerer | None,
        lines: Mapping[str, Line],
        *,
        timeout_seconds: float = 120,
    ) -> None:
        self._database, self._bot_id, self._answerer, self._lines = database, bot_id, answerer, lines
        self._timeout_seconds = timeout_seconds
        self._due: set[asyncio.Task[None]] = set()
        self._running: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._again: set[tuple[str, str]] = set()
        self._noting = asyncio.Lock()
        self._open, self._stopped = False, False
        self._at_once = asyncio.Semaphore(ANSWERS_AT_ONCE)
        self.connected = asyncio.Event()  # a provider is back: what waits for it need not wait any longer

    def callback(self, provider_name: str) -> Callable[[str, Message], None]:
        """What a provider's queues call for every finished message."""
        return partial(self._heard, provider_name)

    def _heard(self, provider_name: str, correspondent_id: str, message: Message) -> None:
        if message.source == USER and message.content:
            noting = asyncio.create_task(self._note(provider_name, correspondent_id, message))
            self._due.add(noting)
            noting.add_done_callback(self._noted)

    def _noted(self, noting: asyncio.Task[None]) -> None:
        """One that the database did not take stays: its message must not leave the records unanswered."""
        error = None if noting.cancelled() else noting.exception()
        if not isinstance(error, LOST):
            self._due.discard(noting)
            if error is not None:
                log.error("bot %s: an answer that is due could not be noted", self._bot_id, exc_info=error)

    async def _note(self, provider_name: str, correspondent_id: str, message: Message) -> None:
        keys = self._keys(provider_name, correspondent_id)
        keys |= {"message_id": message.id, "told": message.content, "sender_id": message.sender.identifier}
        note = partial(queries.add_reply.run, **keys)
        async with self._noting:  # in the order in which they were heard
            await self._insist(note)
        self._wake(provider_name, correspondent_id)

    async def settle(self) -> None:
        """Until it is written down that every message heard so far is due an answer; or the error of the database."""
        if not self._due:
            return
        done, _ = await asyncio.wait(set(self._due))
        for noting in done:
            if isinstance(error := noting.exception(), LOST):
                raise error

    async def resume(self) -> None:
        """Take up what was due before; also what somebody asked to be tried again. Nothing is said before this."""
        self._open = True
        async with self._database.connection() as connection:
            rows = await queries.open_replies.rows(connection, bot_id=self._bot_id, answers=self._answers)
        for row in rows:
            self._wake(row["provider_name"], row["correspondent_id"])

    async def stop(self) -> None:
        """Whatever is unanswered waits for the next start. A database that is away is not waited for any more."""
        self._stopped = True
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, *self._due, return_exceptions=True)

    def _wake(self, provider_name: str, correspondent_id: str) -> None:
        key = (provider_name, correspondent_id)
        if provider_name not in self._lines or not self._open or self._stopped:
            return
        self._again.add(key)
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._answer_all(key))

    async def _answer_all(self, key: tuple[str, str]) -> None:
        try:
            while key in self._again:
                self._again.discard(key)
                while (reply := await self._insist(self._next(key))) is not None:
                    await self._reply(key, reply)
        finally:
            del self._running[key]

    def _next(self, key: tuple[str, str]) -> Callable[..., Awaitable[Record | None]]:
        return partial(queries.next_reply.row, **self._keys(*key), answers=self._answers)

    @property
    def _answers(self) -> bool:
        """Does anybody answer? Else only notices are sent."""
        return self._answerer is not None

    async def _reply(self, key: tuple[str, str], reply: Record) -> None:
        """One answer, from the thought to the sending. Every step is kept before the next."""
        answer, tries = reply["answer"], reply["tries"]
        try:
            if answer is None:
                thought = await self._think(key, reply)
                await self._move(key, reply, "written", answer=thought.text, tokens=thought.tokens, tries=0)
                return
            await self._send(key, reply["message_id"], answer)
            await self._move(key, reply, "sent", tries=tries)
        except LOST as error:
            log.debug("replies: the database is away: %s", error)
            await asyncio.sleep(FIRST_PAUSE_SECONDS)
        except NotConnectedError as error:
            log.info("bot %s: an answer waits: %s", self._bot_id, error.message)
            self.connected.clear()
            await wait_at_most(self.connected, NOT_CONNECTED_SECONDS)
        except Exception as error:
            await self._note_failure(key, reply, error)

    async def _think(self, key: tuple[str, str], reply: Record) -> Answer:
        assert self._answerer is not None
        async with self._database.connection() as connection:
            rows = await queries.past_replies.rows(
                connection, **self._keys(*key), notified_order=reply["notified_order"], amount=HISTORY_TURNS
            )
        history = [Turn(row["told"], row["answer"]) for row in reversed(rows)]
        asked = (f"{self._bot_id}/{key[0]}/{key[1]}", history, reply["told"], reply["message_id"])
        own = self._lines[key[0]].answerer
        try:
            if own is not None:
                answer = await own.answer(*asked)
            else:
                async with self._at_once, asyncio.timeout(self._timeout_seconds):
                    answer = await self._answerer.answer(*asked)
        except LOST as error:
            raise AnswerFailedError(str(error) or type(error).__name__) from error
        return Answer(clean_text(answer.text)[:ANSWER_CHARACTERS], answer.tokens)

    async def _send(self, key: tuple[str, str], message_id: int, answer: str) -> None:
        """An empty answer is an answer too: nothing is said."""
        if not answer.strip():
            return
        line, correspondent_id = self._lines[key[0]], key[1]
        send_id = send_id_of(self._bot_id, *key, message_id)
        try:
            sent_id = await line.provider.send(correspondent_id, answer, send_id)
        except LOST as error:
            raise AnswerFailedError(str(error) or type(error).__name__) from error
        if message_id < 0:
            return  # a notice is no part of the conversation
        await line.queues.add_message(
            correspondent_id, answer, Sender(self._bot_id, self._bot_id), BOT, provider_message_id=sent_id
        )

    async def _note_failure(self, key: tuple[str, str], reply: Record, error: Exception) -> None:
        tries = reply["tries"] + 1
        what = _explain(error)
        final = isinstance(error, GiveUpError) or tries >= TRIES
        log.warning("bot %s: an answer failed (try %d): %s", self._bot_id, tries, what)
        await self._move(key, reply, "failed" if final else reply["state"], error=what[:500], tries=tries)
        if not final:
            await asyncio.sleep(FIRST_PAUSE_SECONDS * 2 ** (tries - 1))

    async def _move(
        self,
        key: tuple[str, str],
        reply: Record,
        state: str,
        *,
        tries: int,
        answer: str | None = None,
        error: str | None = None,
        tokens: int = 0,
    ) -> None:
        """With the tokens that it cost, in one transaction; only if nobody else has moved it."""
        facts = {"message_id": reply["message_id"], "state": state, "answer": answer}

        async def move(connection: Connection) -> None:
            async with connection.transaction():
                moved = await queries.move_reply.row(
                    connection, **self._keys(*key), **facts, error=error, tries=tries
                )
                if moved is not None and tokens and moved["sender_id"]:
                    await count_tokens(connection, self._bot_id, key[0], moved["sender_id"], tokens)

        await self._insist(move)

    def _keys(self, provider_name: str, correspondent_id: str) -> dict[str, Any]:
        return {
            "bot_id": self._bot_id,
            "provider_name": provider_name,
            "correspondent_id": correspondent_id,
        }

    async def _insist(self, verb: Callable[..., Awaitable[Any]]) -> Any:
        """A database that is away is waited for."""
        while True:
            try:
                async with self._database.connection() as connection:
                    return await verb(connection)
            except LOST as error:
                if self._stopped:
                    raise
                log.debug("replies: the database is away: %s", error)
                await asyncio.sleep(FIRST_PAUSE_SECONDS)


def _explain(error: Exception) -> str:
    """For whoever looks at the conversation: what is wrong, and what to do about it."""
    what, fix = str(error) or type(error).__name__, getattr(error, "fix", None)
    return f"{what}: {fix}" if fix else what


def send_id_of(bot_id: str, provider_name: str, correspondent_id: str, message_id: int) -> str:
    """The same for the same message, whoever sends its answer."""
    named = "\0".join((bot_id, provider_name, correspondent_id, str(message_id)))
    return hashlib.sha256(named.encode()).hexdigest()[:32]

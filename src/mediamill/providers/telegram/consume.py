"""Working off the inbox: in each chat one update after the other, chats side by side."""

from __future__ import annotations

import asyncio
import logging

from mediamill.clock import wait_at_most
from mediamill.conversations.bot_queues import QueuesClosedError
from mediamill.db.connection import LOST
from mediamill.errors import UnavailableError
from mediamill.providers.telegram.acks import Acks
from mediamill.providers.telegram.failures import (
    FailedStepError,
    counts_as_try,
    is_last_try,
    pause_seconds,
)
from mediamill.providers.telegram.inbox import Inbox, Kept, TakenError
from mediamill.providers.telegram.take import Taker

log = logging.getLogger(__name__)

AT_ONCE = 8
LOOK_SECONDS = 1.0  # what was postponed is due some time; nobody says when
AWAY_SECONDS = 1.0


class Consumer:
    """Of one bot."""

    def __init__(self, bot_id: str, inbox: Inbox, taker: Taker, acks: Acks) -> None:
        self._bot_id, self._inbox, self._taker, self._acks = bot_id, inbox, taker, acks
        self._woken = asyncio.Event()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._chats: dict[str, asyncio.Task[None]] = {}

    def wake(self) -> None:
        """Something has come."""
        self._woken.set()

    async def run(self) -> None:
        """Until cancelled; a step that is under way is cut off, and done again at the next start."""
        try:
            while True:
                self._woken.clear()
                try:
                    for chat in await self._inbox.due_chats():
                        if chat not in self._chats:
                            self._chats[chat] = asyncio.create_task(self._work(chat))
                except LOST as error:
                    log.debug("telegram: the database is away: %s", error)
                await wait_at_most(self._woken, LOOK_SECONDS)
        finally:
            tasks = list(self._chats.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, chat: str) -> None:
        """All that is due in a chat. A failure that nobody thought of must not end the chat."""
        try:
            is_more = True
            while is_more:
                async with self._room:
                    is_more = await self._step(chat)
        except LOST as error:
            log.debug("telegram: the database is away: %s", error)
            await asyncio.sleep(AWAY_SECONDS)
        except QueuesClosedError:
            log.debug("bot %s stops; its updates wait", self._bot_id)
        except Exception:
            log.exception("bot %s: a chat of Telegram cannot be worked on", self._bot_id)
            await asyncio.sleep(AWAY_SECONDS)
        finally:
            del self._chats[chat]
            self._woken.set()

    async def _step(self, chat: str) -> bool:
        """One update, or an album, and what there is to tell of it. Whether there was one."""
        unit = await self._inbox.next(chat)
        try:
            if unit:
                await self._taker.take(unit)
        except FailedStepError as failure:
            await self._fail(unit, failure)
            return False
        except TakenError:
            log.warning("bot %s: an update was taken by another process", self._bot_id)
        await self._acks.tell(chat)
        return bool(unit)

    async def _fail(self, unit: list[Kept], failure: FailedStepError) -> None:
        """The chat waits for it; in the end it goes on without it."""
        cause, kept = failure.cause, failure.kept
        if isinstance(cause, (*LOST, QueuesClosedError, TakenError)):
            raise cause
        counts = counts_as_try(cause) and not isinstance(cause, UnavailableError)
        if counts and is_last_try(kept):
            log.error("bot %s: update %d is given up", self._bot_id, kept.update_id, exc_info=cause)
            async with self._inbox.database.transaction() as connection:
                await self._inbox.end(connection, kept, failure.message[:500])
            return
        log.warning("bot %s: update %d is tried again: %s", self._bot_id, kept.update_id, failure.message)
        seconds = pause_seconds(kept)
        await self._inbox.postpone(kept, seconds, failure.message, counts=counts)
        head = min(unit, key=lambda each: each.update_id)  # the first of a chat says when it goes on
        if head.update_id != kept.update_id:
            await self._inbox.postpone(head, seconds, failure.message, counts=False)

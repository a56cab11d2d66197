"""The agent's answer to a message of Telegram: that of its run, which is there already or is made now."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from mediamill.conversations.reply import Answer, Turn
from mediamill.db.connection import Database
from mediamill.errors import GiveUpError, MediamillError
from mediamill.inputs.look import RunWatch, retry_run
from mediamill.inputs.model import Run
from mediamill.providers.telegram.api import BotApi
from mediamill.providers.telegram.runs import Runs
from mediamill.providers.telegram.store import queries
from mediamill.providers.telegram.take import Taker

TYPING_SECONDS = 4.5  # Telegram shows it for five


class RunFailedError(GiveUpError):
    """The agent has no answer."""

    code = "run_failed"


class RunAnswerer:
    """Of one bot. Texts have made their runs; the text of a voice note comes later, and makes its run here."""

    def __init__(
        self, database: Database, api: BotApi, bot_id: str, runs: Runs, taker: Taker, watch: RunWatch
    ) -> None:
        self._database, self._api, self._bot_id = database, api, bot_id
        self._runs, self._taker, self._watch = runs, taker, watch

    async def answer(self, thread: str, history: Sequence[Turn], told: str, message_id: int) -> Answer:
        """See Answerer. The agent knows what was said before."""
        del history
        chat = thread.rpartition("/")[2]
        async with self._taker.turn(chat), self._database.transaction() as connection:
            run = await self._runs.make(connection, self._runs.scope(chat, chat), told, message_id)
        async with self._typing(chat):
            if run.state == "failed":
                await self._try_again(run)
            run = await self._watch.until_ended(run.run_id)
        if run.state == "failed":
            await self._note_failed(run.run_id)
            raise RunFailedError(run.error)
        return Answer(run.answer, run.tokens)

    async def _try_again(self, run: Run) -> None:
        """Only if its failure was told before: then somebody has asked for another try."""
        async with self._database.transaction() as connection:
            told = await queries.take_back_sent.value(
                connection, bot_id=self._bot_id, send_id=_failure_of(run.run_id)
            )
            if told is not None:
                await retry_run(connection, run.run_id)

    async def _note_failed(self, run_id: UUID) -> None:
        async with self._database.connection() as connection:
            await queries.note_sent.run(
                connection, bot_id=self._bot_id, send_id=_failure_of(run_id), part=0, message_id=0
            )

    @asynccontextmanager
    async def _typing(self, chat: str) -> AsyncIterator[None]:
        """Whoever waits sees that somebody is at work."""
        typing = asyncio.create_task(self._type(int(chat)))
        try:
            yield
        finally:
            typing.cancel()
            await asyncio.gather(typing, return_exceptions=True)

    async def _type(self, chat: int) -> None:
        while True:
            with contextlib.suppress(MediamillError):
                await self._api.call("sendChatAction", chat_id=chat, action="typing")
            await asyncio.sleep(TYPING_SECONDS)


def _failure_of(run_id: UUID) -> str:
    return f"failed/{run_id}"

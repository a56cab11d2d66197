"""One run of pi as its events tell it: whose text is whose, when all is done, and how it ended.

The run begins with a prompt; more can be said into it while it goes on. pi takes inputs up in the order in which they
came, and what it writes after that is the answer to that input, and to those right before it: pi may take up several
before it asks the model. The run is done when pi has settled and every input was
taken up: one that came too late starts pi again by itself. What was answered whole before something else that was said
into the run made it fail has succeeded all the same.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import Any

from mediamill.agents.contract import (
    LONGEST_ANSWER_CHARACTERS,
    AgentBusyError,
    AgentNonsenseError,
    AnswerTooLongError,
)
from mediamill.agents.failures import failure_of, one_line
from mediamill.agents.thinking import WithoutThinking

STATUS = re.compile(r"\b([345]\d\d)\b")
USED = ("input", "output", "cacheRead", "cacheWrite")


Piece = str | Exception | None  # None: the end


class PiRun:
    """Fed with events by the process, read by those who asked."""

    def __init__(self, secret: str | None) -> None:
        self._secret = secret
        self._inputs: dict[asyncio.Queue[Piece], str | None] = {}
        self._waiting: deque[asyncio.Queue[Piece]] = deque()
        self._answered: set[asyncio.Queue[Piece]] = set()
        self._taken: list[asyncio.Queue[Piece]] = []  # since the last answer that was whole
        self._now: list[asyncio.Queue[Piece]] = []  # whose answer is being written
        self._visible = WithoutThinking()
        self._size = 0  # of all the text of the run
        self._answer_size = 0  # of the text for those in `_now`
        self._message_size = 0  # of the text of the message that is being written
        self._failure: Exception | None = None
        self._opened = asyncio.Event()
        self.done = False
        self.failed = False
        self.tokens = 0  # as the model reports it

    @property
    def keys(self) -> list[str | None]:
        """Of its inputs, in their order."""
        return list(self._inputs.values())

    def add_input(self, key: str | None) -> asyncio.Queue[Piece]:
        """Another input; its answer comes through this queue."""
        queue: asyncio.Queue[Piece] = asyncio.Queue()
        self._waiting.append(queue)
        self._inputs[queue] = key
        return queue

    def withdraw(self, queue: asyncio.Queue[Piece]) -> None:
        """pi did not accept this input: nothing will come of it."""
        self._waiting.remove(queue)
        del self._inputs[queue]

    def open(self) -> None:
        """pi has accepted the first input: more can be said."""
        self._opened.set()

    async def is_open(self) -> bool:
        """Whether something can be said into it, when that is known: before, pi would begin a second run."""
        await self._opened.wait()
        return not self.done

    def fail(self, error: Exception) -> None:
        """End it for all who wait."""
        if not self.done:
            self.done = self.failed = True
            self._opened.set()
            for queue in self._inputs:
                queue.put_nowait(None if queue in self._answered else error)

    def take(self, event: dict[str, Any]) -> None:
        """One event of pi."""
        message = event.get("message")
        role = message.get("role") if isinstance(message, dict) else None
        match event.get("type"):
            case "message_start" if role == "user" and self._waiting:
                self._take_up(self._waiting.popleft())
            case "message_start" if role == "assistant":
                self._visible, self._message_size = WithoutThinking(), 0
            case "message_update":
                update = event.get("assistantMessageEvent") or {}
                if update.get("type") == "text_delta":
                    self._say(self._visible.take(str(update.get("delta", ""))))
            case "message_end" if role == "assistant":
                self._say(self._visible.rest())
                self._end_message(message or {})
            case "auto_retry_start" if self._message_size:
                # What the failed try wrote is out already, and the next one would write it again.
                self.fail(self._failure or AgentBusyError("the answer was cut off"))
            case "agent_settled":
                self._settle()

    def _take_up(self, queue: asyncio.Queue[Piece]) -> None:
        if self._answer_size:
            self._now, self._answer_size = [], 0
        self._now.append(queue)
        self._taken.append(queue)

    def _say(self, text: str) -> None:
        if not text or not self._now:
            return
        if self._answer_size and not self._message_size:
            text = f"\n\n{text}"  # a new message of the same answer
        self._message_size += len(text)
        self._answer_size += len(text)
        self._size += len(text)
        if self._size > LONGEST_ANSWER_CHARACTERS:
            self.fail(AnswerTooLongError())
        elif not self.done:
            for queue in self._now:
                queue.put_nowait(text)

    def _end_message(self, message: dict[str, Any]) -> None:
        self._failure = self._read_failure(message)
        self.tokens += _tokens_of(message)
        if self._failure is None and message.get("stopReason") != "toolUse" and self._size:
            self._answered.update(self._taken)
            self._taken.clear()

    def _settle(self) -> None:
        if self._failure is None and not self._waiting and not self._size:
            self._failure = AgentNonsenseError("the answer of pi's model is empty")
        if self._failure is not None:
            self.fail(self._failure)
        elif not self._waiting and not self.done:
            self.done = True
            for queue in self._inputs:
                queue.put_nowait(None)

    def _read_failure(self, message: dict[str, Any]) -> Exception | None:
        """What the model's last message means; None if all is well."""
        reason = message.get("stopReason")
        if reason not in ("error", "aborted"):
            return None
        said = one_line(str(message.get("errorMessage") or reason), self._secret)
        if found := STATUS.search(said[:40]):
            return failure_of(int(found[1]), said, "the endpoint of pi")
        return AgentBusyError(f"pi: {said}", fix="is the server of MEDIAMILL_OPENAI_URL up?")


def _tokens_of(message: dict[str, Any]) -> int:
    """What a message of the model cost; 0 if it does not say."""
    usage = message.get("usage")
    figures = [usage.get(name) for name in USED] if isinstance(usage, dict) else []
    return sum(each for each in figures if isinstance(each, int) and 0 < each < 10**9)

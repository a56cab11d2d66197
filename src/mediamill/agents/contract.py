"""What an agent is to the rest of the house: sessions by thread, answers as streams of text, two sorts of failure.

A session outlives no restart by itself: pi keeps a thread's conversation in a file, a chat only has the history that it
is given. So callers pass the history that they have; an agent with a memory of the thread of its own goes by that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mediamill.errors import GiveUpError, RetryLaterError

LONGEST_ANSWER_CHARACTERS = 100_000

Answer = AsyncGenerator[str, None]


@dataclass(frozen=True, slots=True)
class Image:
    """An image as the model shall get it: the caller has made it small."""

    mime_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that was said before, with the images that came with it."""

    role: Literal["user", "assistant"]
    text: str
    images: tuple[Image, ...] = ()


class AgentBusyError(RetryLaterError):
    """The agent is overloaded, away, slow, or died at work; the session is as it was before."""

    code = "agent_busy"

    def __init__(
        self, message: str | None = None, *, after_seconds: float | None = None, fix: str | None = None
    ) -> None:
        super().__init__(message, fix=fix)
        self.after_seconds = after_seconds  # what the server asked for


class AgentNotSetError(GiveUpError):
    """A setting for the agent is missing or cannot be right."""

    code = "agent_not_set"


class AgentRefusedError(GiveUpError):
    """The agent's model refuses the request."""

    code = "agent_refused"


class AgentNonsenseError(GiveUpError):
    """The agent answers with something that cannot be used."""

    code = "agent_nonsense"


class AnswerTooLongError(AgentNonsenseError):
    """The answer is longer than 100,000 characters; ask for less."""

    code = "answer_too_long"


class AgentSession(Protocol):
    """One thread. What is asked keeps its order: an answer begins when the one before it is done.

    An answer that is iterated to its end has succeeded, and only then is it part of the conversation. Who stops before
    the end closes the answer (`aclosing`), which ends the work on it.

    `key` names an input for good. Who asks again with the same key, because a process died before the answer was
    recorded, gets the answer that the model gave, if the agent keeps its memory on disk; the model is not asked again.

    `tokens`: what its answers have cost so far, as the model reports it.
    """

    tokens: int

    def prompt(self, text: str, images: Sequence[Image] = (), key: str | None = None) -> Answer:
        """Ask, in turn."""

    def follow_up(self, text: str, images: Sequence[Image] = (), key: str | None = None) -> Answer:
        """Ask when all that runs now is done."""

    def steer(self, text: str, images: Sequence[Image] = (), key: str | None = None) -> Answer:
        """Say something into the answer that runs now; ends with it. Where nothing runs, or nothing can be said into
        it, it is asked in turn.
        """


class Agent(Protocol):
    """All sessions of one kind. `remembers`: it keeps its conversations on disk, with their images."""

    remembers: bool

    def session(self, thread_key: str, history: Sequence[Turn] = (), instructions: str = "") -> AgentSession:
        """The session of this thread. `history` counts where the agent remembers nothing of the thread."""

    async def close(self) -> None:
        """End all work and all processes."""


async def answer_text(answer: Answer) -> str:
    """The whole answer at once."""
    async with aclosing(answer):
        return "".join([piece async for piece in answer]).strip()

"""One try at a run: its images made small, the agent asked, the answer kept as it grows, and its end written down.

The images go in the transaction that completes the run, never before; an attempt that fails leaves them.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar
from uuid import UUID

from asyncpg import Record

from mediamill.agents.choose import Agents
from mediamill.agents.contract import AgentSession, Answer, Image, Turn
from mediamill.agents.fit import MOST_PAST_IMAGES
from mediamill.db.connection import LOST, Connection, Database
from mediamill.errors import GiveUpError, MediamillError
from mediamill.inputs import counters
from mediamill.inputs.model import Run, Scope
from mediamill.inputs.store import queries

log = logging.getLogger(__name__)

Got = TypeVar("Got")

HISTORY_TURNS = 20
THREAD_IMAGE_BYTES = 14_000_000  # of the small images of a thread that are kept for its next questions
PIECE_BYTES = 1 << 20
GROW_SECONDS = 0.15  # the answer is written down this often while it comes
FAILURES = 5
FIRST_PAUSE_SECONDS = 1.0
AWAY_SECONDS = 1.0
LAST_WORD_SECONDS = 3.0


class Shrinker(Protocol):
    """Makes images small for the model, somewhere where bad ones do no harm."""

    async def start(self) -> None:
        """Get ready."""

    async def close(self) -> None:
        """End all work."""

    async def __call__(
        self, path: Path, mime_type: str, owner: str, number: int | None = None
    ) -> list[tuple[str, bytes]]:
        """Type and bytes of the image as the model shall get it, or of the parts of a long one. `number`: which of its
        message, for errors.
        """


class OvertakenError(MediamillError):
    """The run is somebody else's now, or has ended."""

    code = "run_overtaken"


class ImagesExpiredError(GiveUpError):
    """The images of this run have expired; send them again with a new message."""

    code = "images_expired"


class Attempt:
    """Made for one run; `make` is called once."""

    def __init__(
        self,
        run: Run,
        database: Database,
        agents: Agents,
        shrink: Shrinker,
        scratch: Path,
        on_asking: Callable[[], None],
    ) -> None:
        self._run, self._database, self._agents, self._on_asking = run, database, agents, on_asking
        self._shrink, self._scratch = shrink, scratch
        self._tries = 0
        self._tokens = 0
        self._kept: list[Image] = []  # for the questions that follow
        self.is_asking = False  # from now on, what steers is said into this one

    async def make(self) -> None:
        """Ends when the run has ended, or waits for its next try. A database that is away is waited for."""
        try:
            image_count = await self._insist(self._begin)
            answer = await self._answer(image_count)
            await self._insist(partial(self._complete, answer))
        except OvertakenError:
            log.info("run %s: this try is overtaken by another, or not due", self._run.run_id)
        except asyncio.CancelledError:
            await self._put_back_at_once()
            raise
        except Exception as error:
            await self._insist(partial(self._fail, error))

    async def _begin(self, connection: Connection) -> int:
        row = await queries.start_run.row(connection, run_id=self._run.run_id)
        if row is None:
            raise OvertakenError
        self._tries = row["tries"]
        return int(row["image_count"])

    async def _answer(self, image_count: int) -> str:
        """What the agent says to it. Until its last word came, nothing that is ours has changed."""
        run, choice = self._run, self._run.agent
        rows = await self._images(image_count)
        loaded = [await self._load(row, number) for number, row in enumerate(rows, 1)]
        images = list(chain.from_iterable(loaded))
        agent = self._agents.get(choice.kind, choice.model)
        history = await self._history(with_images=not agent.remembers)
        session = agent.session(run.thread_key, history, choice.instructions)
        before = session.tokens
        answer = await self._listen(self._ask(session, images, _words_of_parts(loaded)))
        self._tokens = session.tokens - before
        self._kept = [] if agent.remembers else images
        return answer

    def _ask(self, session: AgentSession, images: list[Image], more: str) -> Answer:
        run = self._run
        verbs = {"prompt": session.prompt, "follow_up": session.follow_up, "steer": session.steer}
        return verbs[run.delivery_mode](run.text + more, images, key=str(run.run_id))

    async def _listen(self, answer: Answer) -> str:
        self.is_asking = True
        self._on_asking()
        pieces: list[str] = []
        growing = asyncio.create_task(self._grow(pieces))
        try:
            async with aclosing(answer):
                async for piece in answer:
                    pieces.append(piece)
        finally:
            growing.cancel()
            await asyncio.wait([growing])
        return _shown(pieces)

    async def _grow(self, pieces: list[str]) -> None:
        """Whoever watches sees the answer come. What the database misses of it now, it gets with the end."""
        told = 0
        while True:
            await asyncio.sleep(GROW_SECONDS)
            if len(pieces) > told:
                told = len(pieces)
                with suppress(*LOST):
                    async with self._database.connection() as connection:
                        await queries.grow_answer.row(
                            connection,
                            run_id=self._run.run_id,
                            tries=self._tries,
                            answer=_shown(pieces),
                        )

    async def _images(self, image_count: int) -> list[Record]:
        async with self._database.connection() as connection:
            rows = await queries.images_of_run.rows(connection, run_id=self._run.run_id)
        if len(rows) < image_count:
            raise ImagesExpiredError
        return rows

    async def _load(self, row: Record, number: int) -> list[Image]:
        """Through a file of ours, a piece at a time, to the child that makes it small."""
        await asyncio.to_thread(self._scratch.mkdir, parents=True, exist_ok=True, mode=0o700)
        with tempfile.NamedTemporaryFile(dir=self._scratch, prefix="image-") as file:
            for start in range(1, row["byte_size"] + 1, PIECE_BYTES):
                async with self._database.connection() as connection:
                    piece = await queries.piece_of_image.value(
                        connection, input_image_id=row["input_image_id"], start=start, length=PIECE_BYTES
                    )
                if piece is None:
                    raise ImagesExpiredError
                await asyncio.to_thread(file.write, piece)
            await asyncio.to_thread(file.flush)
            owner = self._run.thread_key
            parts = await self._shrink(Path(file.name), row["mime_type"], owner, number)
            return [Image(*part) for part in parts]

    async def _history(self, *, with_images: bool) -> list[Turn]:
        run, images = self._run, defaultdict[UUID, list[Image]](list)
        async with self._database.connection() as connection:
            past = await queries.past_runs.rows(
                connection, thread_key=run.thread_key, sequence=run.sequence, amount=HISTORY_TURNS
            )
            if with_images:
                for row in await queries.images_of_thread.rows(
                    connection, thread_key=run.thread_key, sequence=run.sequence
                ):
                    images[row["run_id"]].append(Image(row["mime_type"], row["image"]))
        pairs = (
            (Turn("user", row["text"], tuple(images[row["run_id"]])), Turn("assistant", row["answer"]))
            for row in reversed(past)
        )
        return list(chain.from_iterable(pairs))

    async def _complete(self, answer: str, connection: Connection) -> None:
        run = self._run
        async with connection.transaction():
            done = await queries.complete_run.row(
                connection, run_id=run.run_id, tries=self._tries, answer=answer, tokens=self._tokens
            )
            if done is None:
                raise OvertakenError
            deleted = await queries.delete_images_of_run.rows(connection, run_id=run.run_id)
            await self._keep(connection)
        counters.count_deleted(Scope(run.source, run.thread_key, run.user_key), len(deleted), run.run_id)

    async def _keep(self, connection: Connection) -> None:
        """The small images, as the thread's memory."""
        run = self._run
        if self._kept:
            await queries.keep_thread_images.run(
                connection,
                run_id=run.run_id,
                thread_key=run.thread_key,
                sequence=run.sequence,
                mime_types=[image.mime_type for image in self._kept],
                images=[image.data for image in self._kept],
            )
        await queries.trim_thread_images.run(
            connection, thread_key=run.thread_key, most=MOST_PAST_IMAGES, most_bytes=THREAD_IMAGE_BYTES
        )

    async def _fail(self, error: Exception, connection: Connection) -> None:
        """Later once more, or never."""
        run, (code, what) = self._run, _explain(error)
        final = isinstance(error, GiveUpError) or run.failures + 1 >= FAILURES
        log.warning(
            "run %s failed (try %d%s): %s", run.run_id, self._tries, ", for good" if final else "", what
        )
        told = {"run_id": run.run_id, "tries": self._tries, "error_code": code, "error": what}
        if final:
            await queries.fail_run.row(connection, **told)
            return
        pause = getattr(error, "after_seconds", None) or FIRST_PAUSE_SECONDS * 2**run.failures
        await queries.put_run_back.row(connection, **told, failures=1, after_seconds=pause)

    async def _put_back_at_once(self) -> None:
        """This process stops. If the database does not hear it, whoever takes the thread next finds out."""
        with suppress(*LOST):
            async with asyncio.timeout(LAST_WORD_SECONDS), self._database.connection() as connection:
                await queries.put_run_back.row(
                    connection,
                    run_id=self._run.run_id,
                    tries=self._tries,
                    error_code=None,
                    error=None,
                    failures=0,
                    after_seconds=0.0,
                )

    async def _insist(self, verb: Callable[[Connection], Awaitable[Got]]) -> Got:
        while True:
            try:
                async with self._database.connection() as connection:
                    return await verb(connection)
            except LOST as error:
                log.debug("run %s: the database is away: %s", self._run.run_id, error)
                await asyncio.sleep(AWAY_SECONDS)


def _explain(error: Exception) -> tuple[str, str]:
    if not isinstance(error, MediamillError):
        return "internal", f"{type(error).__name__}: {error}"[:500]
    return error.code, (f"{error.message}: {error.fix}" if error.fix else error.message)[:500]


def _words_of_parts(images: Sequence[Sequence[Image]]) -> str:
    """What the model is told of images that come in parts."""
    told = [
        f"\n\n[Image {number} is long: it comes as {len(parts)} overlapping images, in order.]"
        for number, parts in enumerate(images, 1)
        if len(parts) > 1
    ]
    return "".join(told)


def _shown(pieces: list[str]) -> str:
    """What is there of the answer, always a beginning of what will be there later. PostgreSQL takes no NUL, and UTF-8
    no lone surrogates; a model may say anything.
    """
    return "".join(pieces).lstrip().replace("\0", "").encode("utf-8", "replace").decode()

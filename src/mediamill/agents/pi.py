"""The pi agent: a process of ours for each thread that is at work, and its memory of the thread on disk.

Every input goes to pi as a `prompt` with a `streamingBehavior`: its own `steer`, sent to an idle pi, runs nothing.
What follows up waits here, not in pi, because pi's queue dies with its process.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from mediamill.agents.contract import AgentBusyError, AgentRefusedError, Answer, Image, Turn
from mediamill.agents.failures import one_line
from mediamill.agents.fit import fit_history
from mediamill.agents.openai_chat import DEFAULT_MODEL, checked_key, checked_url
from mediamill.agents.pi_pool import PiPool
from mediamill.agents.pi_process import PiProcess
from mediamill.agents.pi_run import Piece, PiRun
from mediamill.agents.pi_setup import (
    PiProgram,
    configure_pi,
    install_pi,
    pi_command,
    pi_environment,
    pi_folder,
    pi_key,
)
from mediamill.agents.pi_thread import PiThread
from mediamill.environment import secret_file
from mediamill.settings import Settings

LOCK_SECONDS = 15.0
DEFAULT_INSTRUCTIONS = "You are a helpful assistant."

log = logging.getLogger(__name__)


class NotAcceptedError(AgentRefusedError):
    """pi does not take this input."""


class PiAgent:
    """All threads of one data folder. pi is installed when it is first needed, or before by `install_pi`."""

    remembers = True

    def __init__(self, settings: Settings, program: PiProgram | None = None) -> None:
        checked_url(settings)
        self.settings, self.key = settings, checked_key(settings)
        self._program = program
        self._config: Path | None = None
        self._setting_up = asyncio.Lock()
        self._sessions: WeakValueDictionary[str, PiSession] = WeakValueDictionary()
        self.pool = PiPool(settings.pi_sessions, settings.pi_idle_seconds)

    def session(self, thread_key: str, history: Sequence[Turn] = (), instructions: str = "") -> PiSession:
        """The thread's session; the history counts if pi has not heard of this thread before."""
        session = self._sessions.get(thread_key)
        if session is None:
            session = self._sessions[thread_key] = PiSession(self, thread_key)
        session.history, session.instructions = tuple(history), instructions or DEFAULT_INSTRUCTIONS
        return session

    async def close(self) -> None:
        """Stop every process; runs under way fail, and may be asked again."""
        await self.pool.close()

    async def start_process(self, thread: PiThread, instructions: str, history: Sequence[Turn]) -> PiProcess:
        """A pi process for this thread, which goes on where the thread was."""
        program, config = await self._ready()
        lock = await _lock(thread)
        try:
            model = self.settings.text_model or DEFAULT_MODEL
            kept = fit_history(history, "", self.settings.agent_context_tokens)
            await asyncio.to_thread(thread.prepare, instructions, kept, model)
            command = pi_command(program, self.settings, thread.session, thread.instructions)
            with secret_file(pi_key(self.settings)) as key:
                environment = pi_environment(config, key)
                return await PiProcess.start(command, environment, thread.work, (lock, key))
        finally:
            os.close(lock)  # pi has its own copy

    async def _ready(self) -> tuple[PiProgram, Path]:
        """Install and configure pi, once."""
        async with self._setting_up:
            if self._program is None:
                self._program = await asyncio.to_thread(install_pi, self.settings, log.info)
            if self._config is None:
                self._config = await asyncio.to_thread(configure_pi, self.settings)
            return self._program, self._config


class PiSession:
    """One thread. At most one run of it goes on at a time."""

    def __init__(self, agent: PiAgent, thread_key: str) -> None:
        self._agent = agent
        self._thread = PiThread(pi_folder(agent.settings), thread_key)
        self._turn, self._speaking = asyncio.Lock(), asyncio.Lock()
        self._now: tuple[PiRun, PiProcess] | None = None
        self.history: Sequence[Turn] = ()
        self.instructions = DEFAULT_INSTRUCTIONS
        self.tokens = 0

    async def prompt(self, text: str, images: Sequence[Image] = (), key: str | None = None) -> Answer:
        """Ask, in turn. If it fails, pi forgets that it was asked. What was answered before is only given again."""
        async with self._turn:
            if (said := await self._said_before(key)) is not None:
                yield said
                return
            fields = _input(text, images, "followUp")
            async with self._process() as process, aclosing(self._run(process, fields, key)) as answer:
                async for piece in answer:
                    yield piece

    follow_up = prompt

    async def steer(self, text: str, images: Sequence[Image] = (), key: str | None = None) -> Answer:
        """Say it into the run that goes on, and end with it; without one it is a prompt."""
        try:
            async with aclosing(self._say_into(_input(text, images, "steer"), key)) as answer:
                async for piece in answer:
                    yield piece
        except NotAcceptedError:
            async with aclosing(self.prompt(text, images, key)) as answer:
                async for piece in answer:
                    yield piece

    async def _run(self, process: PiProcess, fields: dict[str, Any], key: str | None) -> Answer:
        _check_sees(process, fields)
        run = PiRun(self._agent.key)
        process.on_event = lambda event: run.take(event) if event else run.fail(process.death())
        queue = run.add_input(key)
        self._thread.begin(run.keys)
        self._now = (run, process)
        try:
            until = self._time_is_up()
            await self._send(process, run, fields, until)
            async with aclosing(self._listen(queue, until)) as answer:
                async for piece in answer:
                    yield piece
        finally:
            self._now = None
            self.tokens += run.tokens
            run.fail(AgentBusyError("the run that this was said into did not end well"))
        if run.failed:  # by what was said into it, or by the end of pi after its last word
            await process.stop()
            await self._recover()
        else:
            await _to_end(self._thread.settle)

    async def _say_into(self, fields: dict[str, Any], key: str | None) -> Answer:
        """NotAcceptedError if there is no run that takes it."""
        until = self._time_is_up()
        async with self._speaking:  # pi hears them in the order in which they came
            now = self._now
            if now is None or (key is not None and key in now[0].keys) or not await now[0].is_open():
                raise NotAcceptedError
            said = None if key is None else await asyncio.to_thread(self._thread.answer_to, key)
            if said is None:
                queue = await self._speak(now, fields, key, until)
        if said is not None:
            yield said
            return
        async with aclosing(self._listen(queue, until)) as answer:
            async for piece in answer:
                yield piece

    async def _speak(
        self, now: tuple[PiRun, PiProcess], fields: dict[str, Any], key: str | None, until: float
    ) -> asyncio.Queue[Piece]:
        """Into the run that goes on; where its answer will come."""
        run, process = now
        if self._now is not now or run.done:
            raise NotAcceptedError
        _check_sees(process, fields)
        queue = run.add_input(key)
        self._thread.hear(run.keys)
        try:
            await self._send(process, run, fields, until)
        except NotAcceptedError:
            run.withdraw(queue)
            if self._now is now:
                self._thread.hear(run.keys)
            raise
        return queue

    async def _said_before(self, key: str | None) -> str | None:
        """What was answered to this input, if whoever asked died before he could keep it."""
        if key is None:
            return None
        if await asyncio.to_thread(self._thread.is_left, key):
            await self._recover()
        return await asyncio.to_thread(self._thread.answer_to, key)

    async def _recover(self) -> None:
        lock = await _lock(self._thread)
        try:
            await _to_end(self._thread.recover)
        finally:
            os.close(lock)

    def _process(self) -> AbstractAsyncContextManager[PiProcess]:
        agent, thread, instructions = self._agent, self._thread, self.instructions
        return agent.pool.borrow(
            thread.folder.name,
            instructions,
            lambda: agent.start_process(thread, instructions, self.history),
            agent.settings.agent_timeout_seconds,
        )

    def _time_is_up(self) -> float:
        """When a run that begins now must be done."""
        return asyncio.get_running_loop().time() + self._agent.settings.agent_timeout_seconds

    async def _send(self, process: PiProcess, run: PiRun, fields: dict[str, Any], until: float) -> None:
        """Until pi has taken it. NotAcceptedError: it does not."""
        with self._in_time():
            async with asyncio.timeout_at(until):
                accepted = await process.ask("prompt", **fields)
        if not accepted.get("success"):
            raise NotAcceptedError(f"pi does not take it: {one_line(str(accepted.get('error')), None)}")
        run.open()

    async def _listen(self, queue: asyncio.Queue[Piece], until: float) -> Answer:
        """What comes back for an input, within the time of a run."""
        while True:
            with self._in_time():
                async with asyncio.timeout_at(until):
                    piece = await queue.get()
            if piece is None:
                return
            if isinstance(piece, Exception):
                raise piece
            yield piece

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as error:
            seconds = self._agent.settings.agent_timeout_seconds
            fix = "raise MEDIAMILL_AGENT_TIMEOUT_SECONDS if it needs longer"
            raise AgentBusyError(f"pi was not done within {seconds:g} seconds", fix=fix) from error


def _input(text: str, images: Sequence[Image], behavior: str) -> dict[str, Any]:
    """As pi wants it. A text that begins with a slash would be taken for one of its commands."""
    shown = [
        {"type": "image", "data": base64.b64encode(image.data).decode("ascii"), "mimeType": image.mime_type}
        for image in images
    ]
    message = f" {text}" if text.startswith("/") else text
    return {"message": message, "images": shown, "streamingBehavior": behavior}


def _check_sees(process: PiProcess, fields: dict[str, Any]) -> None:
    """Images for a model that takes none would be left out by pi, in silence."""
    if fields["images"] and "image" not in process.inputs:
        fix = "set MEDIAMILL_TEXT_MODEL to a model that sees, or send no images"
        raise AgentRefusedError("the model of pi takes no images", fix=fix)


async def _to_end(work: Callable[[], None]) -> None:
    """Do it in a thread, and wait for its end even if nobody waits for us any more: others may touch the files then."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


async def _lock(thread: PiThread) -> int:
    """The lock of the thread: a pi process that an earlier server left may need a moment to end."""
    until = asyncio.get_running_loop().time() + LOCK_SECONDS
    while (lock := thread.try_lock()) is None:
        if asyncio.get_running_loop().time() > until:
            fix = "does another mediamill use this data folder?"
            raise AgentBusyError("another pi process has this thread", fix=fix)
        await asyncio.sleep(0.05)
    return lock

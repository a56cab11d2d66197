"""One pi process in its RPC mode: JSON lines, split on LF only; commands with answers, and a stream of events."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mediamill.agents.contract import AgentBusyError
from mediamill.agents.failures import one_line

START_SECONDS = 60.0
STOP_SECONDS = 5.0
CHUNK_BYTES = 1 << 16
LONGEST_LINE_BYTES = 64 << 20  # an event repeats the images of its run
# These say again, images and all, what other events said: reading them would only take time.
REPEATS = (b'{"type":"agent_end"', b'{"type":"turn_end"')
Record = dict[str, Any]

log = logging.getLogger(__name__)


class PiProcess:
    """Made by `start`. `on_event` is told of every event, and with None of the end of the process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)
        self._asked: dict[str, asyncio.Future[Record]] = {}
        self._complaints: deque[str] = deque(maxlen=5)
        self._ended = False
        self.inputs: frozenset[str] = frozenset()  # what its model takes: text, image
        self.on_event: Callable[[Record | None], None] = lambda _: None
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_complaints())]

    @classmethod
    async def start(
        cls, command: Sequence[str], environment: Mapping[str, str], folder: Path, descriptors: Sequence[int]
    ) -> PiProcess:
        """Start it and wait until it answers. The process keeps the descriptors, a lock and a key, for its life."""
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=folder,
                env=dict(environment),
                pass_fds=descriptors,
                start_new_session=True,  # so that its tools can be ended with it
            )
        except OSError as error:
            raise AgentBusyError(f"pi could not be started: {error}") from error
        made = cls(process)
        try:
            async with asyncio.timeout(START_SECONDS):
                made.inputs = _read_inputs(await made.ask("get_state"))
        except BaseException as error:
            await made.kill()
            if isinstance(error, TimeoutError):
                raise AgentBusyError(f"pi did not start within {START_SECONDS:g} seconds") from error
            if isinstance(error, AgentBusyError):
                raise made.death() from error  # by now with all that it complained of
            raise
        return made

    @property
    def pid(self) -> int:
        """Of the Node.js process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can still be asked."""
        return self._process.returncode is None and not self._ended

    async def ask(self, command: str, **fields: Any) -> Record:
        """Send a command; what it answers at once. That it accepts a prompt says nothing about the run."""
        if not self.alive:
            raise self.death()
        id_ = f"m{next(self._numbers)}"
        answer: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._asked[id_] = answer
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"id": id_, "type": command, **fields}).encode() + b"\n")
            await self._process.stdin.drain()
            return await answer
        except (BrokenPipeError, ConnectionResetError) as error:
            raise self.death() from error
        finally:
            self._asked.pop(id_, None)

    async def answers(self) -> bool:
        """Whether it is well: a process may have died, or hang, without our having heard of it."""
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await self.ask("get_state")
        except (AgentBusyError, TimeoutError):
            return False
        return True

    def death(self) -> AgentBusyError:
        """The error for those who needed it alive."""
        said = one_line(" ".join(self._complaints), None)
        return AgentBusyError(f"the pi process ended in the midst of its work{f': {said}' if said else ''}")

    async def stop(self) -> None:
        """Let it end in good order, and by force if it does not."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_SECONDS):
                await self._process.wait()
        await self.kill()

    async def kill(self) -> None:
        """End it and all that it started, now."""
        self._strike()
        await self._process.wait()
        await asyncio.wait(
            self._tasks, timeout=1
        )  # what it said last; a process that it left behind may hold its output
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _strike(self) -> None:
        if self._process.returncode is None:  # else the number may be another's by now
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            await self._read_lines(self._process.stdout)
        except (ValueError, RecursionError) as error:
            self._complaints.append(f"it wrote what cannot be read ({error})")
            self._strike()
        finally:
            self._end()
        while await self._process.stdout.read(CHUNK_BYTES):
            pass  # its end is seen only when all is read

    async def _read_lines(self, output: asyncio.StreamReader) -> None:
        held = bytearray()
        while chunk := await output.read(CHUNK_BYTES):
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                self._take(bytes(held) + line)
                held.clear()
            held += rest
            if len(held) > LONGEST_LINE_BYTES:
                raise ValueError(f"a line of more than {LONGEST_LINE_BYTES} bytes")

    def _take(self, line: bytes) -> None:
        if not line.strip() or line.startswith(REPEATS):
            return
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError("not an object")
        if record.get("type") != "response":
            self.on_event(record)
        elif (answer := self._asked.get(str(record.get("id")))) and not answer.done():
            answer.set_result(record)

    def _end(self) -> None:
        """Nothing more will be heard: whoever waits is told."""
        self._ended = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(self.death())
        self.on_event(None)

    async def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(CHUNK_BYTES):
            for line in chunk.decode(errors="replace").splitlines():
                log.debug("pi %s: %s", self.pid, line[:500])
                self._complaints.append(line[:200])


def _read_inputs(state: Record) -> frozenset[str]:
    """What the model takes, as the state of pi tells it."""
    try:
        return frozenset(map(str, state["data"]["model"]["input"]))
    except (LookupError, TypeError):
        return frozenset()

"""The worker's end of one child process: starts it, gives it work, watches its time and memory, ends it.

Everything happens on the event loop, with a raw socket: a no-op job costs one send and one receive.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
from collections.abc import Callable, Sequence

import msgspec

from mediamill.clock import wait_at_most
from mediamill.processors.models.servers import model_servers
from mediamill.settings import Settings
from mediamill.worker import failures
from mediamill.worker.child_watch import ChildWatch
from mediamill.worker.messages import (
    FAILURE_ALLOWANCE_BYTES,
    HEADER,
    Done,
    Failed,
    Progress,
    Ready,
    Report,
    decode_from_child,
)
from mediamill.worker.process_tree import kill_family, measure_memory
from mediamill.worker.spawn import ChildPlan, Limits, describe_end, open_pidfd, start_child
from mediamill.worker.start_caller import start_caller

TAIL_BYTES = 65536
LOOK_SECONDS = 0.5
REAP_SECONDS = 5.0
_log = logging.getLogger(__name__)
_buffer = memoryview(bytearray(65536))  # used only between a read and its decoding, on one event loop


class WarmChild:
    """One child process. `on_ready` is called once; `on_gone` once, with the reason, when it is given up."""

    def __init__(
        self,
        plan: ChildPlan,
        on_ready: Callable[[WarmChild], None],
        on_gone: Callable[[WarmChild, Exception], None],
    ) -> None:
        self.plan = plan
        self.jobs_done = 0
        self.ready = False
        self.alive = True
        self.made_folder = True  # by the last job, as far as is known
        self.worn = False  # not to be given another job
        self.idle_since = 0.0
        self.owner: str | None = None  # whom it works for; nobody yet
        self._reaped = asyncio.Event()
        self._on_ready, self._on_gone = on_ready, on_gone
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._work: asyncio.Future[Done] | None = None
        self._on_report: Callable[[Report], None] = _ignore
        self._frame_limit = FAILURE_ALLOWANCE_BYTES
        self._partial, self._unsent, self._tail = bytearray(), bytearray(), bytearray()
        self._first_weight, self._weigh_at = 0, 0.0
        self._timeout_seconds = plan.start_seconds
        self._deadline = self._loop.time() + plan.start_seconds
        started = start_child(plan)
        self._process, self._sock, self._noise = started.process, started.link, started.noise
        self._watch = ChildWatch(self.pid, plan.folder, plan.limits.memory_bytes, alone=plan.alone)
        self._callers = started.callers
        self._caller: subprocess.Popen[bytes] | None = None
        self._listen()
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def busy(self) -> bool:
        return self._work is not None

    @property
    def is_late(self) -> bool:
        """Has its job used up half of its time?"""
        return self.busy and self._deadline - self._loop.time() < self._timeout_seconds / 2

    def assign(
        self,
        number: int,
        data: bytearray,
        files: Sequence[int],
        limits: Limits,
        on_report: Callable[[Report], None],
    ) -> asyncio.Future[Done]:
        """Send one job with its open files; the future is its result, or the exception that says how it failed."""
        self._work = work = self._loop.create_future()
        self._number, self._on_report, self.made_folder = number, on_report, True
        self._frame_limit = limits.output_bytes + FAILURE_ALLOWANCE_BYTES
        self._timeout_seconds = limits.timeout_seconds
        self._deadline = self._loop.time() + limits.timeout_seconds
        self._watch.begin_job(limits.written_bytes)
        self._tail.clear()  # what earlier jobs printed is none of this one's business
        if self._timer is None or self._timer.when() > self._deadline:
            self._set_timer()
        self._send(data, files)
        return work

    def end(self, reason: Exception) -> None:
        """Kill the child with all that it started; its job, if any, fails with the reason."""
        if not self.alive:
            return
        kill_family(self.pid, self.plan.mark)
        self._read_noise()
        self.alive = False
        self._loop.remove_reader(self._sock.fileno())
        self._loop.remove_writer(self._sock.fileno())
        self._sock.close()
        self._end_caller()
        self._watch.close()
        self._loop.remove_reader(self._noise)
        os.close(self._noise)
        if self._timer is not None:
            self._timer.cancel()
        self._reap()
        work, self._work = self._work, None
        if work is not None and not work.done():
            work.set_exception(reason)
        self._on_gone(self, reason)

    async def wait_until_reaped(self) -> None:
        """After its end; for a while only, as a process that the kernel holds cannot be killed."""
        await wait_at_most(self._reaped, REAP_SECONDS)

    def _end_caller(self) -> None:
        if self._callers is not None:
            self._callers.close()
        if self._caller is not None:
            self._caller.kill()
            self._loop.run_in_executor(None, self._caller.wait)

    def has_outgrown_half_its_limit(self) -> bool:
        """Whether memory has grown that much since the first job, looked at once a second at most."""
        now = self._loop.time()
        if now < self._weigh_at:
            return False
        self._weigh_at = now + 1.0
        memory = measure_memory(self.pid)
        self._first_weight = self._first_weight or memory
        return memory - self._first_weight > self.plan.limits.memory_bytes / 2

    def crash_error(self, what: str) -> failures.ProcessorCrashedError:
        """The error for a child that went wrong, with the last that it printed."""
        self._read_noise()
        tail = self._tail.decode("utf-8", "replace").replace("\0", "\\0").strip()
        lines = _telling_lines(tail)
        kind = failures.ProcessorCrashedError if self.ready else failures.ProcessorStartError
        message = f"processor {self.plan.processor!r} {what}"
        return kind(f"{message}: {lines}" if lines else message, traceback=tail or None)

    def _listen(self) -> None:
        self._loop.add_reader(self._sock.fileno(), self._readable)
        self._loop.add_reader(self._noise, self._read_noise)
        # Something that the child forked may keep its socket open, so its death is watched apart from that.
        self._pidfd = open_pidfd(self._process.pid)
        if self._pidfd is not None:
            self._loop.add_reader(self._pidfd, self._exited)

    def _send(self, data: bytearray, files: Sequence[int] = ()) -> None:
        try:
            # Its buffer is empty when a job begins, so the files go with the first bytes at once.
            sent = socket.send_fds(self._sock, [data], list(files)) if files else self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # it is dying; _exited tells how
        if sent < len(data):
            self._unsent = data[sent:]
            self._loop.add_writer(self._sock.fileno(), self._send_rest)

    def _send_rest(self) -> None:
        data, self._unsent = self._unsent, bytearray()
        self._loop.remove_writer(self._sock.fileno())
        self._send(data)

    def _readable(self) -> bool:
        """Take what has arrived; False when there is no more."""
        try:
            count = self._sock.recv_into(_buffer)
        except BlockingIOError:
            return False
        except OSError:
            count = 0
        if count == 0:
            self._hung_up()
            return False
        if (
            not self._partial
            and count > HEADER.size
            and HEADER.unpack_from(_buffer)[0] == count - HEADER.size
        ):
            self._receive(_buffer[HEADER.size : count])
        else:
            self._partial += _buffer[:count]
            self._split()
        return self.alive

    def _split(self) -> None:
        while self.alive and len(self._partial) >= HEADER.size:
            size = HEADER.unpack_from(self._partial)[0]
            if size > self._frame_limit:
                return self.end(self.crash_error(f"sent a message of {size} bytes, which is above the limit"))
            end = HEADER.size + size
            if len(self._partial) < end:
                return None
            message = bytes(memoryview(self._partial)[HEADER.size : end])
            del self._partial[:end]
            self._receive(message)
        return None

    def _receive(self, data: bytes | memoryview) -> None:
        try:
            message = decode_from_child(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self.end(self.crash_error("sent something that is not a message"))
        if isinstance(message, Progress):
            return self._report(message)
        if isinstance(message, Ready) and not self.ready:
            return self._became_ready(message)
        if isinstance(message, Failed) and not self.ready:
            return self.end(failures.ProcessorStartError(message.message, traceback=message.traceback))
        work = self._work
        if isinstance(message, Ready) or work is None or message.number != self._number:
            return self.end(self.crash_error("answered what it was not asked"))
        return self._finish(work, message)

    def _finish(self, work: asyncio.Future[Done], message: Done | Failed) -> None:
        if error := self._watch.end_job():
            return self.end(error)
        self._work, self._on_report = None, _ignore
        self.jobs_done += 1
        if work.done():  # cancelled in this very moment
            return None
        self.made_folder = message.folder
        if isinstance(message, Done):
            work.set_result(message)
        else:
            work.set_exception(_error_from(message, self.plan.limits))
            caller_died = self._caller is not None and self._caller.poll() is not None
            self.worn = message.kind == "memory" or caller_died
        return None

    def _report(self, message: Progress) -> None:
        if self._work is None or message.number != self._number:
            return  # a thread that an earlier job left behind
        try:
            self._on_report(message.report)
        except Exception:
            _log.exception("a progress report could not be passed on")

    def _became_ready(self, message: Ready) -> None:
        if self._callers is not None and message.network:
            self._caller = start_caller(self._callers, model_servers(Settings()))
        elif self._callers is not None:
            self._callers.close()
        self._callers = None
        self._watch.end_job()
        self.ready = True
        self._on_ready(self)

    def _hung_up(self) -> None:
        self._loop.remove_reader(self._sock.fileno())
        if self._pidfd is None:
            return self.end(self.crash_error("ended"))
        # It is most likely dying, and its exit tells more than the closed socket does.
        self._loop.call_later(LOOK_SECONDS, self._end_hung_up)
        return None

    def _end_hung_up(self) -> None:
        if self.alive:
            self.end(self.crash_error("closed its connection"))

    def _exited(self) -> None:
        assert self._pidfd is not None
        if not self.alive:
            return self._reap()
        while self._readable():  # its last words may be a result
            pass
        if not self.alive:
            return None
        return self.end(self.crash_error(describe_end(self._pidfd)))

    def _reap(self) -> None:
        if self._process.poll() is None:
            if self._pidfd is None:
                self._loop.call_later(0.05, self._reap)
            return
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._reaped.set()

    def _read_noise(self) -> None:
        """Keep the end of what the child prints; bounded, so that a noisy child cannot hold the loop."""
        for _ in range(16):
            try:
                got = os.read(self._noise, TAIL_BYTES)
            except OSError:
                return
            if not got:
                self._loop.remove_reader(self._noise)
                return
            self._tail += got
            del self._tail[:-TAIL_BYTES]

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        soon = self._loop.time() + LOOK_SECONDS
        at = min(self._deadline, soon) if self.busy or not self.ready else soon
        self._timer = self._loop.call_at(at, self._look)

    def _look(self) -> None:
        """Twice a second: the clock, while there is a job, and what the child uses."""
        self._timer = None
        waits = self.busy or not self.ready
        if waits and self._loop.time() >= self._deadline:
            self.end(self._late_error())
        elif error := self._watch.look(busy=self.busy, ready=self.ready):
            if not waits:
                _log.warning("an idle child process of %s is ended: %s", self.plan.processor, error)
            self.end(error)
        else:
            self._set_timer()

    def _late_error(self) -> Exception:
        if not self.ready:
            return self.crash_error(f"was not ready within {self._timeout_seconds:g} s")
        tail = self._tail.decode("utf-8", "replace").replace("\0", "\\0").strip()
        text = failures.timeout_text(self.plan.processor, self._timeout_seconds)
        return failures.ProcessorTimeoutError(text, traceback=tail or None)


def _telling_lines(tail: str) -> str:
    """The last three lines; of a dump by faulthandler those where it happened, which come first."""
    _, found, dump = tail.rpartition("(most recent call first):\n")
    lines = dump.splitlines()[:3] if found else tail.splitlines()[-3:]
    return " | ".join(line.strip() for line in lines)


def _error_from(failed: Failed, limits: Limits) -> Exception:
    told = {"fix": failed.fix, "traceback": failed.traceback}
    if failed.kind == "memory":
        text = f"the processor wanted more than its limit of {limits.memory_bytes} bytes of memory"
        return failures.MemoryLimitError(text, **told)
    if failed.kind == "output":
        return failures.InvalidOutputError(failed.message, **told)
    if failed.kind == "elsewhere" and failed.mime_type is not None:
        return failures.WrongPoolError(failed.mime_type)
    if failed.kind == "permanent":
        return failures.ProcessorGaveUpError(failed.message, code=failed.code, notice=failed.notice, **told)
    if failed.kind == "not_now":
        return failures.ProcessorWaitsError(failed.message, code=failed.code, **told)
    return failures.ProcessorFailedError(failed.message, code=failed.code, **told)


def _ignore(_: Report) -> None:
    return None

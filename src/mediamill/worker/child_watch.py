"""What a child process uses besides its time: memory, threads, what it writes, and what it does when nobody asked.

All of it is looked at twice a second, for as long as the child lives. What it has written is looked at when a job ends
as well, so that neither short jobs nor what they leave running can pass by the limit.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from mediamill.worker import failures
from mediamill.worker.process_tree import measure_cpu, measure_memory, measure_use, measure_writes
from mediamill.worker.scratch import has_more_files

MOST_THREADS = 500 + 8 * (os.cpu_count() or 1)  # libraries start some for each core
MOST_FILES = 20_000  # in its folder, at once
IDLE_BYTES = 1 << 20  # what it may write between two jobs, for the sake of libraries that log
IDLE_CPU_SECONDS, IDLE_CPU_SHARE = 1.0, 0.05


class ChildWatch:
    """One child. `alone`: it cannot start processes, so that there are no others to look at."""

    def __init__(self, pid: int, folder: Path, memory_bytes: int, *, alone: bool) -> None:
        self._pid, self._folder, self._memory_bytes, self._alone = pid, folder, memory_bytes, alone
        self._may_write = IDLE_BYTES
        self._written_before = 0
        self._idle_from: tuple[float, float] | None = None  # time, and the processor time used by then
        self._io = -1
        with contextlib.suppress(OSError):  # kept open, as it is read after every job
            self._io = os.open(f"/proc/{pid}/io", os.O_RDONLY)

    def close(self) -> None:
        """The child is gone."""
        if self._io >= 0:
            os.close(self._io)
            self._io = -1

    def begin_job(self, may_write: int) -> None:
        """What it writes from now on is the job's."""
        self._may_write, self._idle_from = may_write, None

    def end_job(self) -> Exception | None:
        """The job is over, or the child is ready for the first one. An error, if the job wrote too much."""
        error, self._written_before = self._check_writes()
        self._may_write, self._idle_from = IDLE_BYTES, None
        return error

    def look(self, *, busy: bool, ready: bool) -> Exception | None:
        """The reason to end the child, if there is one."""
        if ready and (error := self._check_writes()[0]):
            return error
        use = measure_use(self._pid, MOST_THREADS, alone=self._alone)
        if use.threads > MOST_THREADS:
            return failures.TooManyThreadsError(f"the processor had more than {MOST_THREADS} threads at once")
        limit = self._memory_bytes
        if use.memory_bytes > limit and measure_memory(self._pid, exact=True) > limit:
            return failures.MemoryLimitError(
                f"the processor used more than its limit of {limit} bytes of memory"
            )
        if has_more_files(self._folder, MOST_FILES):
            return failures.TooMuchWrittenError(f"the processor made more than {MOST_FILES} files")
        return self._check_idle() if ready and not busy else None

    def _check_writes(self) -> tuple[Exception | None, int]:
        written = measure_writes(self._pid, self._io, alone=self._alone)
        if written - self._written_before <= self._may_write:
            return None, written
        error = failures.TooMuchWrittenError(
            f"the processor wrote more than its limit of {self._may_write} bytes"
        )
        return error, written

    def _check_idle(self) -> Exception | None:
        now, used = time.monotonic(), measure_cpu(self._pid, alone=self._alone)
        if self._idle_from is None:
            self._idle_from = now, used
        since, before = self._idle_from
        if used - before > IDLE_CPU_SECONDS + IDLE_CPU_SHARE * (now - since):
            return failures.ProcessorCrashedError("the processor went on computing after its job")
        return None

"""Fuzz: strangers' files, thousands of them, through a real worker with the real processors; then the account.

The worker runs in a folder of its own, among canaries: a corpus, a home, a temporary folder, a working folder.
Whatever is made or changed there has escaped. Each file is one job with one attempt.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mediamill.db.connection import Database
from mediamill.db.embedded import EmbeddedServer, ServerUse
from mediamill.db.migrate import upgrade
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import NewJob
from mediamill.engine.pools import list_pools, set_pools
from mediamill.media.sniff import sniff
from mediamill.processors.registry import processor_names
from mediamill.staging import jobs as staging_jobs
from mediamill.staging.process import reference_to
from mediamill.testing import fuzz_watch as watch
from mediamill.testing.fuzz_files import FuzzFile, write_corpus

CHUNK = 200
LOOK_SECONDS = 0.5
GRACE_SECONDS = 60.0  # for a child to start on a busy machine, and for jobs that were claimed ahead
CONCURRENCY = 2  # per pool, at most
CANARIES = ("corpus", "home", "temporary", "work")
LATE = (
    "select subject_id from jobs where state = 'running' and claimed_at < now() - make_interval(secs => $1)"
)
MAY_APPEAR = ("scratch", "derivatives", "logs")  # in the data folder


@dataclass(slots=True)
class FuzzPlan:
    """How much of it."""

    files: int = 2000
    seed: int = 1
    timeout_seconds: float = 60  # the first job of a child loads its models, and others do so at that time
    keep: Path | None = None
    patience_seconds: float = 300


@dataclass(slots=True)
class FuzzReport:
    """What became of it. Lists name files. Children that died or were stopped at the time limit are no fault."""

    files: int
    seed: int
    seconds: float = 0
    crashed: list[str] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    escaped: list[str] = field(default_factory=list)
    over_memory: list[str] = field(default_factory=list)
    without_reason: list[str] = field(default_factory=list)
    child_deaths: list[str] = field(default_factory=list)
    timed_out: list[str] = field(default_factory=list)
    by_status: Counter[str] = field(default_factory=Counter)
    peak_memory_bytes: dict[str, int] = field(default_factory=dict)
    slowest: list[str] = field(default_factory=list)

    @property
    def faults(self) -> dict[str, list[str]]:
        """What must be empty."""
        names = ("crashed", "hung", "escaped", "over_memory", "without_reason")
        return {name: getattr(self, name) for name in names}

    @property
    def is_clean(self) -> bool:
        """No crash, no hang, nothing outside, memory kept, a reason for each failure."""
        return not any(self.faults.values())

    def as_dict(self) -> dict[str, Any]:
        """For scripts: numbers first, then the files behind them."""
        return {
            "files": self.files,
            **{name: len(found) for name, found in self.faults.items()},
            "seed": self.seed,
            "child_deaths": len(self.child_deaths),
            "timed_out": len(self.timed_out),
            "seconds": round(self.seconds, 1),
            "by_status": dict(self.by_status),
            "peak_memory_bytes": self.peak_memory_bytes,
            "slowest": self.slowest,
            "found": {**self.faults, "child_deaths": self.child_deaths, "timed_out": self.timed_out},
        }


@dataclass(slots=True)
class Fuzz:
    """One run."""

    plan: FuzzPlan
    told: Callable[[int, int], None] = lambda _done, _files: None
    _folder: Path = field(init=False)
    _use: ServerUse | None = None
    _worker: subprocess.Popen[bytes] | None = None
    _files: list[FuzzFile] = field(default_factory=list)
    _failures: list[str] = field(default_factory=list)
    _report: FuzzReport = field(init=False)

    async def run(self) -> FuzzReport:
        """From an empty folder to the account."""
        self._folder = Path(tempfile.mkdtemp(prefix="mediamill-fuzz-"))
        begun = time.monotonic()
        try:
            await self._prepare()
            before, known = self._snapshot(), self._data_names()
            await self._work()
            await self._account()
            self._stop_worker()
            self._report.escaped += watch.differences(before, self._snapshot())
            self._report.escaped += sorted(self._data_names() - known - {*MAY_APPEAR})
            self._report.seconds = time.monotonic() - begun
            await asyncio.to_thread(self._keep_files)
            return self._report
        finally:
            await self._clean_up()

    # -- steps

    async def _prepare(self) -> None:
        for name in CANARIES:
            (self._folder / name).mkdir()
        (self._folder / "home" / "canary.txt").write_text("sings")
        self._files = await asyncio.to_thread(
            write_corpus, self._folder / "corpus", self.plan.files, self.plan.seed
        )
        self._report = FuzzReport(len(self._files), self.plan.seed)
        self._use = await asyncio.to_thread(EmbeddedServer(self._data).start)
        await upgrade(self._use.url)
        async with self._open() as database, database.transaction() as connection:
            changes = [
                {
                    "name": pool.name,
                    "timeout_seconds": self.plan.timeout_seconds,
                    "concurrency": min(CONCURRENCY, pool.concurrency),
                }
                for pool in await list_pools(connection)
            ]
            await set_pools(connection, changes, processor_names())

    async def _work(self) -> None:
        async with self._open() as database:
            self._start_worker()
            await self._enqueue(database)
            await self._wait(database)

    async def _enqueue(self, database: Database) -> None:
        enqueuer = Enqueuer(Kinds(staging_jobs.KINDS))
        for first in range(0, len(self._files), CHUNK):
            numbers = range(first, min(first + CHUNK, len(self._files)))
            jobs = await asyncio.to_thread(lambda chosen: [self._job(number) for number in chosen], numbers)
            async with database.transaction() as connection:
                await enqueuer.enqueue_jobs(connection, jobs)

    def _job(self, number: int) -> NewJob:
        file = self._files[number]
        path = self._folder / "corpus" / file.path
        name = os.fsencode(file.original_name).decode("utf-8", "replace")
        metadata = {"original_filename": name}
        payload = {"file": reference_to(path), "original_filename": name, "media_metadata": metadata}
        mime_type = sniff(path).mime_type
        return NewJob(
            staging_jobs.PROCESS, payload, subject_id=str(number), mime_type=mime_type, max_attempts=1
        )

    async def _wait(self, database: Database) -> None:
        """Until all jobs have ended, or nothing moves any more."""
        limit = self.plan.timeout_seconds + GRACE_SECONDS
        hung: set[str] = set()
        last, moved_at = -1, time.monotonic()
        while last != 0 and time.monotonic() - moved_at < self.plan.patience_seconds + limit:
            self._look_at_worker()
            async with database.connection() as connection:
                left = await connection.fetchval("select count(*) from jobs")
                late = await connection.fetch(LATE, limit)
            hung |= {row["subject_id"] for row in late}
            if left != last:
                last, moved_at = left, time.monotonic()
            self.told(len(self._files) - left, len(self._files))
            await asyncio.sleep(LOOK_SECONDS)
        self._report.hung += [self._name(subject) for subject in sorted(hung)]

    def _look_at_worker(self) -> None:
        assert self._worker is not None
        if self._worker.poll() is not None:
            self._report.crashed.append(f"the worker ended with {self._worker.returncode}")
            self._start_worker()
        peaks = self._report.peak_memory_bytes
        for processor, memory, too_much in watch.children_over_memory(self._worker.pid):
            peaks[processor] = max(memory, peaks.get(processor, 0))
            if too_much:
                self._report.over_memory.append(f"a child of {processor} held {memory} bytes")

    async def _account(self) -> None:
        async with self._open() as database, database.connection() as connection:
            dead = await connection.fetch("select subject_id, error from dead_jobs")
            done = await connection.fetchval("select count(*) from finished_jobs")
            left = await connection.fetch("select subject_id from jobs")
            # From the first claim: jobs that were claimed ahead and handed back count the time in between.
            slowest = await connection.fetch(
                "select subject_id, extract(epoch from ended_at - started_at)::float as seconds from ("
                "select subject_id, started_at, finished_at as ended_at from finished_jobs union all "
                "select subject_id, started_at, failed_at from dead_jobs) as ended "
                "order by 2 desc nulls last limit 5"
            )
        self._report.by_status["completed"] = done
        for row in dead:
            self._judge(self._name(row["subject_id"]), row["error"])
        self._report.crashed += [f"no end: {self._name(row['subject_id'])}" for row in left]
        ended = done + len(dead) + len(left)
        if ended != len(self._files):
            self._report.crashed.append(f"{len(self._files)} files, but {ended} jobs")
        self._report.slowest = [f"{row['seconds']:.1f} s: {self._name(row['subject_id'])}" for row in slowest]

    def _judge(self, name: str, reason: str) -> None:
        self._report.by_status["failed"] += 1
        found = f"{name}: {reason}"
        self._failures.append(found)
        if watch.tells_bad_start(reason):
            self._report.crashed.append(found)
        elif watch.tells_child_death(reason):
            self._report.child_deaths.append(found)
        elif watch.tells_memory_kill(reason):
            self._report.over_memory.append(found)
        elif not watch.is_clear(reason):
            self._report.without_reason.append(found)
        if reason.startswith("TIMEOUT:"):
            self._report.timed_out.append(found)

    def _keep_files(self) -> None:
        """Copies of all files that are named in the account, and the reason of every failure."""
        if self.plan.keep is None:
            return
        self.plan.keep.mkdir(parents=True, exist_ok=True)
        (self.plan.keep / "failures.txt").write_text("\n".join(self._failures), errors="backslashreplace")
        named = [text for found in self._report.faults.values() for text in found] + [
            *self._report.child_deaths,
            *self._report.timed_out,
        ]
        for number, file in enumerate(self._files):
            if any(self._name(str(number)) in text for text in named):
                source = self._folder / "corpus" / file.path
                shutil.copyfile(source, self.plan.keep / f"{number:05}{source.suffix[:10]}")

    async def _clean_up(self) -> None:
        self._stop_worker()
        if self._use is not None:
            await asyncio.to_thread(self._use.close)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    # -- pieces

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _name(self, subject: str) -> str:
        file = self._files[int(subject)]
        return f"#{subject} {file.path!r} ({file.origin})"

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[Database]:
        assert self._use is not None
        database = await Database.open(self._use.url, connections=2, name="fuzz", wait_seconds=60)
        try:
            yield database
        finally:
            await database.close()

    def _snapshot(self) -> watch.Snapshot:
        seen: watch.Snapshot = {}
        for name in CANARIES:
            seen |= watch.take_snapshot(self._folder / name)
        return seen | {str(path): (0, 0, 0) for path in self._folder.iterdir()}

    def _data_names(self) -> set[str]:
        return {path.name for path in self._data.iterdir()}

    def _start_worker(self) -> None:
        ours = {key: value for key, value in os.environ.items() if not key.startswith("MEDIAMILL_")}
        environment = {
            **ours,
            "MEDIAMILL_DATA": str(self._data),
            "MEDIAMILL_LOG_LEVEL": "ERROR",
            "HOME": str(self._folder / "home"),
            "TMPDIR": str(self._folder / "temporary"),
        }
        (self._data / "logs").mkdir(exist_ok=True)
        with (self._data / "logs" / "fuzz.log").open("ab") as log:
            self._worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "mediamill", "worker", "--name", "fuzz"],
                env=environment,
                cwd=self._folder / "work",
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _stop_worker(self) -> None:
        if self._worker is not None and self._worker.poll() is None:
            self._worker.send_signal(signal.SIGTERM)
            try:
                self._worker.wait(30)
            except subprocess.TimeoutExpired:
                self._worker.kill()
                self._worker.wait()

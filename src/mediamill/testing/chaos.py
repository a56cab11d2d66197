"""Chaos: workers, server and database are killed at random while jobs run; then every job is accounted for.

The processes are the real ones (`mediamill up`, `mediamill worker`) on a data folder of their own. Kills are
spread evenly over the run: the next is due when so many jobs have been delivered. A victim is started again
at once, as an init system would.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from mediamill.db.connection import LOST, Database, DatabaseDownError
from mediamill.db.embedded import (
    EmbeddedServer,
    EmbeddedServerError,
    ServerUse,
    postmaster_pid,
    stop_immediately,
)
from mediamill.db.migrate import upgrade
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.kinds import Kinds
from mediamill.engine.model import NewJob
from mediamill.engine.pools import set_pools
from mediamill.testing import chaos_kinds

log = logging.getLogger(__name__)

# It is being killed all the time, and a busy machine takes long to bring it back.
AWAY = (*LOST, asyncpg.PostgresError, EmbeddedServerError, DatabaseDownError)
KINDS = ("chaos.settled", "chaos.delivered", "chaos.processed")
CHUNK = 50
POOLS: list[dict[str, Any]] = [
    {
        "name": "chaos",
        "matches": ["chaos.settled", "chaos.delivered"],
        "concurrency": 8,
        "backoff_seconds": 0.05,
    },
    {"name": "chaos-processed", "matches": ["chaos.processed"], "processor": "scripted", "concurrency": 2},
]


# What somebody needs who has to find out why: the jobs, and whoever should have moved them.
STUCK = """
select jsonb_build_object(
    'jobs', (select jsonb_agg(j) from (select kind, state, worker_id, count(*), min(run_after) as run_after,
        max(lease_expires_at) as lease_expires_at, now() as now from jobs group by kind, state, worker_id) j),
    'workers', (select jsonb_agg(w) from (select id, name, state, process, heartbeat_at, session_lost_at
        from workers) w),
    'sessions', (select jsonb_agg(s) from (select application_name, state, query_start, left(query, 60) as query
        from pg_stat_activity where datname = current_database()) s))
"""


@dataclass(slots=True)
class ChaosPlan:
    """How much of it."""

    jobs: int = 5000
    kills: int = 200
    seed: int = 1
    workers: int = 3
    patience_seconds: float = 180


@dataclass(slots=True)
class ChaosReport:
    """What became of it. Lost: never delivered and gone; twice: delivered more than once; stuck: still waiting."""

    jobs: int
    kills: int
    lost: int
    twice: int
    stuck: int
    seed: int

    def as_dict(self) -> dict[str, int]:
        """For scripts."""
        return asdict(self)

    @property
    def is_clean(self) -> bool:
        """Nothing lost, nothing twice, nothing stuck."""
        return not (self.lost or self.twice or self.stuck)


@dataclass(slots=True)
class Chaos:
    """One run."""

    plan: ChaosPlan
    told: Callable[[int, int], None] = lambda _delivered, _kills: None
    _folder: Path = field(init=False)
    _server: EmbeddedServer = field(init=False)
    _uses: list[ServerUse] = field(default_factory=list)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _random: random.Random = field(init=False)
    kills: dict[str, int] = field(default_factory=dict)

    async def run(self) -> ChaosReport:
        """From an empty folder to the account."""
        self._random = random.Random(self.plan.seed)  # noqa: S311 - not for secrets
        self._folder = Path(tempfile.mkdtemp(prefix="mediamill-chaos-"))
        self._server = EmbeddedServer(self._folder)
        try:
            await self._prepare()
            self._start_processes()
            enqueuing = asyncio.create_task(self._enqueue())
            await self._kill_and_wait()
            await enqueuing
            await self._wait_for_rest()
            return await self._account()
        finally:
            await self._clean_up()

    # -- steps

    async def _prepare(self) -> None:
        self._uses.append(await asyncio.to_thread(self._server.start))
        await upgrade(self._uses[0].url)
        async with self._database() as database, database.transaction() as connection:
            await connection.execute(chaos_kinds.TABLE)
            await set_pools(connection, POOLS, ["scripted"])

    def _start_processes(self) -> None:
        self._start("server")
        for number in range(self.plan.workers):
            self._start(f"worker {number}")

    async def _enqueue(self) -> None:
        """With keys, so that a chunk whose commit was not heard can be sent again. About as fast as they are run."""
        kinds = Kinds(chaos_kinds.KINDS)
        enqueuer = Enqueuer(kinds)
        for first in range(0, self.plan.jobs, CHUNK):
            jobs = [self._job(number) for number in range(first, min(first + CHUNK, self.plan.jobs))]
            while True:
                try:
                    async with self._database() as database, database.transaction() as connection:
                        await enqueuer.enqueue_jobs(connection, jobs)
                    break
                except AWAY as error:
                    log.debug("enqueue again: %s", error)
                    await asyncio.sleep(0.1)

    def _job(self, number: int) -> NewJob:
        payload = {
            "number": number,
            "seconds": round(self._random.random() * 0.05, 3),
            "do": "sleep",
            "fail_first": self._random.random() < 0.05,
        }
        return NewJob(
            KINDS[number % len(KINDS)],
            payload,
            owner=f"owner {number % 7}",
            subject_id=f"subject {number}",
            max_attempts=1000,
            idempotency_key=str(number),
        )

    async def _kill_and_wait(self) -> None:
        done, last, moved_at = 0, 0, time.monotonic()
        while done < self.plan.kills and time.monotonic() - moved_at < self.plan.patience_seconds:
            delivered = await self._delivered()
            if delivered > last:
                last, moved_at = delivered, time.monotonic()
            if delivered >= done * self.plan.jobs / (self.plan.kills + 1) or delivered >= self.plan.jobs:
                await self._kill_one()
                done += 1
                moved_at = time.monotonic()
            self.told(delivered, done)
            self._revive()
            await asyncio.sleep(self._random.random() * 0.1)

    async def _kill_one(self) -> None:
        choice = self._random.random()
        victim = "database" if choice < 0.1 else "server" if choice < 0.25 else self._any_worker()
        kind = victim.split()[0]
        self.kills[kind] = self.kills.get(kind, 0) + 1
        log.info("kill: %s", victim)
        if victim == "database":
            await asyncio.to_thread(stop_immediately, self._folder)
            return
        process = self._processes[victim]
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._start(victim)

    async def _wait_for_rest(self) -> None:
        last, moved_at = -1, time.monotonic()
        while time.monotonic() - moved_at < self.plan.patience_seconds:
            delivered = await self._delivered()
            if delivered > last:
                last, moved_at = delivered, time.monotonic()
            self.told(max(delivered, 0), self.plan.kills)
            if delivered >= self.plan.jobs and await self._one("select count(*) from jobs") == 0:
                return
            self._revive()
            await asyncio.sleep(0.1)

    async def _account(self) -> ChaosReport:
        stuck = int(await self._one("select count(*) from jobs") or 0)
        delivered = int(await self._one("select count(*) from chaos_deliveries") or 0)
        twice = int(await self._one("select count(*) from chaos_deliveries where times > 1") or 0)
        if stuck:
            log.error("stuck: %s", await self._one(STUCK))
        lost = self.plan.jobs - delivered - stuck
        return ChaosReport(self.plan.jobs, self.plan.kills, max(0, lost), twice, stuck, self.plan.seed)

    async def _clean_up(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()
        for use in self._uses:
            await asyncio.to_thread(use.close)
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    # -- processes

    def _any_worker(self) -> str:
        return f"worker {self._random.randrange(self.plan.workers)}"

    def _start(self, name: str) -> None:
        command = ["up", "--workers", "0"] if name == "server" else ["worker", "--name", name]
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("MEDIAMILL_")},
            "MEDIAMILL_DATA": str(self._folder),
            "MEDIAMILL_PORT": "0",
            "MEDIAMILL_LOG_LEVEL": "ERROR",
        }
        self._processes[name] = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "mediamill", *command],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=(self._folder / "logs" / "chaos.log").open("ab"),
            start_new_session=True,
        )

    def _revive(self) -> None:
        for name, process in list(self._processes.items()):
            if process.poll() is not None:
                log.info("%s ended with %s", name, process.returncode)
                self._start(name)

    # -- looking

    @contextlib.asynccontextmanager
    async def _database(self) -> Any:
        if postmaster_pid(self._folder) is None:
            self._uses.append(await asyncio.to_thread(self._server.start))
        database = await Database.open(self._uses[0].url, connections=2, name="chaos", wait_seconds=60)
        try:
            yield database
        finally:
            await database.close()

    async def _delivered(self) -> int:
        return int(await self._one("select count(*) from chaos_deliveries") or 0)

    async def _one(self, sql: str) -> Any:
        """A look that waits for a database that is being killed just now."""
        while True:
            try:
                async with self._database() as database, database.connection() as connection:
                    return await connection.fetchval(sql)
            except AWAY as error:
                log.debug("look again: %s", error)
                await asyncio.sleep(0.1)

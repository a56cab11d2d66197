"""A worker in this process on a fresh database, and job kinds that do what a test says, when it says it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.flight_log import FlightLog
from mediamill.engine.kinds import JobKind, Kinds, Run
from mediamill.engine.model import Command, Moved, NewJob
from mediamill.engine.pools import set_pools
from mediamill.engine.rules import Engine
from mediamill.engine.workers import give_command
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker
from tests.conftest import wait_until


class Stage:
    """The handler of the test's jobs: it records who came, and lets go of whom it is told to."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.owners: list[str] = []
        self.interrupted: list[int] = []
        self.waiting: dict[int, asyncio.Event] = {}

    async def work(self, run: Run) -> Any:
        given, id_ = run.payload, run.job.id
        self.begun.append(id_)
        self.owners.append(run.job.owner)
        try:
            await self._act(given, run)
        except asyncio.CancelledError:
            self.interrupted.append(id_)
            if given.get("stubborn"):
                raise RuntimeError("made something else of it") from None
            raise
        return given.get("result")

    async def _act(self, given: Any, run: Run) -> None:
        if given.get("hang") and run.job.attempts <= given["hang"]:
            await asyncio.Event().wait()
        if given.get("wait"):
            await self.waiting.setdefault(run.job.id, asyncio.Event()).wait()
        await asyncio.sleep(given.get("seconds", 0))

    def release(self, *ids: int) -> None:
        for id_ in ids:
            self.waiting.setdefault(id_, asyncio.Event()).set()


async def _refuse(_connection: Connection, moved: Sequence[Moved]) -> None:
    raise RuntimeError(f"the subject of {moved[0].job_id} refuses")


async def _deliver(connection: Connection, moved: Sequence[Moved]) -> None:
    for job in moved:
        await connection.execute(
            "insert into deliveries (job_id, result) values ($1, $2)", job.job_id, str(job.result)
        )


async def _boom(_run: Run) -> None:
    raise ValueError("boom")


@dataclass
class Ground:
    """A database with an engine, and the verbs in the form that tests want."""

    database: Database
    folder: Path
    stage: Stage = field(default_factory=Stage)

    def __post_init__(self) -> None:
        kinds = (
            JobKind("stage.work", handler=self.stage.work),
            JobKind("stage.other", handler=self.stage.work),
            JobKind("stage.delivered", handler=self.stage.work, deliver=_deliver),
            JobKind("stage.refused", handler=_boom, on_released=_refuse, on_failed=_refuse),
            JobKind("stage.child"),
        )
        self.engine = Engine(kinds=Kinds(kinds), heartbeat_seconds=1, startup_grace_seconds=0)
        self.enqueuer = Enqueuer(self.engine.kinds)

    async def add(self, kind: str = "stage.work", /, *, copies: int = 1, **more: Any) -> int:
        """Jobs; the id of the last."""
        names = {name: more.pop(name) for name in ("owner", "subject_id", "max_attempts") if name in more}
        async with self.database.transaction() as connection:
            ids = await self.enqueuer.enqueue_jobs(connection, [NewJob(kind, more, **names)] * copies)
        return ids[-1]

    async def one(self, sql: str, *args: Any) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *args)

    async def row(self, sql: str, *args: Any) -> dict[str, Any]:
        async with self.database.connection() as connection:
            return dict(await connection.fetchrow(sql, *args) or {})

    async def state(self, id_: int) -> str | None:
        return str(
            await self.one(
                "select coalesce((select state from jobs where id = $1), "
                "(select 'finished' from finished_jobs where id = $1), "
                "(select 'dead' from dead_jobs where id = $1), 'gone')",
                id_,
            )
        )

    async def until(self, id_: int, state: str) -> None:
        async def reached() -> bool:
            return await self.state(id_) == state

        await wait_until(reached)

    async def until_sql(self, sql: str, *args: Any) -> None:
        async def true() -> bool:
            return bool(await self.one(sql, *args))

        await wait_until(true)

    async def until_running(self, count: int) -> None:
        await self.until_sql("select count(*) = $1 from jobs where state = 'running'", count)

    async def until_begun(self, *ids: int) -> None:
        async def begun() -> bool:
            return set(ids) <= set(self.stage.begun)

        await wait_until(begun)

    async def until_so_many_begun(self, count: int) -> None:
        """Their handlers are there, not only their claims."""

        async def begun() -> bool:
            return len(self.stage.begun) == count

        await wait_until(begun)

    async def pool(self, name: str = "default", drop: Sequence[str] = (), **changes: Any) -> None:
        async with self.database.transaction() as connection:
            await set_pools(connection, [{"name": name, **changes}], ["scripted"], drop=drop)

    async def until_in_force(self, worker: Worker, name: str = "default", **changes: Any) -> None:
        """The worker has heard of an edit of a pool."""

        async def heard() -> bool:
            pool = worker._lanes[name].pool
            return all(getattr(pool, key) == value for key, value in changes.items())

        await wait_until(heard)

    async def tell(self, worker: Worker, command: Command) -> None:
        async with self.database.connection() as connection:
            await give_command(connection, worker.id, command)

    @asynccontextmanager
    async def working(
        self, name: str = "a", flight: FlightLog | None = None, pools: tuple[str, ...] = ()
    ) -> AsyncIterator[Worker]:
        """A worker for the length of the block; at its end it is stopped at once."""
        plan = WorkerPlan(name=name, pools=pools, data_folder=self.folder, flight=flight)
        worker = Worker(LocalHome(self.database, self.engine, plan), self.engine, plan)
        task = asyncio.create_task(worker.run())
        try:
            await self.until_sql(
                "select count(*) = 1 from workers where name = $1 and state in ('idle', 'busy')", name
            )
            yield worker
        finally:
            worker.stop()
            worker.stop()
            await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def ground(database: Database, tmp_path: Path) -> Ground:
    """One pool, the catch-all, that runs one job at a time and tries again at once."""
    ground = Ground(database, tmp_path)
    async with database.transaction() as connection:
        catch_all = {"name": "default", "backoff_seconds": 0}
        await set_pools(connection, [catch_all], ["scripted"], replace=True)
        await connection.execute("create table deliveries (job_id bigint primary key, result text)")
    return ground

"""Workers that are woken as a test says, and that would otherwise look for jobs once an hour."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mediamill.db.connection import Database
from mediamill.dispatch.choose import Dispatch
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker
from tests.conftest import wait_until
from tests.worker.working import Ground

NEVER_SECONDS = 3600.0


class PatientHome(LocalHome):
    """Its poll never comes within a test."""

    poll_seconds = NEVER_SECONDS


@asynccontextmanager
async def woken_by(
    ground: Ground, dispatch: Dispatch, name: str = "a", pools: tuple[str, ...] = ()
) -> AsyncIterator[Worker]:
    """A worker for the length of the block."""
    plan = WorkerPlan(name=name, pools=pools, data_folder=ground.folder)
    worker = Worker(PatientHome(ground.database, ground.engine, plan, dispatch), ground.engine, plan)
    task = asyncio.create_task(worker.run())
    try:
        await ground.until_sql(
            "select count(*) = 1 from workers where name = $1 and state in ('idle', 'busy')", name
        )
        yield worker
    finally:
        worker.stop()
        worker.stop()
        await asyncio.gather(task, return_exceptions=True)
        await dispatch.close()


@asynccontextmanager
async def running(database: Database, mode: str, url: str) -> AsyncIterator[Dispatch]:
    """As in a server."""
    dispatch = Dispatch(mode, url)
    task = asyncio.create_task(dispatch.run(database))
    yield dispatch
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await dispatch.close()


async def until_flowing(*dispatches: Dispatch) -> None:
    """Somebody relays, and all of them know."""

    async def flowing() -> bool:
        return all(dispatch.link.flowing for dispatch in dispatches)

    await wait_until(flowing)


async def until_idle(worker: Worker, pool: str = "default") -> None:
    """The lane has looked, found nothing, and its hints are being read."""

    async def idle() -> bool:
        hints = worker._home.hints
        return pool in (getattr(hints, "_reading", None) or ())

    await wait_until(idle)


async def until_deaf(worker: Worker) -> None:
    """To what the database tells of jobs: Redis tells of them, again if it was taken for gone meanwhile."""

    async def deaf() -> bool:
        return not listens_for_jobs(worker)

    await wait_until(deaf)


def listens_for_jobs(worker: Worker) -> bool:
    """To the database, that is."""
    home = worker._home
    assert isinstance(home, LocalHome)
    return "mediamill_jobs" in home._listener._channels

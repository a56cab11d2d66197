"""A remote worker in this process, at a real server: a data folder of its own, and nothing but a URL and a key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.engine.flight_log import FlightLog
from mediamill.engine.rules import Engine
from mediamill.worker.home import WorkerPlan
from mediamill.worker.loop import Worker
from mediamill.worker.remote_home import RemoteHome
from tests.api.remote_worker import Remote, register
from tests.api.serving import Served
from tests.conftest import wait_until

POLL_NEVER_SECONDS = 3_600.0  # whoever finds work within the time of a test was woken


@dataclass
class Far:
    """A running remote worker, and the key that it was given."""

    worker: Worker
    remote: Remote
    task: asyncio.Task[None]
    folder: Path
    flight: FlightLog

    @property
    def id(self) -> int:
        return self.remote.id


@asynccontextmanager
async def far_worker(
    served: Served,
    folder: Path,
    name: str = "far",
    *,
    url: str | None = None,
    remote: Remote | None = None,
    **plan: Any,
) -> AsyncIterator[Far]:
    """For the length of the block; at its end it is stopped at once."""
    remote = remote or await register(served, name)
    given = WorkerPlan(name=name, data_folder=folder, flight=FlightLog(), **plan)
    engine = Engine(heartbeat_seconds=1)
    home = RemoteHome(url or served.url, remote.key, engine, given)
    home.poll_seconds = POLL_NEVER_SECONDS
    worker = Worker(home, engine, given)
    task = asyncio.create_task(worker.run())
    try:
        await until(
            served,
            "select count(*) = 1 from workers where id = $1 and state in ('idle', 'busy')",
            remote.id,
        )
        assert given.flight is not None
        yield Far(worker, remote, task, folder, given.flight)
    finally:
        worker.stop()
        worker.stop()
        await asyncio.gather(task, return_exceptions=True)


async def until(served: Served, sql: str, *args: Any) -> None:
    async def true() -> bool:
        return bool(await served.one(sql, *args))

    await wait_until(true)


async def result_of(served: Served, job_id: int) -> dict[str, Any]:
    """Of a job, once it has one."""
    await until(served, "select true from finished_jobs where id = $1", job_id)
    return dict(json.loads(await served.one("select result from finished_jobs where id = $1", job_id)))


def tree(folder: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    return {
        str(path.relative_to(folder)): b"" if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }

"""A worker beside its database: known by a row and by a session, woken by notifications or Redis; it sweeps for all."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg

from mediamill.db.connection import LOST, Database, RawConnection
from mediamill.db.notify import Listener
from mediamill.dispatch.choose import Dispatch
from mediamill.dispatch.hints import EverybodyHears
from mediamill.engine import flight_dumps, workers
from mediamill.engine.alerts import raise_alert
from mediamill.engine.claim import Claimer
from mediamill.engine.model import WorkerState
from mediamill.engine.pools import Pool, list_pools
from mediamill.engine.recovery.sweep import recover_at_start, sweep_forever
from mediamill.engine.rules import Engine
from mediamill.worker.home import (
    ANYTHING,
    JOBS,
    POOLS,
    WORKER,
    Beat,
    BeatAnswer,
    Hear,
    WorkerPlan,
    hear_nothing,
)
from mediamill.worker.source import LocalSource

JOB_CHANNEL = "mediamill_jobs"
CHANNELS = {JOB_CHANNEL: JOBS, "mediamill_pools": POOLS, "mediamill_workers": WORKER}


class LocalHome:
    """See Home."""

    poll_seconds = 5.0

    def __init__(
        self, database: Database, engine: Engine, plan: WorkerPlan, dispatch: Dispatch | None = None
    ) -> None:
        self._database, self._engine, self._plan = database, engine, plan
        self._dispatch = dispatch or Dispatch()
        self._id = 0
        self._hear: Hear = hear_nothing
        self._source: LocalSource | None = None
        self._listener = Listener(
            database.url,
            self._channels(),
            lambda channel, payload: self._hear(CHANNELS.get(channel, ANYTHING), payload),
            name=f"worker {plan.name}",
            on_connected=self._show_life,
        )
        self.hints = self._dispatch.hints(database, f"{plan.name} {uuid4()}", self._wake)

    def _channels(self) -> list[str]:
        """Of jobs only if nobody else tells of them."""
        return [channel for channel in CHANNELS if channel != JOB_CHANNEL or self._dispatch.hears_jobs]

    def _wake(self, pool: str) -> None:
        self._hear(JOBS if pool else ANYTHING, pool)

    @property
    def source(self) -> LocalSource:
        """See Home."""
        assert self._source is not None
        return self._source

    @property
    def heartbeat_seconds(self) -> float:
        """See Home."""
        return self._plan.heartbeat_seconds or self._engine.heartbeat_seconds

    async def register(self, crash: Callable[[BaseException], None]) -> int:  # noqa: ARG002
        """See Home."""
        plan, engine = self._plan, self._engine
        async with self._database.transaction() as connection:
            self._id = await workers.register_worker(
                connection,
                name=plan.name,
                pools=plan.pools,
                capabilities=plan.capabilities,
                metadata={"pid": os.getpid()},
            )
            await raise_alert(connection, engine, "worker_startup", {"worker": plan.name})
        claimer = Claimer(self._id, plan.name, engine.kinds, plan.gpu, engine.heartbeat_seconds)
        self._source = LocalSource(self._database, engine, claimer, plan.place or plan.data_folder)
        return self._id

    async def open(self, hear: Hear) -> None:
        """See Home."""
        self._hear = hear
        if self._dispatch.by_redis:
            self._dispatch.link.watchers.append(lambda: self._listener.set_channels(self._channels()))
        await self._listener.start()

    async def _show_life(self, connection: RawConnection) -> None:
        await workers.take_session_lock(connection, self._id)
        self._hear(WORKER, str(self._id))

    async def recover(self) -> None:
        """See Home."""
        await recover_at_start(self._database, self._engine)

    async def pools(self) -> list[Pool]:
        """See Home."""
        async with self._database.connection() as connection:
            return await list_pools(connection)

    async def beat(self, beat: Beat) -> BeatAnswer:
        """See Home. Leases are extended by the lanes."""
        async with self._database.connection() as connection:
            heard = await workers.heartbeat(
                connection,
                self._id,
                state=beat.state,
                current_job_id=beat.running[0].id if beat.running else None,
                stats=beat.stats,
            )
        return BeatAnswer(heard.command, heard.state is WorkerState.DISABLED)

    def chores(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """See Home."""
        chores = {"sweep": sweep_forever(self._database, self._engine)}
        if isinstance(self.hints, EverybodyHears):
            return chores
        return {**chores, "dispatch": self._dispatch.run(self._database), "hints": self.hints.run()}

    async def keep_dump(self, path: Path) -> None:
        """See Home."""
        async with self._database.connection() as connection:
            if not await flight_dumps.missing_dumps(connection, [path.name]):
                return
        packed = await asyncio.to_thread(lambda: flight_dumps.pack(path.read_bytes()))
        async with self._database.transaction() as connection:
            await flight_dumps.keep_dump(connection, path.name, packed)

    async def leave(self) -> None:
        """See Home."""
        with contextlib.suppress(*LOST, asyncpg.PostgresError):
            async with asyncio.timeout(5), self._database.transaction() as connection:
                await workers.set_state(connection, self._id, self._plan.name, WorkerState.OFFLINE)
                await raise_alert(connection, self._engine, "worker_shutdown", {"worker": self._plan.name})

    async def close(self) -> None:
        """See Home."""
        await self._listener.close()
        if self._source is not None:
            await self._source.close()

"""The worker process: register, hold the session, serve the pools, beat, obey, leave in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg

from mediamill.clock import wait_at_most
from mediamill.db.connection import LOST, Database, RawConnection
from mediamill.db.notify import Listener
from mediamill.engine import workers
from mediamill.engine.alerts import raise_alert
from mediamill.engine.claim import Claimer
from mediamill.engine.flight_log import FlightLog, dump_on_crash
from mediamill.engine.model import Command, WorkerState
from mediamill.engine.pools import Pool, list_pools
from mediamill.engine.recovery.sweep import recover_at_start, sweep_forever
from mediamill.engine.rules import Engine
from mediamill.worker.lane import Lane
from mediamill.worker.run import Runner
from mediamill.worker.source import LocalSource
from mediamill.worker.supervisor import SUPERVISED, SUPERVISOR_GONE

log = logging.getLogger(__name__)

CHANNELS = ("mediamill_jobs", "mediamill_pools", "mediamill_workers")


@dataclass(slots=True)
class WorkerPlan:
    """What a worker is told when it starts."""

    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    pools: tuple[str, ...] = ()
    gpu: bool = False
    data_folder: Path = Path("data")
    flight: FlightLog | None = None
    child_idle_seconds: float = 300


class Worker:
    """A local worker: it talks to the database directly."""

    def __init__(self, database: Database, engine: Engine, plan: WorkerPlan) -> None:
        self.id = 0
        self._database, self._engine, self._plan = database, engine, plan
        self._lanes: dict[str, Lane] = {}
        self._missing: set[str] = set()
        self._retired: set[Lane] = set()  # of pools that are no more; they still finish what runs
        self._paused = self._disabled = False
        self._signals = 0
        self._leaving, self._aborting, self._beat = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._reloading = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._crashed: BaseException | None = None
        self._runner = Runner(engine, plan.data_folder, plan.child_idle_seconds)
        self._listener = Listener(
            database.url, CHANNELS, self._hear, name=f"worker {plan.name}", on_connected=self._show_life
        )
        self._source: LocalSource | None = None

    async def run(self) -> None:
        """From start to end."""
        try:
            await self._live()
        except Exception as error:
            log.critical("worker %s ends with a fault: %s", self._plan.name, error, exc_info=error)
            if self._plan.flight is not None:
                await asyncio.to_thread(self._plan.flight.dump, self._plan.data_folder, self.id)
            raise

    async def _live(self) -> None:
        for step in (self._register, self._open_session, self._recover, self._serve_pools):
            await self._insist(step)
        self._start_background()
        log.info("worker %s (%d) is ready, pools: %s", self._plan.name, self.id, ", ".join(self._lanes))
        await self._leaving.wait()
        await self._finish_what_runs()
        await self._leave()
        if self._crashed is not None:
            raise self._crashed

    @property
    def is_leaving(self) -> bool:
        """It was told to stop, and claims no more."""
        return self._leaving.is_set()

    def stop(self) -> None:
        """Finish what runs; a second time: stop at once and hand the claims back."""
        self._signals += 1
        self._leaving.set()
        if self._signals > 1:
            self._aborting.set()

    def _crash(self, error: BaseException) -> None:
        """A fault of ours: hand everything back, and end with it, so that the flight log is written."""
        self._crashed = self._crashed or error
        self._leaving.set()
        self._aborting.set()

    def obey_signals(self) -> None:
        """SIGINT and SIGTERM are the same as the shutdown command."""
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self.stop)
        if SUPERVISED in os.environ:
            asyncio.get_running_loop().add_signal_handler(SUPERVISOR_GONE, self._leaving.set)

    # -- steps

    async def _insist(self, step: Callable[[], Awaitable[object]]) -> None:
        """A step of the start, again while the database is away, until it is done or the worker is told to leave."""
        pause = 0.1
        while not self._leaving.is_set():
            try:
                await step()
                return
            except LOST as error:
                log.debug("start: the database is away: %s", error)
            await wait_at_most(self._leaving, pause)
            pause = min(2 * pause, 2.0)

    async def _register(self) -> None:
        async with self._database.transaction() as connection:
            self.id = await workers.register_worker(
                connection,
                name=self._plan.name,
                pools=self._plan.pools,
                capabilities={"gpu": self._plan.gpu},
                metadata={"pid": os.getpid()},
            )
            await raise_alert(connection, self._engine, "worker_startup", {"worker": self._plan.name})
        self._source = LocalSource(
            self._database,
            self._engine,
            Claimer(
                self.id, self._plan.name, self._engine.kinds, self._plan.gpu, self._engine.heartbeat_seconds
            ),
            self._plan.data_folder,
        )
        if self._plan.flight is not None:
            dump_on_crash(self._plan.flight, self._plan.data_folder, self.id, asyncio.get_running_loop())

    async def _open_session(self) -> None:
        starting = self._spawn(self._listener.start())
        leaving = self._spawn(self._leaving.wait())
        await asyncio.wait({starting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if starting.done():
            starting.result()

    async def _show_life(self, connection: RawConnection) -> None:
        await workers.take_session_lock(connection, self.id)
        self._beat.set()

    async def _recover(self) -> None:
        await recover_at_start(self._database, self._engine)

    async def _serve_pools(self) -> None:
        """As many lanes as there are pools now; one reader at a time, so that the newest list is the last."""
        async with self._reloading:
            async with self._database.connection() as connection:
                pools = {pool.name: pool for pool in await list_pools(connection) if self._serves(pool)}
            if self._leaving.is_set():
                return
            for name in set(self._plan.pools) - pools.keys() - self._missing:
                self._missing.add(name)
                log.warning(
                    "there is no pool named %s; it is served when there is (mediamill pools show)", name
                )
            gone = self._lanes.keys() - pools.keys()
            for name in gone:
                self._spawn(self._retire(self._lanes.pop(name)))
            for pool in pools.values():
                if pool.name not in self._lanes:
                    self._open_lane(pool)
                elif self._lanes[pool.name].pool != pool:
                    self._lanes[pool.name].resize(pool)
                elif gone:  # what waited there waits in the catch-all now
                    self._lanes[pool.name].wake()

    def _open_lane(self, pool: Pool) -> None:
        assert self._source is not None
        lane = Lane(
            pool, self._source, self._engine, self._runner, changed=self._note_change, crashed=self._crash
        )
        lane.paused = self._resting
        self._lanes[pool.name] = lane
        lane.start()
        self._spawn(self._runner.prepare(pool))

    async def _retire(self, lane: Lane) -> None:
        """Its pool is no more: it finishes what runs. A new pool of that name may have come meanwhile."""
        self._retired.add(lane)
        await lane.finish()
        self._retired.discard(lane)
        if lane.pool.name not in self._lanes:
            await self._runner.close_pool(lane.pool.name)

    def _all_lanes(self) -> list[Lane]:
        return [*self._lanes.values(), *self._retired]

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str | None = None) -> asyncio.Task[Any]:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _serves(self, pool: Pool) -> bool:
        return not self._plan.pools or pool.name in self._plan.pools

    def _start_background(self) -> None:
        self._spawn(self._beat_forever(), "heartbeat")
        self._spawn(sweep_forever(self._database, self._engine), "sweep")

    async def _finish_what_runs(self) -> None:
        log.info("worker %s finishes what runs and leaves", self._plan.name)
        finishing = asyncio.create_task(self._finish_lanes())
        aborting = asyncio.create_task(self._aborting.wait())
        await asyncio.wait({finishing, aborting}, return_when=asyncio.FIRST_COMPLETED)
        aborting.cancel()
        if not finishing.done():
            log.warning("worker %s stops at once and hands its jobs back", self._plan.name)
            finishing.cancel()
            await asyncio.gather(*(lane.abort() for lane in self._all_lanes()))
        await asyncio.gather(finishing, return_exceptions=True)

    async def _finish_lanes(self) -> None:
        await asyncio.gather(*(lane.finish() for lane in self._all_lanes()))

    async def _leave(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._runner.close()
        with contextlib.suppress(*LOST, asyncpg.PostgresError):  # nothing may keep it from going
            async with asyncio.timeout(5), self._database.transaction() as connection:
                await workers.set_state(connection, self.id, self._plan.name, WorkerState.OFFLINE)
                await raise_alert(connection, self._engine, "worker_shutdown", {"worker": self._plan.name})
        await self._listener.close()
        if self._source is not None:
            await self._source.close()

    # -- hearing and obeying

    def _hear(self, channel: str, payload: str) -> None:
        if channel == "mediamill_jobs":
            if payload in self._lanes:
                self._lanes[payload].wake()
        elif channel == "mediamill_pools":
            self._spawn(self._reload_pools())
        elif channel == "mediamill_workers":
            if payload == str(self.id):
                self._beat.set()
        elif self._lanes:  # a new session: anything may have been missed
            self._spawn(self._reload_pools())
            for lane in self._lanes.values():
                lane.wake()

    async def _reload_pools(self) -> None:
        try:
            await self._serve_pools()
        except LOST:
            log.debug("pools could not be read; the next heartbeat reads them")
        except Exception:
            log.exception("pools could not be read")

    async def _obey(self, command: Command | None) -> None:
        match command:
            case Command.PAUSE:
                await self._rest(paused=True, disabled=self._disabled)
            case Command.RESUME:
                await self._rest(paused=False, disabled=self._disabled)
            case Command.SHUTDOWN:
                self.stop()
            case Command.FORENSIC_DUMP:
                if self._plan.flight is not None:
                    await asyncio.to_thread(self._plan.flight.dump, self._plan.data_folder, self.id)
            case None:
                return
        log.info("worker %s was told to %s", self._plan.name, command)
        self._beat.set()

    @property
    def _resting(self) -> bool:
        return self._paused or self._disabled

    async def _rest(self, *, paused: bool, disabled: bool) -> None:
        """Told to pause, or disabled: either is enough to claim nothing."""
        self._paused, self._disabled = paused, disabled
        if self._resting:
            await asyncio.gather(*(lane.pause() for lane in self._lanes.values()))
        else:
            for lane in self._lanes.values():
                lane.resume()

    # -- heartbeat

    def _note_change(self) -> None:
        """Busy or idle: said soon, but not for every job."""
        if self._state() != self._said:
            self._beat.set()

    _said = WorkerState.ACTIVE

    def _state(self) -> WorkerState:
        if self._paused:
            return WorkerState.PAUSED
        busy = any(lane.running for lane in self._all_lanes())
        return WorkerState.BUSY if busy else WorkerState.IDLE

    async def _beat_forever(self) -> None:
        while True:
            self._beat.clear()
            try:
                await self._beat_once()
            except LOST as error:
                log.debug("heartbeat: the database is away: %s", error)
            except Exception:
                log.exception("the heartbeat failed")
            await self._reload_pools()  # an edit whose notification was missed
            await asyncio.sleep(min(0.5, self._engine.heartbeat_seconds))
            await wait_at_most(self._beat, self._engine.heartbeat_seconds)

    async def _beat_once(self) -> None:
        state, running = self._state(), [job.id for lane in self._all_lanes() for job in lane.running]
        async with self._database.connection() as connection:
            heard = await workers.heartbeat(
                connection,
                self.id,
                state=state,
                current_job_id=running[0] if running else None,
                stats=self._stats(len(running)),
            )
        self._said = state
        if (heard.state is WorkerState.DISABLED) != self._disabled:
            log.info("worker %s is %s", self._plan.name, "enabled" if self._disabled else "disabled")
            await self._rest(paused=self._paused, disabled=not self._disabled)
        await self._obey(heard.command)

    def _stats(self, running: int) -> dict[str, Any]:
        lanes = self._all_lanes()
        return {
            "running": running,
            "completed": sum(lane.completed for lane in lanes),
            "failed": sum(lane.failed for lane in lanes),
            "claims_lost": sum(lane.lost for lane in lanes),
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

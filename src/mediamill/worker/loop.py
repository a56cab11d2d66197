"""The worker process: register, hold the session, serve the pools, beat, obey, leave in good order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

from mediamill.clock import pauses, wait_at_most
from mediamill.engine.flight_log import dump_on_crash, forensics, latest_dumps
from mediamill.engine.model import Command, WorkerState
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.logs import name_process, tell
from mediamill.signals import STOP, on_signals
from mediamill.worker.away import AWAY, RefusedError
from mediamill.worker.home import JOBS, POOLS, WORKER, Beat, Home, WorkerPlan
from mediamill.worker.lane import Lane
from mediamill.worker.run import Runner
from mediamill.worker.supervisor import SUPERVISED, SUPERVISOR_GONE

log = logging.getLogger(__name__)

BRING_SECONDS = 30.0
MOST_LEFTOVERS = 3


class Worker:
    """One worker process, whatever its home."""

    def __init__(self, home: Home, engine: Engine, plan: WorkerPlan) -> None:
        self.id = 0
        self._home, self._engine, self._plan = home, engine, plan
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

    async def run(self) -> None:
        """From start to end."""
        try:
            await self._live()
        except RefusedError:
            raise  # no fault of ours: it says all there is to say
        except Exception as error:
            if error is not self._crashed:
                await self._tell_fault(error)
            raise

    async def _live(self) -> None:
        for step in (self._register, self._open_session, self._home.recover, self._serve_pools):
            await self._insist(step)
        if not self._leaving.is_set():
            self._start_background()
            tell(log, "worker_ready", **self._who, pools=", ".join(self._lanes))
        await self._leaving.wait()
        await self._finish_what_runs()
        if self._crashed is not None and not isinstance(self._crashed, RefusedError):
            await self._tell_fault(self._crashed)
        await self._leave()
        if self._crashed is not None:
            raise self._crashed

    @property
    def _who(self) -> dict[str, Any]:
        return {"worker": self._plan.name, "worker_id": self.id}

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
        on_signals(STOP, self.stop)
        if SUPERVISED in os.environ:
            on_signals((SUPERVISOR_GONE,), self._leaving.set)

    # -- steps

    async def _insist(self, step: Callable[[], Awaitable[object]]) -> None:
        """A step of the start, again while the other side is away, until it is done or the worker is told to leave."""
        waits, told = pauses(0.1, 2.0), False
        while not self._leaving.is_set():
            try:
                await step()
                return
            except RefusedError as error:
                self._crash(error)
            except AWAY as error:
                log.log(logging.DEBUG if told else logging.WARNING, "start: waiting: %s", error)
                told = True
            await wait_at_most(self._leaving, next(waits))

    async def _register(self) -> None:
        self.id = await self._home.register(self._crash)
        name_process(**self._who)
        if self._plan.flight is not None:
            loop = asyncio.get_running_loop()

            def bring(path: Path) -> None:
                with contextlib.suppress(RuntimeError):  # the loop has ended: the next worker brings it
                    loop.call_soon_threadsafe(lambda: self._spawn(self._bring_home(path)))

            dump_on_crash(self._plan.flight, self._plan.data_folder, self.id, loop, bring)

    async def _open_session(self) -> None:
        starting = self._spawn(self._home.open(self._hear))
        leaving = self._spawn(self._leaving.wait())
        await asyncio.wait({starting, leaving}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if starting.done():
            starting.result()

    async def _serve_pools(self) -> None:
        """As many lanes as there are pools now; one reader at a time, so that the newest list is the last."""
        async with self._reloading:
            pools = {pool.name: pool for pool in await self._home.pools() if self._serves(pool)}
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
        lane = Lane(
            pool,
            self._home.source,
            self._engine,
            self._runner,
            changed=self._note_change,
            crashed=self._crash,
            poll_seconds=self._home.poll_seconds,
            hints=self._home.hints,
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
        self._spawn(self._bring_leftovers(), "flight logs")
        for name, chore in self._home.chores().items():
            self._spawn(chore, name)

    async def _finish_what_runs(self) -> None:
        tell(log, "worker_leaving", **self._who)
        finishing = asyncio.create_task(self._finish_lanes())
        aborting = asyncio.create_task(self._aborting.wait())
        await asyncio.wait({finishing, aborting}, return_when=asyncio.FIRST_COMPLETED)
        aborting.cancel()
        if not finishing.done():
            tell(log, "worker_stopping", **self._who)
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
        await self._home.leave()
        await self._home.close()

    # -- hearing and obeying

    def _hear(self, channel: str, payload: str) -> None:
        if channel == JOBS:
            if payload in self._lanes:
                self._lanes[payload].wake()
        elif channel == POOLS:
            self._spawn(self._reload_pools())
        elif channel == WORKER:
            if payload == str(self.id):
                self._beat.set()
        elif self._lanes:  # a new session: anything may have been missed
            self._spawn(self._reload_pools())
            for lane in self._lanes.values():
                lane.wake()

    async def _reload_pools(self) -> None:
        try:
            await self._serve_pools()
        except AWAY:
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
                await self._dump()
            case None:
                return
        tell(log, "worker_told", **self._who, command=str(command))
        self._beat.set()

    # -- the flight log

    async def _tell_fault(self, error: BaseException) -> None:
        """Its last words."""
        tell(log, "worker_fault", error=error, **self._who, reason=str(error))
        await self._dump()

    async def _dump(self) -> None:
        """All of the flight log to a file here, and a copy of it home."""
        if self._plan.flight is not None:
            path = await asyncio.to_thread(self._plan.flight.dump, self._plan.data_folder, self.id)
            if path is not None:
                await self._bring_home(path)

    async def _bring_home(self, path: Path) -> None:
        """What does not arrive stays here, and is tried again when the next worker starts."""
        try:
            async with asyncio.timeout(BRING_SECONDS):
                await self._home.keep_dump(path)
        except Exception as error:  # nothing that is wrong with a copy may harm the work
            tell(log, "flight_log_stays", name=path.name, reason=str(error))

    async def _bring_leftovers(self) -> None:
        """Of a process that had no time to: it was killed, or its home was away."""
        folder = forensics(self._plan.data_folder)
        for path in (await asyncio.to_thread(latest_dumps, folder))[:MOST_LEFTOVERS]:
            await self._bring_home(path)

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
        busy = any(lane.held for lane in self._all_lanes())
        return WorkerState.BUSY if busy else WorkerState.IDLE

    async def _beat_forever(self) -> None:
        while True:
            self._beat.clear()
            try:
                await self._beat_once()
            except AWAY as error:
                log.debug("heartbeat: the other side is away: %s", error)
            except Exception:
                log.exception("the heartbeat failed")
            await self._reload_pools()  # an edit whose notification was missed
            await asyncio.sleep(min(0.5, self._home.heartbeat_seconds))
            await wait_at_most(self._beat, self._home.heartbeat_seconds)

    async def _beat_once(self) -> None:
        lanes = self._all_lanes()
        running, held = (
            [job for lane in lanes for job in lane.running],
            [j for lane in lanes for j in lane.held],
        )
        beat = Beat(self._state(), running, held, self._stats(len(running)))
        heard = await self._home.beat(beat)
        self._said = beat.state
        for job in held:
            if job.id in heard.lost:
                for lane in lanes:
                    lane.drop(job)
        if heard.disabled != self._disabled:
            tell(log, "worker_enabled" if self._disabled else "worker_disabled", **self._who)
            await self._rest(paused=self._paused, disabled=not self._disabled)
        await self._obey(heard.command)

    def _stats(self, running: int) -> dict[str, Any]:
        lanes = self._all_lanes()
        return {
            "running": running,
            "completed": sum(lane.settler.completed for lane in lanes),
            "failed": sum(lane.settler.failed for lane in lanes),
            "claims_lost": sum(lane.settler.lost for lane in lanes),
            "memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

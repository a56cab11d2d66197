"""A worker on a machine without a database: known by its key, woken by a stream of hints, told by its heartbeats."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from mediamill import __version__
from mediamill.dispatch.hints import EverybodyHears
from mediamill.engine.flight_dumps import pack, worker_of_name
from mediamill.engine.model import Command, WorkerState
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.processors.registry import processor_names
from mediamill.worker.away import AwayError, RefusedError
from mediamill.worker.home import ANYTHING, Beat, BeatAnswer, Hear, WorkerPlan, hear_nothing
from mediamill.worker.remote_source import MOST_SHOWN, RemoteSource
from mediamill.worker.server_link import NotMediamillError, ServerLink, WordRefusedError

log = logging.getLogger(__name__)

PROTOCOL = 1
SILENCE_SECONDS = 45.0  # the stream of hints says something every 15
LAST_WORDS_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 5.0


class ServerTooOldError(RefusedError):
    """The server is of an older version, which does not know workers like this one."""

    code = "server_too_old"


class RemoteHome:
    """See Home."""

    poll_seconds = 25.0
    hints = EverybodyHears()

    def __init__(self, url: str, key: str, engine: Engine, plan: WorkerPlan) -> None:
        self._link = ServerLink(url, key)
        self._engine, self._plan = engine, plan
        self._instance = secrets.token_hex(16)
        self._source: RemoteSource | None = None
        self._hear: Hear = hear_nothing
        self._missing: set[str] = set()
        self.heartbeat_seconds = plan.heartbeat_seconds or engine.heartbeat_seconds

    @property
    def source(self) -> RemoteSource:
        """See Home."""
        assert self._source is not None
        return self._source

    async def register(self, crash: Callable[[BaseException], None]) -> int:
        """See Home: the key says who it is; what an earlier process held under it is put back."""
        self._link.refused = crash
        word = {
            "instance": self._instance,
            "protocol": PROTOCOL,
            "hostname": socket.gethostname(),
            "capabilities": self._plan.capabilities,
            "metadata": {"pid": os.getpid(), "version": __version__},
        }
        try:
            answer = await self._link.ask("POST", "/api/worker/hello", json=word)
        except NotMediamillError as error:
            raise RefusedError(error.message, fix=error.fix) from error
        except WordRefusedError as error:
            raise _too_old(error, self._link.url) from error
        self._link.speak_as(self._instance)
        self._plan.name = answer["name"]
        self._hear_interval(answer)
        worker_id = int(answer["worker_id"])
        self._source = RemoteSource(self._link, self._engine, worker_id, self._plan.data_folder)
        return worker_id

    async def open(self, hear: Hear) -> None:
        """See Home."""
        self._hear = hear

    async def recover(self) -> None:
        """See Home."""
        await asyncio.to_thread(self.source.downloads.clear_leftovers)

    async def pools(self) -> list[Pool]:
        """See Home: those whose processor is installed here."""
        answer = await self._link.ask("GET", "/api/worker/pools")
        self.source.waiting = {given["name"]: int(given["waiting"]) for given in answer["pools"]}
        pools, installed = [_pool(given) for given in answer["pools"]], set(processor_names())
        for pool in pools:
            if pool.processor not in installed and pool.name not in self._missing:
                self._missing.add(pool.name)
                log.warning("pool %s: its processor %s is not installed here", pool.name, pool.processor)
        return [pool for pool in pools if pool.processor in installed]

    async def beat(self, beat: Beat) -> BeatAnswer:
        """See Home."""
        self.source.downloads.keep_only({job.id for job in beat.held})
        claims = [{"job_id": job.id, "token": job.token} for job in beat.held]
        word = {
            "state": beat.state,
            "hostname": socket.gethostname(),
            "current_job_id": beat.running[0].id if beat.running else None,
            "stats": dict(beat.stats),
            "claims": claims[:MOST_SHOWN],
            "all_claims": len(claims) <= MOST_SHOWN,
        }
        answer = await self._link.ask("POST", "/api/worker/heartbeat", json=word)
        self._hear_interval(answer)
        command = Command(answer["command"]) if answer["command"] else None
        return BeatAnswer(command, answer.get("state") == WorkerState.DISABLED, frozenset(answer["lost"]))

    def _hear_interval(self, answer: Mapping[str, Any]) -> None:
        """The server's, unless this worker has its own."""
        self.heartbeat_seconds = self._plan.heartbeat_seconds or answer["heartbeat_seconds"]

    def chores(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """See Home."""
        return {"wakes": self._listen_forever()}

    async def _listen_forever(self) -> None:
        """A stream that breaks off is begun again, and begins with a look at everything."""
        pause = 0.1
        while True:
            try:
                async with self._link.stream("/api/worker/wakes", read_seconds=SILENCE_SECONDS) as answer:
                    async for line in answer.aiter_lines():
                        pause = 0.1
                        self._pass_on(line)
            except AwayError as error:
                log.debug("wakes: the server is away: %s", error)
            except Exception:
                log.exception("the stream of wakes is not what it should be")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def _pass_on(self, line: str) -> None:
        for channel, payload in json.loads(line or "{}").items():
            self._hear(channel or ANYTHING, str(payload))

    async def keep_dump(self, path: Path) -> None:
        """See Home: its own only; the server takes no other."""
        if worker_of_name(path.name) != self.source.worker_id:
            return
        packed = await asyncio.to_thread(lambda: pack(path.read_bytes()))
        await self._link.ask("PUT", f"/api/worker/dumps/{path.name}", patient=False, content=packed)

    async def leave(self) -> None:
        """See Home."""
        with contextlib.suppress(AwayError, WordRefusedError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._link.ask("POST", "/api/worker/leave")

    async def close(self) -> None:
        """See Home."""
        if self._source is not None:
            await self._source.close()
        await self._link.close()


def _pool(given: Mapping[str, Any]) -> Pool:
    """A pool as the server has it; settings that a newer one knows besides are its own."""
    known = {field.name: given[field.name] for field in fields(Pool) if field.name in given}
    return Pool(**{**known, "matches": tuple(given["matches"])})


def _too_old(error: WordRefusedError, url: str) -> RefusedError:
    if error.code in ("not_found", "method_not_allowed"):
        return ServerTooOldError(
            f"the mediamill at {url} is too old for this worker ({__version__})", fix="update the server"
        )
    return RefusedError(error.message, fix=error.fix)

"""The home of a worker: where it is known, who lists its pools, wakes it and tells it what to do.

Local: the database. Remote: a server over HTTP. All else is the same code.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mediamill.dispatch.hints import Hints
from mediamill.engine.flight_log import FlightLog
from mediamill.engine.model import ClaimedJob, Command, WorkerState
from mediamill.engine.pools import Pool
from mediamill.storage.choose import Place
from mediamill.worker.confine import find_gaps
from mediamill.worker.source import Source

# What a worker hears: of jobs (in which pool), of pools, of itself (its id); with no name: anything may have happened.
JOBS, POOLS, WORKER, ANYTHING = "jobs", "pools", "worker", ""

Hear = Callable[[str, str], None]


def hear_nothing(_channel: str, _payload: str) -> None:
    """Before anybody listens."""


@dataclass(slots=True)
class WorkerPlan:
    """What a worker is told when it starts."""

    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    pools: tuple[str, ...] = ()
    gpu: bool = False
    encoders: tuple[str, ...] = ()
    data_folder: Path = Path("data")
    place: Place | None = None  # where lasting files are; unset: in the data folder
    flight: FlightLog | None = None
    child_idle_seconds: float = 300
    heartbeat_seconds: float | None = None  # unset: as everybody

    @property
    def capabilities(self) -> dict[str, Any]:
        """What it can do that others may not."""
        gaps = find_gaps()
        told = {"encoders": list(self.encoders)} if self.encoders else {}
        return {"gpu": self.gpu, **told, **({"confinement_gaps": gaps} if gaps else {})}


@dataclass(frozen=True, slots=True)
class Beat:
    """A sign of life. `held`: every job in the worker's hands, running or not."""

    state: WorkerState
    running: Sequence[ClaimedJob]
    held: Sequence[ClaimedJob]
    stats: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """What it is told in return. `lost`: the ids of held jobs that are somebody else's by now."""

    command: Command | None
    disabled: bool
    lost: frozenset[int] = frozenset()


class Home(Protocol):
    """Everything may raise one of `AWAY` while the other side is away; RefusedError ends the worker."""

    @property
    def source(self) -> Source:
        """Where jobs come from; there once the worker is registered."""

    @property
    def heartbeat_seconds(self) -> float:
        """Time between two beats."""

    @property
    def poll_seconds(self) -> float:
        """How long to wait for a word before looking for jobs without one."""

    @property
    def hints(self) -> Hints:
        """Whom the lanes tell whether they have time."""

    async def register(self, crash: Callable[[BaseException], None]) -> int:
        """The worker's id. `crash` may be called later: the worker must end, and why."""

    async def open(self, hear: Hear) -> None:
        """Listen from now on."""

    async def recover(self) -> None:
        """Put right what an earlier crash left."""

    async def pools(self) -> list[Pool]:
        """The pools there are for this worker."""

    async def beat(self, beat: Beat) -> BeatAnswer:
        """A sign of life."""

    def chores(self) -> Mapping[str, Coroutine[Any, Any, None]]:
        """What runs beside the jobs until the end, by name."""

    async def keep_dump(self, path: Path) -> None:
        """A flight log was written here: bring it home, once."""

    async def leave(self) -> None:
        """Say goodbye; nothing may keep the worker from going."""

    async def close(self) -> None:
        """Let go of connections."""

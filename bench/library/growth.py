"""Claims, lists and searches in a small and in a large catalogue, by turns, so that whatever else the machine does
happens to both.

Every question is asked twice. The first time what it reads may have to be fetched from the system's memory into the
database's own; the second time it is there, as in a server that is in use. Growth is that of the second, the first is
told beside it.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.library.asking import Question, questions
from bench.library.catalogue import Size, Tell, sizes_of, url_of
from mediamill.app import all_kinds
from mediamill.db.connection import Database, RawConnection, connect
from mediamill.engine.claim import Claimer, connect_for_claims
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.pools import Pool, list_pools
from mediamill.engine.workers import register_worker
from mediamill.libraries.feed import feed_libraries
from mediamill.settings import Settings

WARM_UP = 3
FEEDS = 15
Found = dict[str, Any]


@dataclass
class Times:
    """Of one question in one catalogue."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)  # wall, when it was asked for the first time
    rows: int = 0

    def told(self) -> Found:
        """Milliseconds; `cpu`: of the server's process that answered."""
        first = {"first_p50_ms": round(quantile(self.first, 0.5), 2)} if self.first else {}
        return first | {
            "p50_ms": round(quantile(self.wall, 0.5), 2),
            "p99_ms": round(quantile(self.wall, 0.99), 2),
            "cpu_p50_ms": round(quantile(self.cpu, 0.5), 2),
            "cpu_ms": round(sum(self.cpu) / len(self.cpu), 2),
            "rows": round(self.rows / len(self.wall), 1),
        }


@dataclass
class Side:
    """One catalogue, with a connection that asks and one that claims."""

    size: Size
    database: Database
    connection: RawConnection
    claims: RawConnection
    claimer: Claimer
    pool: Pool
    enqueuer: Enqueuer
    settings: Settings
    times: dict[str, Times] = field(default_factory=dict)

    async def time(
        self, name: str, pid: int, act: Callable[[], Awaitable[Any]], *, first: bool = False
    ) -> None:
        """Once; `pid`: of the server's process that does it."""
        cpu, began = cpu_ms(pid), time.perf_counter()
        found = await act()
        wall = (time.perf_counter() - began) * 1000
        times = self.times.setdefault(name, Times())
        if first:
            times.first.append(wall)
            return
        times.wall.append(wall)
        times.cpu.append(cpu_ms(pid) - cpu)
        times.rows += _count(found)


def _count(found: Any) -> int:
    if isinstance(found, dict):  # a page of assets, or one asset with its moments
        found = found["assets"] if isinstance(found.get("assets"), list) else found.get("scenes", ())
    return found if isinstance(found, int) else len(found)


def quantile(values: list[float], share: float) -> float:
    """Nearest rank."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def cpu_ms(pid: int) -> float:
    """What a process has used so far; Linux tells it to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


async def measure_growth(url: str, small: Size, large: Size, data: Path, rounds: int, tell: Tell) -> Found:
    """Every question in both; how the times grew."""
    async with _side(url, small, data) as first, _side(url, large, data) as second:
        sides = (first, second)
        gc.freeze()  # as `mediamill up` does
        await _measure_claims(sides, rounds)
        tell("claims are measured")
        for question in questions(vectors=bool(small.vectors)):
            await _measure(question, sides, rounds)
            grown = _grown(*(side.times[question.name] for side in sides))
            tell(f"{question.name}: {second.times[question.name].told()} grown {grown}")
        found = {side.size.name: await _told(side) for side in sides}
    groups = {question.name: question.group for question in questions(vectors=True)}
    grown = {
        name: {"group": groups.get(name, "claim"), **_grown(first.times[name], times)}
        for name, times in second.times.items()
    }
    return {**found, "growth": grown}


async def _told(side: Side) -> Found:
    return {
        "assets": side.size.assets,
        "scenes": side.size.scenes,
        "vectors": side.size.vectors,
        "times": {name: times.told() for name, times in side.times.items()},
        "size": await sizes_of(side.database, side.size.assets),
    }


def _grown(small: Times, large: Times) -> Found:
    before, after = small.told(), large.told()
    names = {"p50": "p50_ms", "p99": "p99_ms", "cpu": "cpu_p50_ms", "first": "first_p50_ms"}
    return {
        name: round(after[key] / max(before[key], 0.01), 2) for name, key in names.items() if key in after
    }


async def _measure(question: Question, sides: tuple[Side, ...], rounds: int) -> None:
    """The same questions twice, in the same order."""
    for turn in range(-WARM_UP, 2 * rounds):
        number = turn % rounds
        for side in sides if turn % 2 else reversed(sides):
            chance = random.Random(f"{question.name} {number}")

            async def ask(side: Side = side, chance: random.Random = chance) -> Any:
                async with side.connection.transaction():
                    return await question.ask(side.connection, side.size, chance)

            if turn < 0:  # what is fetched only once by a connection
                await ask()
            else:
                pid = side.connection.get_server_pid()
                await side.time(question.name, pid, ask, first=turn < rounds)


async def _measure_claims(sides: tuple[Side, ...], rounds: int) -> None:
    """Assets that wait become a thousand jobs; then jobs are claimed, one at a time, beside all those assets."""
    for number in range(min(FEEDS, rounds)):
        for side in sides if number % 2 else reversed(sides):
            await _unfeed(side)
            await _feed(side)
    for number in range(rounds):
        for side in sides if number % 2 else reversed(sides):

            async def claim(side: Side = side) -> list[Any]:
                return await side.claimer.claim_jobs(side.claims, side.pool, 1)

            await side.time("claim of one job", side.claims.get_server_pid(), claim)
    for side in sides:
        await _unfeed(side)


async def _feed(side: Side) -> None:
    pid = await side.database.pool.fetchval(
        "select pg_backend_pid()"
    )  # the pool has one connection: who will feed

    async def feed() -> int:
        return await feed_libraries(side.database, side.enqueuer, side.settings)

    await side.time("feed of a thousand jobs", pid, feed)


async def _unfeed(side: Side) -> None:
    async with side.database.transaction() as connection:
        await connection.execute("delete from jobs")
        await connection.execute("update assets set job_id = null where job_id is not null")


@asynccontextmanager
async def _side(url: str, size: Size, data: Path) -> AsyncIterator[Side]:
    settings = Settings.model_validate({"data": data})
    database = await Database.open(url_of(url, size.name), connections=1)
    connection, claims = await connect(database.url), await connect_for_claims(database.url)
    try:
        async with database.transaction() as own:
            worker = await register_worker(own, name="bench")
            pool = next(pool for pool in await list_pools(own) if pool.name == "library_images")
        kinds = all_kinds(settings, database=database)
        claimer = Claimer(worker, "bench", kinds)
        yield Side(size, database, connection, claims, claimer, pool, Enqueuer(kinds), settings)
    finally:
        for one in (connection, claims):
            await one.close()
        await database.close()

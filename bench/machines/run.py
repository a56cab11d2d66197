"""One run: rounds of faults under load, how long each took to recover from, and the account of every job at the end."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.machines.faults import Fault, draw_faults
from bench.machines.site import OVER_HTTP, POOLS, WORKERS, Site, open_site
from bench.machines.work import Feeder, Look
from mediamill.db.connection import Database
from mediamill.db.migrate import upgrade
from mediamill.engine.pools import set_pools
from mediamill.testing import chaos_kinds

# A worker that was away works again when it has ended a job that was handed in afterwards.
WORKS_AGAIN = (
    "select coalesce(array_agg(distinct worker_name), '{}') from finished_jobs where created_at > $1"
)
WHY_DEAD = "select kind || ', ' || reason || ': ' || left(error, 200), count(*) from dead_jobs group by 1"
STILL_THERE = "select count(*) from jobs where id = any($1::bigint[])"


@dataclass(frozen=True, slots=True)
class Plan:
    """So many faults, or as many as there is time for, shared out among the dispatch modes.

    `patience_seconds`: nobody waits longer for all to be as before, or for the next job to end. `owners`: whose jobs
    they are; a child process serves one owner, so that with more of them than children most jobs start a child.
    """

    faults: int = 200
    modes: tuple[str, ...] = ("database", "redis", "hybrid")
    seed: int = 1
    minutes: float = 60
    jobs_per_second: float = 20
    patience_seconds: float = 120
    owners: int = 7


@dataclass(slots=True)
class Recovery:
    """How long a round of faults was felt after its end. None: longer than anybody would wait."""

    mode: str
    faults: list[Fault]
    seconds: float | None
    waited_for: str = ""


@dataclass(slots=True)
class Run:
    """From an empty folder to the account."""

    plan: Plan
    folder: Path
    told: Callable[[str], None] = lambda _text: None
    recoveries: list[Recovery] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    is_enough: bool = False
    _began: float = field(default_factory=time.monotonic)

    async def run(self) -> dict[str, Any]:
        """All modes, one after the other, on one database."""
        rng = random.Random(self.plan.seed)
        with open_site(self.folder, self.plan.seed) as site:
            for name in ("data", "images", OVER_HTTP):
                (self.folder / name).mkdir(exist_ok=True)
            await _prepare(site.url)
            look, feed_rng = Look(site.url), random.Random(-self.plan.seed)
            feeder = Feeder(
                site.url, self.folder / "images", feed_rng, self.plan.jobs_per_second, self.plan.owners
            )
            self._began = time.monotonic()
            for number, mode in enumerate(self.plan.modes, 1):
                share = number / len(self.plan.modes)
                if not self.is_enough:
                    await self._run_mode(site, mode, share, look, feeder, rng)
            seconds = time.monotonic() - self._began
            account = await self._account(look, feeder)
            await look.close()
            broken = sum(path.read_text(errors="replace").count("Traceback") for path in site.logs)
            return {"seconds": round(seconds), **account, "tracebacks": broken, **self._figures()}

    async def _run_mode(
        self, site: Site, mode: str, share: float, look: Look, feeder: Feeder, rng: random.Random
    ) -> None:
        site.begin(mode)
        feeding = asyncio.create_task(feeder.feed())
        reviving = asyncio.create_task(self._revive(site))
        try:
            await self._recover(look, await look.one("select now()"), [])
            while not self._has_had(share):
                await self._round(site, mode, look, rng)
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            await _until_done(look, self.plan.patience_seconds)
        finally:
            for task in (feeding, reviving):
                task.cancel()
            await asyncio.gather(feeding, reviving, return_exceptions=True)
            site.end()

    def _has_had(self, share: float) -> bool:
        """Its share of the faults, or of the time."""
        faults = sum(len(each.faults) for each in self.recoveries)
        minutes = (time.monotonic() - self._began) / 60
        return self.is_enough or faults >= share * self.plan.faults or minutes >= share * self.plan.minutes

    async def _round(self, site: Site, mode: str, look: Look, rng: random.Random) -> None:
        faults = draw_faults(site, rng)
        self.told(f"{time.monotonic() - self._began:6.0f} s  {mode}: {'; '.join(map(str, faults))}")
        held = [row[0] for row in await look.rows("select id from jobs where state = 'running'")]
        await asyncio.gather(*(_last(fault) for fault in faults))
        ended_at = time.monotonic()
        missing = await self._recover(look, await look.one("select now()"), held)
        seconds = None if missing else time.monotonic() - ended_at
        self.recoveries.append(Recovery(mode, faults, seconds, missing))
        self.told(
            f"          {f'recovered in {seconds:.1f} s' if seconds is not None else 'NOT RECOVERED: ' + missing}"
        )
        await asyncio.sleep(rng.uniform(0, 1))

    async def _recover(self, look: Look, since: Any, held: list[int]) -> str:
        """Every worker works on, and what ran at the beginning is done; or what was missing in the end."""
        began, missing = time.monotonic(), "everything"
        while missing and time.monotonic() < began + self.plan.patience_seconds:
            working = set(await look.one(WORKS_AGAIN, since))
            undone = await look.one(STILL_THERE, held)
            before = missing
            missing = ", ".join(
                [*sorted(set(WORKERS) - working), *([f"{undone} jobs that ran before"] if undone else [])]
            )
            if missing != before:
                self.told(f"          {time.monotonic() - began:6.1f} s: waiting for {missing or 'nothing'}")
            if missing:
                await asyncio.sleep(0.05)
        return missing

    async def _revive(self, site: Site) -> None:
        """What ended by itself is started again, and told: nothing should."""
        while True:
            await asyncio.sleep(0.2)
            for node in list(site.nodes.values()):
                if node.has_ended():
                    self.ended.append(node.name)
                    self.told(f"          {node.name} ended by itself")
                    node.start()

    async def _account(self, look: Look, feeder: Feeder) -> dict[str, Any]:
        stuck = await look.one("select count(*) from jobs")
        delivered = await look.one("select count(*) from chaos_deliveries")
        images = await look.one("select count(*) from finished_jobs where kind = 'media.process'")
        died_of = {row[0]: row[1] for row in await look.rows(WHY_DEAD)}
        dead = sum(died_of.values())
        return {
            "jobs": feeder.jobs + feeder.images,
            "of_them_images": feeder.images,
            "lost": max(feeder.jobs + feeder.images - delivered - images - stuck - dead, 0),
            "twice": await look.one("select count(*) from chaos_deliveries where times > 1"),
            "stuck": stuck,
            "dead": dead,
            "died_of": died_of,
            "attempts": await look.one("select sum(attempts)::bigint from finished_jobs"),
            "stale_recovered": await look.one(
                "select coalesce(sum(value), 0)::bigint from counters where name like 'stale%'"
            ),
            "ended_by_themselves": dict(Counter(self.ended)),
        }

    def _figures(self) -> dict[str, Any]:
        sorts: dict[str, list[float]] = {}
        for each in self.recoveries:
            for fault in each.faults:
                seconds = self.plan.patience_seconds if each.seconds is None else each.seconds
                sorts.setdefault(fault.sort, []).append(seconds)
        return {
            "faults": sum(len(each.faults) for each in self.recoveries),
            "rounds": len(self.recoveries),
            "not_recovered": sum(each.seconds is None for each in self.recoveries),
            "longest_recovery_seconds": round(max(max(found) for found in sorts.values()), 1),
            "by_sort": {
                sort: {
                    "faults": len(found),
                    "median": round(median(found), 1),
                    "longest": round(max(found), 1),
                }
                for sort, found in sorted(sorts.items())
            },
            "by_mode": dict(Counter(each.mode for each in self.recoveries for _ in each.faults)),
        }


def is_clean(figures: dict[str, Any]) -> bool:
    """Nothing lost, nothing twice, nothing stuck, nobody who did not come back."""
    return not any(figures[name] for name in ("lost", "twice", "stuck", "dead", "not_recovered"))


async def _last(fault: Fault) -> None:
    await asyncio.to_thread(fault.begin)
    try:
        await asyncio.sleep(fault.seconds)
    finally:
        await asyncio.to_thread(fault.end)


async def _prepare(url: str) -> None:
    await upgrade(url)
    database = await Database.open(url, connections=2, name="machines")
    try:
        async with database.transaction() as connection:
            await connection.execute(chaos_kinds.TABLE)
            await set_pools(connection, POOLS, ["scripted"])
    finally:
        await database.close()


async def _until_done(look: Look, patience_seconds: float) -> None:
    """Nothing waits any more; whoever is stuck is found by the account."""
    last, moved_at = -1, time.monotonic()
    while time.monotonic() - moved_at < patience_seconds:
        left = await look.one("select count(*) from jobs")
        if left == 0:
            return
        if left != last:
            last, moved_at = left, time.monotonic()
        with contextlib.suppress(TimeoutError):
            await asyncio.sleep(0.1)

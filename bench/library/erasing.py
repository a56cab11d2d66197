"""A library of half of everything is erased while others search: what they notice of it.

Erasing is another process. It is stopped between batches now and then, so that searches with and without it are
measured by turns; the first searches, before anything was erased, are told apart.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections import defaultdict
from multiprocessing.synchronize import Event
from typing import Any

from bench.library.asking import BIG, Question, questions
from bench.library.catalogue import Size, Tell, url_of
from bench.library.growth import quantile
from mediamill.db.connection import Database, connect
from mediamill.libraries.erase import Erased, empty_trash
from mediamill.libraries.trash import remove_library

COPY = "doomed"
SEARCHERS = 2
PAUSE_SECONDS = 0.05  # between a searcher's searches, at most: people think
BEFORE_SECONDS, ERASING_SECONDS, RESTING_SECONDS = 60.0, 30.0, 15.0
Found = dict[str, Any]
Walls = dict[str, dict[str, list[float]]]  # by phase, by question


async def measure_erasing(
    url: str, size: Size, tell: Tell, *, shrink: float = 1.0, most_seconds: float = 3600
) -> Found:
    """On a copy of the catalogue. `shrink`: of the times. What is not erased after `most_seconds` is left."""
    server = await connect(url)
    try:
        tell("copying the catalogue")
        await server.execute(f"drop database if exists {COPY} with (force)")
        await server.execute(f"create database {COPY} template {size.name} strategy file_copy")
        return await _measure(url_of(url, COPY), size, tell, shrink, most_seconds)
    finally:
        await server.execute(f"drop database if exists {COPY} with (force)")
        await server.close()


async def _measure(url: str, size: Size, tell: Tell, shrink: float, most_seconds: float) -> Found:
    database = await Database.open(url)
    async with database.transaction() as connection:
        await remove_library(connection, BIG)
    walls: Walls = defaultdict(lambda: defaultdict(list))
    phase = ["warm-up"]
    searchers = [asyncio.create_task(_search_on(database, size, n, phase, walls)) for n in range(SEARCHERS)]
    try:
        await asyncio.sleep(BEFORE_SECONDS * shrink / 3)
        phase[0] = "before"
        await asyncio.sleep(BEFORE_SECONDS * shrink)
        seconds = await _erase(url, phase, tell, shrink, most_seconds)
        phase[0] = "after"
        await asyncio.sleep(BEFORE_SECONDS * shrink)
        left = await database.pool.fetchval("select count(*) from assets where library = 1")
    finally:
        for task in searchers:
            if not task.cancel():
                task.result()  # it failed: there is nothing to tell
        await asyncio.gather(*searchers, return_exceptions=True)
        await database.close()
    erased = {"assets": size.assets // 2 - left, "left": left, "erasing_seconds": round(seconds, 1)}
    return erased | _told(walls)


async def _erase(url: str, phase: list[str], tell: Tell, shrink: float, most_seconds: float) -> float:
    """By turns: erasing, resting; the seconds of erasing."""
    context = multiprocessing.get_context("spawn")
    go = context.Event()
    eraser = context.Process(target=_empty, args=(url, go), daemon=True)
    eraser.start()
    total = 0.0
    try:
        while eraser.is_alive() and total < most_seconds:
            began = time.monotonic()
            phase[0] = "erasing"
            go.set()
            await asyncio.to_thread(eraser.join, ERASING_SECONDS * shrink)
            total += time.monotonic() - began
            go.clear()
            phase[0] = "stopping"  # the batch at hand is still being erased
            await asyncio.sleep(2)
            phase[0] = "resting"
            tell(f"erased for {total:.0f} s")
            await asyncio.sleep(RESTING_SECONDS * shrink if eraser.is_alive() else 0)
    finally:
        eraser.kill()
        eraser.join()
    return total


def _empty(url: str, go: Event) -> None:
    """The other process."""

    def wait(_erased: Erased) -> None:
        go.wait()

    async def empty() -> None:
        database = await Database.open(url)
        go.wait()
        await empty_trash(database, BIG, wait)
        await database.close()

    asyncio.run(empty())


async def _search_on(database: Database, size: Size, number: int, phase: list[str], walls: Walls) -> None:
    """All sorts of searches, the same ones in the same order in every phase."""
    asked = [one for one in questions(vectors=False) if one.group == "search"]
    while True:
        chance, now = random.Random(number), phase[0]
        for _ in range(50):
            for question in asked:
                if phase[0] != now:
                    break
                await _search(database, size, question, chance, phase, walls)
        await asyncio.sleep(0)


async def _search(
    database: Database, size: Size, question: Question, chance: random.Random, phase: list[str], walls: Walls
) -> None:
    before, began = phase[0], time.perf_counter()
    async with database.connection() as connection:
        await question.ask(connection, size, chance)
    wall = (time.perf_counter() - began) * 1000
    if phase[0] == before:
        walls[before][question.name].append(wall)
    await asyncio.sleep(random.uniform(0, 2 * PAUSE_SECONDS))


def _told(walls: Walls) -> Found:
    """All searches together, since a slow one is slow for whoever waits; and each by itself."""
    phases = {}
    for phase, by_name in walls.items():
        every = [wall for times in by_name.values() for wall in times]
        phases[phase] = {"searches": len(every)} | {
            f"p{share}_ms": round(quantile(every, share / 100), 2) for share in (50, 90, 99)
        }
    each = {
        name: {phase: round(quantile(walls[phase][name], 0.99), 1) for phase in walls if walls[phase][name]}
        for name in walls["before"]
    }
    return {"phases": phases, "p99_ms_of_each": each}

"""Measure search: a made-up catalogue of two sizes, words, vectors and filters, alone and beside others who search.

python -m bench.library.search --small 20000 --assets 2000000 --scenes 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg
import numpy as np

from bench.machine import describe_machine
from mediamill.db.connection import Connection, Database
from mediamill.db.embedded import EmbeddedServer
from mediamill.db.migrate import upgrade
from mediamill.search.find import search
from mediamill.search.indexes import ensure_index
from mediamill.search.model import Like, QueryVector, Wanted

GROWTH = 3.0  # of the p50, from the small catalogue to the large one
BATCH = 100_000
DIMENSIONS = 384
LIBRARIES = 10
# A word's chance falls with its number: w0 is in about a fifth of the rows, w500000 in next to none.
WORD = "'w' || floor(exp(random() * 13.8))::int - 1"
TEXT = f"'a photo of ' || {WORD} || ' and ' || {WORD} || ' near ' || {WORD} || ' with ' || {WORD} || ' ' || {WORD}"
ASSETS = f"""
insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, output, description, tags,
    tags_model_id, search_vector)
select library, 1, path, type, 0, 1, n, now() - make_interval(mins => n), 'completed', '1-1', said, tags, 1,
    findable(said, tags, path, null)
from (select n, 1 + n % {LIBRARIES} as library, 'd' || n / 1000 || '/IMG_' || n || '.jpg' as path, {TEXT} as said,
        jsonb_build_array(jsonb_build_object('label', {WORD}, 'score', 0.9)) as tags,
        case when n % 5 = 0 then 'video' else 'image' end as type
    from generate_series($1::int, $2::int) n offset 0) made"""
SCENES = f"""
insert into video_scenes (asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason, rep_frame_path,
    description, tags_model_id, search_vector)
select asset_id, library, number, number * 10, number * 10 + 10, 1, 'phash', 's.jpg', said, 1,
    findable(said, null, null, null)
from (select a.id as asset_id, a.library, number, {TEXT} as said from assets a, generate_series(1, $3::int) number
    where a.id between $1 and $2 and a.type = 'video' offset 0) made"""


@dataclass(frozen=True)
class Sizes:
    """How much of everything. `scenes`: for each asset on average; one asset in five is a video, and has them."""

    assets: int
    scenes: int
    vectors: int
    rounds: int


Found = dict[str, Any]


async def fill(database: Database, sizes: Sizes, have: int) -> None:
    """Up to so many assets, in batches."""
    async with database.connection() as connection:
        if not have:
            await connection.execute(
                "insert into libraries (slug, name, absolute_path) select 'l' || n, 'l' || n, '/l' || n"
                f" from generate_series(1, {LIBRARIES}) n"
            )
            await connection.execute(
                "insert into ai_models (name, task, engine, dimensions) values ('eye@1', 'vision', 'local', null),"
                f" ('text@1', 'text', 'local', {DIMENSIONS})"
            )
        indexes = await _drop_indexes(connection, "assets_words", "video_scenes_words")
        for begin in range(have + 1, sizes.assets + 1, BATCH):
            end = min(begin + BATCH - 1, sizes.assets)
            await connection.execute(ASSETS, begin, end)
            await connection.execute(SCENES, begin, end, sizes.scenes * 5)
            tell(f"{end} assets")
        for index in indexes:
            await connection.execute(index)
        await connection.execute("vacuum analyze assets")
        await connection.execute("vacuum analyze video_scenes")


async def _drop_indexes(connection: Connection, *names: str) -> list[str]:
    """How to make them again: at once, when everything is there, is much quicker. Those that there are not: nothing."""
    made = []
    for name in names:
        if (index := await connection.fetchval("select pg_get_indexdef(to_regclass($1))", name)) is not None:
            made.append(index)
            await connection.execute(f"drop index {name}")
    return made


async def fill_vectors(database: Database, amount: int, have: int) -> None:
    """Around a thousand directions, as things of a thousand sorts would be; by COPY."""
    rng = np.random.default_rng(7)
    sorts = rng.normal(size=(1000, DIMENSIONS))
    async with database.connection() as connection:
        model = await connection.fetchval("select id from ai_models where name = 'text@1'")
        await _drop_indexes(connection, f"search_vectors_model_{model}")
        await connection.execute("create temp table if not exists packed (asset_id bigint, v text)")
        for begin in range(have + 1, amount + 1, 5000):
            ids = np.arange(begin, min(begin + 5000, amount + 1))
            vectors = sorts[rng.integers(0, 1000, len(ids))] + rng.normal(
                scale=0.7, size=(len(ids), DIMENSIONS)
            )
            rows = [(int(id_), _text(vector)) for id_, vector in zip(ids, vectors, strict=True)]
            await connection.copy_records_to_table("packed", records=rows)
            await connection.execute(
                "insert into search_vectors (model_id, library, asset_id, v)"
                f" select {model}, 1 + asset_id % {LIBRARIES}, asset_id, v::halfvec from packed"
            )
            await connection.execute("truncate packed")
        await connection.execute("analyze search_vectors")
    await ensure_index(database, model, DIMENSIONS)


def _text(vector: Any) -> str:
    return "[" + ",".join(f"{number:.4g}" for number in vector / np.linalg.norm(vector)) + "]"


def searches(seed: int) -> dict[str, Callable[[], Wanted]]:
    """What is asked, each time for something else."""
    chance = random.Random(seed)
    sorts = np.random.default_rng(7).normal(size=(1000, DIMENSIONS))

    def word(low: int, high: int) -> str:
        return f"w{chance.randint(low, high)}"

    def vector() -> QueryVector:
        return QueryVector("text@1", sorts[chance.randrange(1000)].tolist())

    return {
        "rare word": lambda: Wanted(words=word(50_000, 500_000)),
        "middling word": lambda: Wanted(words=word(100, 1000)),
        "common word": lambda: Wanted(words=word(0, 4)),
        "two common words": lambda: Wanted(words=f"{word(0, 4)} {word(0, 20)}"),
        "phrase": lambda: Wanted(words=f'"{word(0, 4)} {word(0, 20)}"'),
        "common, one library": lambda: Wanted(words=word(0, 4), library=f"l{chance.randint(1, LIBRARIES)}"),
        "common, only videos": lambda: Wanted(words=word(0, 4), types=("video",)),
        "meaning": lambda: Wanted(meaning=vector()),
        "meaning, one library": lambda: Wanted(meaning=vector(), library=f"l{chance.randint(1, LIBRARIES)}"),
        "words and meaning": lambda: Wanted(words=word(0, 1000), meaning=vector()),
        "more like this": lambda: Wanted(like=Like("asset", chance.randint(1, 5000))),
        "newest": lambda: Wanted(),
    }


async def measure(database: Database, rounds: int) -> Found:
    """Milliseconds, p50 and p99 of each."""
    found: Found = {}
    for name, make in searches(5).items():
        times, hits = [], 0
        for number in range(rounds + 3):
            wanted = make()
            began = time.perf_counter()
            async with database.connection() as connection:
                told = await search(connection, wanted)
            if number >= 3:
                times.append((time.perf_counter() - began) * 1000)
                hits += len(told.hits)
        times.sort()
        found[name] = {
            "p50_ms": round(times[len(times) // 2], 1),
            "p99_ms": round(times[min(len(times) - 1, int(len(times) * 0.99))], 1),
            "hits": round(hits / rounds, 1),
        }
    return found


async def measure_beside(database: Database, rounds: int) -> Found:
    """The same while one other searches for common words without a pause."""
    busy = asyncio.create_task(_search_on(database))
    try:
        return await measure(database, rounds)
    finally:
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)


async def _search_on(database: Database) -> None:
    make = searches(9)["two common words"]
    while True:
        async with database.connection() as connection:
            await search(connection, make())


async def sizes_of(database: Database) -> Found:
    """Of tables and indexes, in megabytes."""
    names = (
        "assets",
        "video_scenes",
        "search_vectors",
        "assets_words",
        "video_scenes_words",
        "search_vectors_model_2",
    )
    async with database.connection() as connection:
        rows = {
            name: await connection.fetchval("select pg_relation_size(to_regclass($1)) / 1e6::float8", name)
            for name in names
        }
        whole = await connection.fetchval("select pg_database_size(current_database()) / 1e6::float8")
    return {**{name: round(size or 0, 1) for name, size in rows.items()}, "database": round(whole, 1)}


async def run(url: str, small: Sizes, large: Sizes) -> Found:
    """Both sizes, in one database: the large one grows out of the small one."""
    await upgrade(url)
    database = await Database.open(url)
    found: Found = {}
    try:
        have = vectors = 0
        for name, sizes in (("small", small), ("large", large)):
            began = time.monotonic()
            await fill(database, sizes, have)
            await fill_vectors(database, sizes.vectors, vectors)
            have, vectors = sizes.assets, sizes.vectors
            filled = round(time.monotonic() - began, 1)
            tell(f"{name}: filled in {filled} s")
            found[name] = {
                "assets": sizes.assets,
                "scenes": sizes.assets * sizes.scenes,
                "vectors": sizes.vectors,
                "filled_seconds": filled,
                "alone": await measure(database, sizes.rounds),
                "beside_another": await measure_beside(database, sizes.rounds),
                "megabytes": await sizes_of(database),
            }
    finally:
        await database.close()
    found["growth"] = {
        name: round(told["p50_ms"] / found["small"]["alone"][name]["p50_ms"], 2)
        for name, told in found["large"]["alone"].items()
    }
    return found


def print_report(found: Found) -> None:
    """A table for people."""
    print(
        f"\n{'search':<24}{'small p50':>10}{'p99':>8}{'large p50':>12}{'p99':>8}{'growth':>9}{'beside p99':>12}"
    )
    for name, growth in found["growth"].items():
        small, large = (found[size]["alone"][name] for size in ("small", "large"))
        beside, met = found["large"]["beside_another"][name]["p99_ms"], growth <= GROWTH
        print(
            f"{name:<24}{small['p50_ms']:>10}{small['p99_ms']:>8}{large['p50_ms']:>12}{large['p99_ms']:>8}"
            f"{growth:>9}{beside:>12}  {'met' if met else 'NOT MET'}"
        )
    print(json.dumps(found["large"]["megabytes"]))


def tell(text: str) -> None:
    """Progress; standard output has the figures only."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, print; 1 if a search grew by more than is allowed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.library.search", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--small", type=int, default=20_000)
    parser.add_argument("--assets", type=int, default=2_000_000)
    parser.add_argument("--scenes", type=int, default=5, help="rows of scenes for each asset, on average")
    parser.add_argument(
        "--vectors", type=int, default=200_000, help="of the large catalogue; the small one has all"
    )
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--out", type=Path, default=None, help="results file")
    options = parser.parse_args()
    machine = describe_machine()
    folder = Path(tempfile.mkdtemp(prefix="bench-search-"))
    use = EmbeddedServer(folder).start()
    try:
        asyncio.run(_hasten(use.url))
        small = Sizes(options.small, options.scenes, min(options.small, options.vectors), options.rounds)
        large = Sizes(options.assets, options.scenes, min(options.assets, options.vectors), options.rounds)
        found = asyncio.run(run(use.url, small, large))
    finally:
        use.close()
        shutil.rmtree(folder, ignore_errors=True)
    if options.out:
        options.out.write_text(json.dumps({"machine": machine, **found}, indent=2) + "\n")
    print_report(found)
    return int(max(found["growth"].values()) > GROWTH)


async def _hasten(url: str) -> None:
    """Filling only: what makes commits durable is not measured here."""
    connection: Callable[[str], Awaitable[Any]] = (await asyncpg.connect(url)).execute
    for statement in (
        "alter system set fsync = off",
        "alter system set max_wal_size = '16GB'",
        "select pg_reload_conf()",
    ):
        await connection(statement)


if __name__ == "__main__":
    sys.exit(main())

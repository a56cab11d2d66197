"""A made-up catalogue, as large as wanted: assets, scenes, words, vectors. Made once in a folder that may be kept.

Half of the assets are of library l1, l2 has those that wait for workers, the rest are of l3 to l8; one asset in five is
a video. Each library has its ids in one piece, and each folder its days, as scans leave them. What is not there: rows
that were written several times, as work goes on (vacuum would have seen to them).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mediamill.db.connection import Connection, Database, connect
from mediamill.db.migrate import upgrade
from mediamill.search.indexes import ensure_index

Tell = Callable[[str], None]
BATCH = 50_000
LOADERS = 2
LIBRARIES = 8
SCENES_OF_VIDEO = 25
DIMENSIONS = 384
MODELS = ("eye@1", "text@1")
# A word's chance falls with its number: w0 is in a fifth of the rows, w100000 in next to none.
WORDS = ", ".join(f"floor(exp(random() * 13.8))::int - 1 as {name}" for name in "abcde")
SAID = "format('a photo of w%s and w%s near w%s with w%s w%s', a, b, c, d, e)"
# As `findable` would make it, without the work: see check_vectors.
SAID_VECTOR = "format('photo:2A w%s:4A w%s:6A near:7A w%s:8A w%s:10A w%s:11A', a, b, c, d, e)"
LIBRARY = f"case when n <= $3 / 2 then 1 else 2 + (n - $3 / 2 - 1) * {LIBRARIES - 1} / ($3 - $3 / 2) end"
ASSETS = f"""
insert into assets (id, library, folder, rel_path, type, mtime_ns, size, inode, shown_at, status, output, width, height,
    duration_seconds, description, tags, facts, tags_model_id, search_vector)
overriding system value
select n, library, n / 200, format('%s/trip-%s/IMG_%s.%s', year, trip, photo,
        case type when 'video' then 'mp4' else 'jpg' end),
    type, 1500000000000000000 + n, 4000000 + n % 1000, n,
    make_timestamptz(year, 1, 1, 0, 0, 0, 'UTC') + make_interval(days => (n / 200 * 7919) % 360, mins => n % 200),
    case when library = 2 and type = 'image' then 'pending' when n % 100 = 7 then 'failed' else 'completed' end,
    n || '-1', 4000, 3000, case type when 'video' then {SCENES_OF_VIDEO} * 10 end, {SAID},
    jsonb_build_array(jsonb_build_object('label', 'w' || a, 'score', 0.9)),
    '{{"camera": "Made Up 1", "exposure": "1/125", "iso": 200}}', $4,
    ({SAID_VECTOR} || format(' w%s:13B %s:14C trip:15C %s:16C img:17C %s:18C jpg:19C', a, year,
        trip, photo))::tsvector
from (select n, {LIBRARY} as library, 2006 + (n / 200) % 20 as year, lpad((n / 200)::text, 5, '0') as trip,
    lpad((n % 200)::text, 4, '0') as photo, case when n % 5 = 0 then 'video' else 'image' end as type, {WORDS}
    from generate_series($1::int, $2::int) n offset 0) made"""
# What waits for a worker cannot be found yet.
WAITING = """
update assets set output = null, width = null, height = null, description = null, tags = null, facts = null,
    tags_model_id = null, search_vector = null
where status = 'pending'"""
SCENES = f"""
insert into video_scenes (id, asset_id, library, number, start_ts, end_ts, sharpness_score, keep_reason, rep_frame_path,
    description, tags_model_id, search_vector)
overriding system value
select (n / 5 - 1) * {SCENES_OF_VIDEO} + number, n, library, number, number * 10 - 10, number * 10, 1, 'phash',
    format('libraries/%s/%s-%s-1/scene-%s.jpg', lpad((n % 1000)::text, 3, '0'), n, n, lpad(number::text, 5, '0')),
    {SAID}, $4, {SAID_VECTOR}::tsvector
from (select n, number, {LIBRARY} as library, {WORDS} from generate_series($1::int, $2::int) n,
    generate_series(1, {SCENES_OF_VIDEO}) number where n % 5 = 0 offset 0) made"""
FOLDERS = """
insert into library_folders (id, library, rel_path) overriding system value
select folder, min(library), min(regexp_replace(rel_path, '/[^/]*$', '')) from assets group by folder
on conflict do nothing"""
HASTE = {"fsync": "off", "autovacuum": "off", "max_wal_size": "8GB"}


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything. Scenes: five for each asset."""

    name: str
    assets: int
    vectors: int

    @property
    def scenes(self) -> int:
        """In all videos together."""
        return self.assets // 5 * SCENES_OF_VIDEO


def url_of(url: str, name: str) -> str:
    """Of another database of the same server."""
    return f"{url.rpartition('/')[0]}/{name}"


async def ensure_catalogue(url: str, size: Size, media: Path, tell: Tell) -> None:
    """The database of that name, made unless it is there as wanted."""
    began = time.monotonic()
    if not await _is_made(url, size):
        async with _hastened(url) as server:
            await server.execute(f"drop database if exists {size.name} with (force)")
            await server.execute(f"create database {size.name}")
            await upgrade(url_of(url, size.name))
            database = await Database.open(url_of(url, size.name))
            try:
                await _fill(database, size, media, tell)
                await database.pool.execute("vacuum (freeze, analyze)")
            finally:
                await database.close()
            await server.execute("checkpoint")
            await server.execute(f"comment on database {size.name} is '{size.assets}'")
    await _ensure_vectors(url, size, tell)
    tell(f"{size.name}: there after {time.monotonic() - began:.0f} s")


async def _is_made(url: str, size: Size) -> bool:
    server = await connect(url)
    try:
        said = await server.fetchval(
            "select shobj_description(oid, 'pg_database') from pg_database where datname = $1", size.name
        )
    finally:
        await server.close()
    return bool(said == str(size.assets))


async def _ensure_vectors(url: str, size: Size, tell: Tell) -> None:
    database = await Database.open(url_of(url, size.name))
    try:
        if await database.pool.fetchval("select count(*) from search_vectors") != size.vectors:
            await database.pool.execute("truncate search_vectors")
            await _fill_vectors(database, size, tell)
            await database.pool.execute("vacuum (freeze, analyze) search_vectors")
    finally:
        await database.close()


@asynccontextmanager
async def _hastened(url: str) -> AsyncIterator[Connection]:
    """Filling only: nothing of this is left when figures are taken."""
    server = await connect(url)
    try:
        for name, value in HASTE.items():
            await server.execute(f"alter system set {name} = '{value}'")
        await server.execute("select pg_reload_conf()")
        yield server
    finally:
        for name in HASTE:
            await server.execute(f"alter system reset {name}")
        await server.execute("select pg_reload_conf()")
        await server.close()


async def _fill(database: Database, size: Size, media: Path, tell: Tell) -> None:
    """Rows without indexes, by as many connections as there are cores; then the indexes."""
    async with database.connection() as connection:
        await connection.execute(
            "insert into libraries (slug, name, absolute_path, scanned_at)"
            " select 'l' || n, 'Library ' || n, $1 || '/l' || n, now() from generate_series(1, $2::int) n",
            str(media),
            LIBRARIES,
        )
        for number in range(1, LIBRARIES + 1):
            (media / f"l{number}").mkdir(parents=True, exist_ok=True)
        await connection.execute(
            "insert into ai_models (name, task, engine, dimensions)"
            " values ($1, 'vision', 'local', null), ($2, 'text', 'local', $3)",
            *MODELS,
            DIMENSIONS,
        )
        await check_vectors(connection)
        indexes = await _drop_indexes(connection)
    begins = iter(range(1, size.assets + 1, BATCH))
    await asyncio.gather(*(_load(database, size, begins, tell) for _ in range(LOADERS)))
    async with database.connection() as connection:
        await connection.execute("set maintenance_work_mem = '1GB'")
        await connection.execute(WAITING)
        for name, definition in indexes.items():
            began = time.monotonic()
            await connection.execute(definition)
            tell(f"{size.name}: {name} in {time.monotonic() - began:.0f} s")
        await connection.execute(FOLDERS)
        for table in ("assets", "video_scenes", "library_folders"):
            await connection.execute(
                f"select setval(pg_get_serial_sequence('{table}', 'id'), max(id)) from {table}"
            )
        await connection.execute("reset maintenance_work_mem")


async def _load(database: Database, size: Size, begins: Any, tell: Tell) -> None:
    async with database.connection() as connection:
        await connection.execute(
            "set session_replication_role = replica"
        )  # what is written here is known to fit
        await connection.execute("set synchronous_commit = off")
        for begin in begins:
            end = min(begin + BATCH - 1, size.assets)
            for statement in (ASSETS, SCENES):
                await connection.execute(statement, begin, end, size.assets, 1)
            if end % (BATCH * 4) == 0:
                tell(f"{size.name}: {end} assets")
        await connection.execute("reset all")


async def _drop_indexes(connection: Connection) -> dict[str, str]:
    """How to make them again: when everything is there, that is much quicker."""
    rows = await connection.fetch(
        "select indexname, indexdef from pg_indexes where tablename in ('assets', 'video_scenes')"
        " and indexname not like '%_pkey' order by indexname"
    )
    for row in rows:
        await connection.execute(f"drop index {row['indexname']}")
    return {row["indexname"]: row["indexdef"] for row in rows}


async def check_vectors(connection: Connection) -> None:
    """What is loaded as words is what the product would make of the same text."""
    same = await connection.fetchval(
        f"select bool_and({SAID_VECTOR}::tsvector = findable({SAID}, null, null, null)) from ("
        f"select {WORDS} from generate_series(1, 100)) made"
    )
    assert same, "the catalogue's words are not those of the product"


async def _fill_vectors(database: Database, size: Size, tell: Tell) -> None:
    """Of the first assets after l1: around a thousand directions, as things of a thousand sorts would be."""
    rng, sorts, first = np.random.default_rng(8), directions(), size.assets // 2
    async with database.connection() as connection:
        model = await connection.fetchval("select id from ai_models where name = $1", MODELS[1])
        await connection.execute("create temp table packed (asset_id bigint, v text)")
        for begin in range(1, size.vectors + 1, 5000):
            ids = np.arange(begin, min(begin + 5000, size.vectors + 1)) + first
            vectors = sorts[rng.integers(0, 1000, len(ids))] + rng.normal(
                scale=0.7, size=(len(ids), DIMENSIONS)
            )
            rows = [(int(id_), _text(vector)) for id_, vector in zip(ids, vectors, strict=True)]
            await connection.copy_records_to_table("packed", records=rows)
            await connection.execute(
                "insert into search_vectors (model_id, library, asset_id, v)"
                " select $1, a.library, a.id, p.v::halfvec from packed p join assets a on a.id = p.asset_id",
                model,
            )
            await connection.execute("truncate packed")
        await connection.execute("drop table packed")
    began = time.monotonic()
    await ensure_index(database, model, DIMENSIONS)
    tell(f"{size.name}: index of {size.vectors} vectors in {time.monotonic() - began:.0f} s")


def directions() -> Any:
    """What vectors are near to."""
    return np.random.default_rng(7).normal(size=(1000, DIMENSIONS))


def _text(vector: Any) -> str:
    return "[" + ",".join(f"{number:.4g}" for number in vector / np.linalg.norm(vector)) + "]"


async def sizes_of(database: Database, assets: int) -> dict[str, Any]:
    """Bytes for each asset, of every table and index that has some."""
    rows = await database.pool.fetch(
        """select relname as name, case relkind when 'i' then pg_relation_size(oid) else pg_table_size(oid) end as size
        from pg_class where relkind in ('r', 'i') and relnamespace = 'public'::regnamespace order by 2 desc"""
    )
    sizes = {row["name"]: row["size"] for row in rows}
    whole = await database.pool.fetchval("select pg_database_size(current_database())")
    return {
        "database_mb": round(whole / 1e6, 1),
        "bytes_per_asset": round(whole / assets),
        "parts": {name: round(size / assets, 1) for name, size in sizes.items() if size / assets >= 0.5},
    }

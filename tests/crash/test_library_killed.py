"""Killed with -9 in the middle of a scan, of proxies, scenes, tags, and of emptying the trash: it goes on, once."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import pyvips

from mediamill.db.connection import Database
from mediamill.libraries.add import add_library
from mediamill.libraries.collect import collect_garbage
from mediamill.libraries.erase import BATCH
from mediamill.libraries.model import VIDEO
from mediamill.libraries.trash import remove_library
from mediamill.staging.kept import sweep_kept
from tests.conftest import wait_until
from tests.crash.intake_order import kill_family
from tests.crash.processes import Mill, holding, mill
from tests.media.clips import encode, pan

__all__ = ["mill"]

IMAGES, SCENES = 8, 6
ASSETS = """
insert into assets (library, folder, rel_path, type, mtime_ns, size, inode, shown_at)
select number, 1, 'image-' || lpad(n::text, 7, '0'), 'image', 0, 1, n, now() from libraries, generate_series(1, $1) n
"""
STAGES = (
    "select count(*) >= 2 from assets where output is not null and type = 'image'",
    "select count(*) >= 3 from video_scenes",
    "select count(*) >= 2 from assets where status = 'completed'",
)
# Whoever would write more once it is so waits for the lock, which somebody holds.
LOCK = 20261117
STOP_WHEN = """
create or replace function stop_here() returns trigger language plpgsql as $$
begin
    if ({stage}) then perform pg_advisory_xact_lock_shared({lock}); end if;
    return new;
end $$
"""
STOPS = (
    "create trigger stop_here before insert or update on {table} for each row execute function stop_here()"
)
STOPPED = """
select exists (select from pg_locks where locktype = 'advisory' and objid = $1 and not granted
    and database = (select oid from pg_database where datname = current_database()))
"""


@pytest.fixture
async def database(mill: Mill) -> AsyncIterator[Database]:
    assert mill.url is not None
    opened = await Database.open(mill.url, connections=4)
    yield opened
    await opened.close()


def fill_folder(folder: Path) -> None:
    """Small photos that all differ, and a video of many scenes."""
    (folder / "2024").mkdir(parents=True)
    random = np.random.default_rng(7)
    for number in range(IMAGES):
        pixels = np.repeat(np.repeat(random.integers(0, 256, (8, 12, 3), np.uint8), 100, 0), 100, 1)
        pyvips.Image.new_from_array(pixels).jpegsave(str(folder / "2024" / f"{number:02}.jpg"))
    encode(folder / "film.mp4", (picture for seed in range(SCENES) for picture in pan(seed, 4.0)))


async def stop_when(mill: Mill, stage: str) -> None:
    await mill.one(STOP_WHEN.format(stage=stage, lock=LOCK))


async def add(database: Database, folder: Path, name: str = "Photos") -> None:
    async with database.transaction() as connection:
        await add_library(connection, name, str(folder))


async def scenes_of(database: Database, slug: str) -> list[tuple[object, ...]]:
    async with database.connection() as connection:
        rows = await connection.fetch(
            "select s.number, s.start_ts, s.end_ts, s.keep_reason from video_scenes s "
            "join assets a on a.id = s.asset_id join libraries l on l.number = a.library where l.slug = $1 "
            "order by s.number",
            slug,
        )
    return [tuple(row) for row in rows]


async def assert_every_file_is_there(database: Database, data: Path) -> None:
    """After the collector: exactly the folders that assets show, with all that rows name."""
    await sweep_kept(database, data, older_than_seconds=0)
    await collect_garbage(database, data, older_than_seconds=0)
    async with database.connection() as connection:
        shown = await connection.fetchval("select array_agg(id || '-' || output) from assets")
        frames = await connection.fetch(
            "select rep_frame_path from video_scenes union all "
            "select video_preview_path from assets where type = 'video'"
        )
    folders = list((data / "libraries").glob("*/*"))
    assert sorted(path.name for path in folders) == sorted(shown)
    for folder in folders:
        assert {"preview.webp", "thumbnail.jpg"} <= {path.name for path in folder.iterdir()}
    assert frames
    assert all((data / row[0]).is_file() for row in frames)
    assert list((data / "kept").glob("*/*")) == []


@pytest.mark.spec("L3", "L4", "L5", "L7", "L10", "L16")
async def test_a_process_that_is_killed_at_every_stage_ends_with_everything_once(
    mill: Mill, database: Database
) -> None:
    mill.settings["MEDIAMILL_SESSION_GRACE_SECONDS"] = "1"
    mill.settings["MEDIAMILL_LIBRARY_READ_TEXT"] = "false"  # there is none, and to look for it takes long
    folder, data = mill.folder / "photos", mill.folder / "data"
    fill_folder(folder)
    await add(database, folder)
    async with holding(mill, "lock table assets in share mode"):
        scanning = mill.start("scan", "photos")
        await mill.until("select exists (select from pg_locks where not granted)")
        await kill_family(scanning)
    assert await mill.one("select scan_status from libraries") == "scanning"
    await mill.one("update libraries set scan_beat_at = now() - interval '1 hour'")
    assert (await mill.say("scan", "photos"))[0] == 0
    assert await mill.one("select count(*) from assets") == IMAGES + 1
    await stop_when(mill, "false")
    for table in ("assets", "video_scenes"):
        await mill.one(STOPS.format(table=table))
    for stage in STAGES:
        await stop_when(mill, stage)
        async with holding(mill, f"select pg_advisory_xact_lock({LOCK})"):
            working = await mill.started("up", "--workers", "1")
            await mill.until(STOPPED, LOCK)
            await kill_family(working)
        assert await mill.one("select exists (select from assets where status <> 'completed')")
        if "video_scenes" in stage:  # each scene was committed with the place to resume from
            scenes = "select max(number) from video_scenes"
            assert await mill.one(
                f"select (checkpoint ->> 'scenes')::int = ({scenes}) from jobs where kind = $1", VIDEO
            )
    await stop_when(mill, "false")
    working = await mill.started("up", "--workers", "1")
    done = "select bool_and(status = 'completed' and job_id is null) from assets"
    await mill.until(done, limit_seconds=240)
    assert await mill.one("select count(*) from dead_jobs") == 0
    assert await mill.one("select count(*) = count(distinct number) from video_scenes")
    # The same film without a kill, under another roof, has the same scenes.
    (mill.folder / "again").mkdir()
    (mill.folder / "again" / "film.mp4").write_bytes((folder / "film.mp4").read_bytes())
    await add(database, mill.folder / "again", "Again")
    assert (await mill.say("scan", "again"))[0] == 0
    again = f"select count(*) = {IMAGES + 2} and bool_and(status = 'completed') from assets"
    await mill.until(again, limit_seconds=240)
    killed, quiet = await scenes_of(database, "photos"), await scenes_of(database, "again")
    assert killed == quiet
    assert len(killed) >= SCENES
    vectors = "select count(*) from search_vectors group by model_id, asset_id, scene_id having count(*) > 1"
    assert await mill.one(vectors) is None
    working.send(signal.SIGTERM)
    assert await working.until_gone() == 0
    await assert_every_file_is_there(database, data)


@pytest.mark.spec("L15")
async def test_a_process_that_is_killed_while_it_empties_the_trash_is_gone_on_with(
    mill: Mill, database: Database
) -> None:
    (mill.folder / "photos").mkdir()
    await add(database, mill.folder / "photos")
    await mill.one(ASSETS, BATCH + 7)
    async with database.transaction() as connection:
        await remove_library(connection, "photos")
    async with holding(mill, "select from assets order by id limit 1 for update"):
        erasing = mill.start("trash", "empty", "--yes")

        async def one_is_left() -> bool:
            assert erasing.popen.poll() is None, erasing.said
            return bool(await mill.one("select count(*) = 1 from assets"))

        await wait_until(one_is_left)
        await kill_family(erasing)
    assert await mill.one("select erasing_at is not null from libraries")
    assert (await mill.say("trash", "empty", "--yes"))[0] == 0
    assert await mill.one("select count(*) from libraries") == 0
    assert await mill.one("select count(*) from assets") == 0
    mill.assert_no_traceback()

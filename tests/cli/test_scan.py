"""`mediamill scan`: what it counts, as it goes and at the end; again and again; and what it refuses."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from subprocess import Popen

import asyncpg
import pytest

from mediamill.db.connection import Database
from mediamill.libraries.scan import BATCH_FOLDERS
from tests.cli.conftest import Mediamill, finish_process, start_process
from tests.libraries.scan_ground import Tree
from tests.stories.terminals import Terminal

FOLDERS = BATCH_FOLDERS + 100
HOLD = """
create function hold() returns trigger language plpgsql as 'begin perform pg_advisory_xact_lock(7); return new; end';
create trigger hold before insert on library_folders for each row when (new.rel_path = 'z') execute function hold();
"""


@pytest.fixture
async def tree(database: Database, tmp_path: Path) -> Tree:
    return await Tree.grow(database, tmp_path)


@asynccontextmanager
async def held_at_z(url: str) -> AsyncIterator[None]:
    """No scan gets past the folder z."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(HOLD)
        await connection.execute("select pg_advisory_lock(7)")
        yield
    finally:
        await connection.close()


@contextmanager
def watching(url: str, *words: str) -> Iterator[Popen[str]]:
    process = start_process("scan", "photos", "--watch", "--every", "0.1", *words, MEDIAMILL_DATABASE_URL=url)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)


async def line_of(process: Popen[str]) -> str:
    """The next one."""
    assert process.stdout is not None
    async with asyncio.timeout(120):
        return await asyncio.to_thread(process.stdout.readline)


@pytest.mark.spec("L17")
async def test_a_counter_shows_how_far_it_is_while_it_goes(
    tree: Tree, new_url: str, environment: dict[str, str]
) -> None:
    tree.write(*(f"{number:04}/a.jpg" for number in range(FOLDERS)), "z/b.mp4")
    async with held_at_z(new_url):
        terminal = Terminal("scan", "photos", environment={**environment, "MEDIAMILL_DATABASE_URL": new_url})
        try:
            await asyncio.to_thread(terminal.until, " new")
            counted = re.search(r"([\d,]+) files in ([\d,]+) folders, ([\d,]+) new", terminal.shown)
            assert counted is not None
            files, folders, new = (int(number.replace(",", "")) for number in counted.groups())
            assert files == new
            assert 0 < files < folders < FOLDERS
            assert terminal.process.poll() is None
        except BaseException:
            terminal.close()
            raise
    code = await asyncio.to_thread(terminal.until_gone)
    terminal.close()
    assert (code, "scanned in" in terminal.shown) == (0, True), terminal.shown[-2000:]
    assert re.search(rf"images and videos +{FOLDERS + 1}\b", terminal.shown)
    assert len(await tree.assets()) == FOLDERS + 1


@pytest.mark.spec("L3", "L17")
async def test_a_watch_tells_what_comes_and_goes_until_ctrl_c(tree: Tree, new_url: str) -> None:
    tree.write("a.jpg", "b/c.mp4")
    with watching(new_url) as process:
        assert re.fullmatch(r"[\d:]{8} 2 files in 2 folders, 2 new\n", await line_of(process))
        tree.write("b/new.part")
        (tree.root / "b" / "new.part").rename(tree.root / "b" / "new.jpg")  # at once, as whole files come
        assert "3 files in 2 folders, 1 new\n" in await line_of(process)
        (tree.root / "a.jpg").unlink()
        assert "2 files in 2 folders, 1 gone\n" in await line_of(process)
        assert (await tree.known()).keys() == {"b/c.mp4", "b/new.jpg"}
        process.send_signal(signal.SIGINT)
        said = await asyncio.to_thread(finish_process, process)
    assert (said.code, said.out, said.err) == (130, "", "")
    assert (await tree.library())["scan_status"] == "idle"


@pytest.mark.spec("L3", "L17")
async def test_a_watch_waits_for_a_folder_that_is_away_and_for_a_pause(tree: Tree, new_url: str) -> None:
    tree.write("a.jpg")
    away = tree.root.with_name("away")
    with watching(new_url, "--json") as process:
        assert json.loads(await line_of(process))["new"] == 1
        tree.root.rename(away)
        assert process.stderr is not None
        assert "cannot be read" in await asyncio.to_thread(process.stderr.readline)
        await tree.sql("update libraries set is_active = false")
        assert "is paused" in await asyncio.to_thread(process.stderr.readline)
        away.rename(tree.root)
        tree.write("b.jpg")
        await tree.sql("update libraries set is_active = true")
        told = json.loads(await line_of(process))
        assert (told["new"], told["vanished"]) == (1, 0)
        process.send_signal(signal.SIGINT)
        assert (await asyncio.to_thread(finish_process, process)).code == 130


@pytest.mark.spec("L3", "L17")
async def test_what_was_found_is_told_at_the_end(mediamill: Mediamill, tree: Tree) -> None:
    tree.write("a.jpg", "b/c.mp4", "b/notes.txt")
    first = await mediamill("scan", "photos")
    assert first.code == 0, first.err
    fields = dict(re.split(r" {2,}", line) for line in first.out.splitlines()[:-1])
    assert fields == {"folders": "2", "images and videos": "2", "new": "2", "other files": "1"}
    assert first.out.splitlines()[-1].startswith("scanned in ")
    tree.write("a.jpg", size=9)
    (tree.root / "b" / "c.mp4").rename(tree.root / "d.mp4")
    told = (await mediamill("scan", "photos", "--json")).json
    assert (told["changed"], told["renamed"], told["new"], told["vanished"]) == (1, 1, 0, 0)
    assert (await mediamill("scan", "photos", "--json")).json["unchanged"] == 2


@pytest.mark.spec("L3", "L17")
async def test_an_empty_folder_is_not_believed_until_somebody_says_so(
    mediamill: Mediamill, tree: Tree
) -> None:
    tree.write("a.jpg")
    await mediamill("scan", "photos")
    shutil.rmtree(tree.root)
    tree.root.mkdir()
    refused = await mediamill("scan", "photos")
    assert (refused.code, "mediamill scan photos --accept-empty" in refused.err) == (1, True)
    assert len(await tree.known()) == 1
    assert (await mediamill("scan", "photos", "--accept-empty", "--json")).json["vanished"] == 1


async def test_what_cannot_be_scanned_is_said(mediamill: Mediamill, tree: Tree) -> None:
    unknown = await mediamill("scan", "nothing")
    assert (unknown.code, "there is no library 'nothing'" in unknown.err) == (1, True)
    await tree.sql(
        "update libraries set scan_status = 'scanning', scan_started_at = now(), scan_beat_at = now()"
    )
    busy = await mediamill("scan", "photos")
    assert (busy.code, "is being scanned since" in busy.err) == (1, True)
    await tree.sql("update libraries set is_active = false, scan_status = 'idle'")
    paused = await mediamill("scan", "photos")
    assert (paused.code, "mediamill library resume photos" in paused.err) == (1, True)
    shutil.rmtree(tree.root)
    await tree.sql("update libraries set is_active = true")
    away = await mediamill("scan", "photos")
    assert (away.code, "is it there, and mounted?" in away.err) == (1, True)
    assert (await tree.library())["scan_status"] == "idle"

"""A library's whole life, by commands and a real server: added, scanned, seen, found, changed, removed, erased."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvips
from playwright.async_api import expect

from mediamill.db.connection import Database
from mediamill.libraries.collect import collect_garbage
from tests.conftest import wait_until
from tests.crash.processes import Mill, mill, told
from tests.media.making_images import corner_names, corners
from tests.stories.library_folder import (
    COUNT,
    ORIENTATIONS,
    SCENE_SECONDS,
    fill,
    how_it_is,
    mounted_read_only,
)
from tests.stories.tracing import can_trace, opened_inside, tracing
from tests.ui.browser import follow, open_browser, until_seen, watch_console

__all__ = ["mill"]

SHOTS = Path(__file__).parents[1] / "screenshots"
DONE = "select count(*) = $1 and bool_and(status = 'completed') from assets where vanished_at is null"


async def completed(mill: Mill, count: int) -> None:
    failed = "select array_agg(rel_path || ': ' || error) from assets where status in ('failed', 'poisoned')"
    await mill.until(f"select ({DONE}) or ({failed}) is not null", count, limit_seconds=300)
    assert await mill.one(failed) is None


async def preview_of(mill: Mill, path: str) -> Any:
    folder = await mill.one(
        "select 'libraries/' || lpad((id % 1000)::text, 3, '0') || '/' || id || '-' || output from assets "
        "where rel_path = $1",
        path,
    )
    image = pyvips.Image.new_from_file(str(mill.folder / "data" / folder / "preview.webp"))
    return np.asarray(image.numpy())[:, :, :3]


async def found(mill: Mill, *words: object) -> dict[str, dict[str, Any]]:
    """By path, the best first."""
    return {hit["path"]: hit for hit in (await told(mill, "search", *words))["hits"]}


async def scan(mill: Mill, place: Path) -> Any:
    """By a whole process, of which every opened file is noted; only folders may be among them."""
    if not can_trace():
        return await told(mill, "scan", "photos")
    notes = mill.folder / f"notes-{len(mill.processes)}"
    counts = await told(replace(mill, inside=tracing(notes)), "scan", "photos")
    opened = opened_inside(notes, place)
    assert len(opened) >= counts["folders"] == 2
    assert all("O_DIRECTORY" in call and "O_RDONLY" in call for call in opened), opened
    return counts


def is_in_scene(hit: dict[str, Any], number: int) -> bool:
    """Is the moment to jump to in this scene? Where scenes change is known to the second or so."""
    at = hit["moments"][0]["at_seconds"]
    begin = number * SCENE_SECONDS
    return bool(begin - 1.5 <= at < begin + SCENE_SECONDS - 1.5) and hit["url"].endswith(f"?t={at:g}")


@pytest.mark.spec("L3", "L4", "L5", "L6", "L10", "L12", "L14", "L15", "L16", "L17")
async def test_a_library_from_its_first_scan_to_its_last_file(mill: Mill, database: Database) -> None:
    source, data = mill.folder / "source", mill.folder / "data"
    fill(source)
    with mounted_read_only(source, mill.folder / "mounted") as (place, read_only):
        before = how_it_is(source, access=read_only)
        await _add_and_look(mill, place)
        await _search(mill)
        await _see_it_on_the_page(mill, f"http://127.0.0.1:{mill.settings['MEDIAMILL_PORT']}")
        assert how_it_is(source, access=read_only) == before
        _change(source)
        before = how_it_is(source, access=read_only)
        await _look_again(mill, place)
        await _remove_and_erase(mill)
        assert how_it_is(source, access=read_only) == before
    await collect_garbage(database, data, older_than_seconds=0)
    assert list((data / "libraries").glob("*/*")) == []


async def _add_and_look(mill: Mill, place: Path) -> None:
    await told(mill, "library", "add", "Photos", place, "--no-scan")
    assert (await scan(mill, place))["new"] == COUNT
    up = await mill.started("up", "--workers", "1")
    port = re.search(r"is up: \S+:(\d+)", up.said)
    assert port is not None
    mill.settings["MEDIAMILL_PORT"] = port[1]  # commands find the server there
    await completed(mill, COUNT)
    for orientation in ORIENTATIONS:
        preview = await preview_of(mill, f"way-{orientation}.jpg")
        assert (corner_names(preview), preview.shape[:2]) == ("rgby", (64, 96)), orientation
    assert (await preview_of(mill, "odd ones/icon.png")).shape[:2] == (32, 32)
    for name in ("turned.heic", "raw.dng", "cmyk.jpg", "deep.png", "moving.webp", "moving.gif"):
        assert corner_names(await preview_of(mill, f"odd ones/{name}")) == "rgby", name


async def _search(mill: Mill) -> None:
    """By word, by meaning, by look, and for what is like something; of the film the right scene is meant each time."""
    drinks = await found(mill, "espresso", "--mode", "words")
    assert {"coffee.jpg", "film.mp4"} <= drinks.keys()
    assert is_in_scene(drinks["film.mp4"], 2)
    cats = await found(mill, "kitty", "--mode", "meaning")
    assert set(list(cats)[:2]) == {"cat.jpg", "film.mp4"}
    assert is_in_scene(cats["film.mp4"], 0)
    rockets = await found(mill, "spaceship launch", "--mode", "look")
    assert set(list(rockets)[:3]) == {"rocket.jpg", "film.mp4", "launch.mp4"}
    assert is_in_scene(rockets["film.mp4"], 1)
    cat = await mill.one("select id from assets where rel_path = 'cat.jpg'")
    alike = await found(mill, "--like", f"asset:{cat}")
    assert next(iter(alike)) == "film.mp4"
    assert is_in_scene(alike["film.mp4"], 0)
    everything = await found(mill, "rocket")
    assert set(list(everything)[:3]) == {"rocket.jpg", "film.mp4", "launch.mp4"}
    assert set(everything["film.mp4"]["why"]) == {"words", "meaning", "look"}
    assert is_in_scene(everything["film.mp4"], 1)


async def _see_it_on_the_page(mill: Mill, url: str) -> None:
    """The last search, as the docs show it; a click goes to the moment."""
    async with open_browser() as browser:
        page = await browser.new_page(viewport={"width": 1000, "height": 560})
        complaints = watch_console(page)
        await page.goto(mill.link(url))
        await page.goto(f"{url}/search?q=rocket")
        film = page.locator(".hit.video", has_text="film.mp4")
        await expect(film.locator(".badge")).to_have_text(["words", "meaning", "look"], timeout=60_000)
        await until_seen(page)
        SHOTS.mkdir(exist_ok=True)
        await page.screenshot(path=SHOTS / "search.png")
        await follow(film.get_by_role("link", name="film.mp4", exact=True))
        here = f"document.getElementById('film')?.currentTime >= {SCENE_SECONDS - 1.5}"
        await wait_until(lambda: page.evaluate(here))
        assert complaints == []


def _change(source: Path) -> None:
    """One changed, one new, one gone, one under another name."""
    pyvips.Image.new_from_array(corners(120, 120)).jpegsave(str(source / "way-1.jpg"))
    shutil.copy(source / "coffee.jpg", source / "new.jpg")
    (source / "way-2.jpg").unlink()
    (source / "cat.jpg").rename(source / "odd ones" / "tiger.jpg")


async def _look_again(mill: Mill, place: Path) -> None:
    cat = await mill.one("select id from assets where rel_path = 'cat.jpg'")
    counts = await scan(mill, place)
    seen = {name: counts[name] for name in ("changed", "new", "vanished", "renamed")}
    assert seen == {"changed": 1, "new": 1, "vanished": 1, "renamed": 1}
    await completed(mill, COUNT)
    assert (await preview_of(mill, "way-1.jpg")).shape[:2] == (120, 120)
    assert await mill.one("select rel_path from assets where id = $1", cat) == "odd ones/tiger.jpg"
    cats = await found(mill, "cat")
    assert "odd ones/tiger.jpg" in cats
    assert "cat.jpg" not in cats
    assert (await scan(mill, place))["unchanged"] == COUNT


async def _remove_and_erase(mill: Mill) -> None:
    await told(mill, "library", "remove", "photos")
    assert await found(mill, "cat") == {}
    await told(mill, "library", "restore", "photos")
    assert await found(mill, "cat")
    await told(mill, "library", "remove", "photos")
    erased = await told(mill, "trash", "empty", "photos", "--yes")
    assert (erased["libraries"], erased["assets"]) == (1, COUNT + 1)
    assert await mill.one("select count(*) from assets") == 0
    assert await mill.one("select count(*) from search_vectors") == 0

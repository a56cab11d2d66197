"""A library's whole life, by commands and a real server: added, scanned, seen, found, changed, removed, erased."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pyvips

from mediamill.db.connection import Database
from mediamill.libraries.collect import collect_garbage
from tests.crash.processes import Mill, mill
from tests.media.making_images import corner_names, corners
from tests.stories.library_folder import COUNT, ORIENTATIONS, fill, how_it_is, mounted_read_only

__all__ = ["mill"]

DONE = "select count(*) = $1 and bool_and(status = 'completed') from assets where vanished_at is null"


async def told(mill: Mill, *words: object) -> Any:
    """What a command says, as data."""
    code, said = await mill.say(*words, "--json")
    assert code == 0, said
    return json.loads(said[min(place for place in (said.find("{"), said.find("[")) if place >= 0) :])


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


async def found(mill: Mill, words: str) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = (await told(mill, "search", words, "--mode", "words"))["hits"]
    return hits


@pytest.mark.spec("L3", "L4", "L5", "L6", "L10", "L12", "L14", "L15", "L16", "L17")
async def test_a_library_from_its_first_scan_to_its_last_file(mill: Mill, database: Database) -> None:
    source, data = mill.folder / "source", mill.folder / "data"
    fill(source)
    with mounted_read_only(source, mill.folder / "mounted") as (place, read_only):
        before = how_it_is(source, access=read_only)
        await _add_and_look(mill, place)
        assert how_it_is(source, access=read_only) == before
        _change(source)
        before = how_it_is(source, access=read_only)
        await _look_again(mill)
        await _remove_and_erase(mill)
        assert how_it_is(source, access=read_only) == before
    await collect_garbage(database, data, older_than_seconds=0)
    assert list((data / "libraries").glob("*/*")) == []


async def _add_and_look(mill: Mill, place: Path) -> None:
    await told(mill, "library", "add", "Photos", place, "--no-scan")
    assert (await told(mill, "scan", "photos"))["new"] == COUNT
    await mill.started("up", "--workers", "1")
    await completed(mill, COUNT)
    for orientation in ORIENTATIONS:
        preview = await preview_of(mill, f"way-{orientation}.jpg")
        assert (corner_names(preview), preview.shape[:2]) == ("rgby", (64, 96)), orientation
    assert (await preview_of(mill, "odd ones/icon.png")).shape[:2] == (32, 32)
    for name in ("turned.heic", "raw.dng", "cmyk.jpg", "deep.png", "moving.webp", "moving.gif"):
        assert corner_names(await preview_of(mill, f"odd ones/{name}")) == "rgby", name
    cats = await found(mill, "cat")
    assert {"cat.jpg", "film.mp4"} <= {hit["path"] for hit in cats}
    (film,) = (hit for hit in await found(mill, "cup") if hit["path"] == "film.mp4")
    assert 4.0 <= film["moments"][0]["at_seconds"] <= 10.0


def _change(source: Path) -> None:
    """One changed, one new, one gone, one under another name."""
    pyvips.Image.new_from_array(corners(120, 120)).jpegsave(str(source / "way-1.jpg"))
    shutil.copy(source / "coffee.jpg", source / "new.jpg")
    (source / "way-2.jpg").unlink()
    (source / "cat.jpg").rename(source / "odd ones" / "tiger.jpg")


async def _look_again(mill: Mill) -> None:
    cat = await mill.one("select id from assets where rel_path = 'cat.jpg'")
    counts = await told(mill, "scan", "photos")
    seen = {name: counts[name] for name in ("changed", "new", "vanished", "renamed")}
    assert seen == {"changed": 1, "new": 1, "vanished": 1, "renamed": 1}
    await completed(mill, COUNT)
    assert (await preview_of(mill, "way-1.jpg")).shape[:2] == (120, 120)
    assert await mill.one("select rel_path from assets where id = $1", cat) == "odd ones/tiger.jpg"
    assert "odd ones/tiger.jpg" in {hit["path"] for hit in await found(mill, "cat")}
    assert (await told(mill, "scan", "photos"))["unchanged"] == COUNT


async def _remove_and_erase(mill: Mill) -> None:
    await told(mill, "library", "remove", "photos")
    assert await found(mill, "cat") == []
    await told(mill, "library", "restore", "photos")
    assert await found(mill, "cat")
    await told(mill, "library", "remove", "photos")
    erased = await told(mill, "trash", "empty", "photos", "--yes")
    assert (erased["libraries"], erased["assets"]) == (1, COUNT + 1)
    assert await mill.one("select count(*) from assets") == 0
    assert await mill.one("select count(*) from search_vectors") == 0

"""`mediamill trash`: what is in it, and emptying it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.db.connection import Database
from tests.cli.conftest import Mediamill
from tests.libraries.played import Ground


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    """The worker's side of the same database and data folder."""
    return Ground.on(database, tmp_path / "data")


@pytest.mark.spec("L14", "L17")
async def test_the_trash_shows_what_is_in_it(mediamill: Mediamill, ground: Ground) -> None:
    assert "the trash is empty" in (await mediamill("trash", "list")).out
    await ground.library(images=2)
    await ground.remove()
    out = (await mediamill("trash", "list")).out
    assert all(word in out for word in ("photos", "2", str(ground.root)))
    (library,) = (await mediamill("trash", "list", "--json")).json
    assert library["deleted_at"] is not None


@pytest.mark.spec("L15", "L17")
async def test_the_trash_is_emptied_after_a_question(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library("Others", images=1)
    await ground.library(images=2, videos=1)
    await ground.complete()
    await ground.remove("others")
    await ground.remove()
    asked = await mediamill("trash", "empty")
    assert (asked.code, "add --yes" in asked.err) == (1, True)
    one = await mediamill("trash", "empty", "photos", "--yes")
    assert "1 library erased, with 3 assets and 2 moments of videos" in one.out
    assert (await mediamill("trash", "empty", "--yes", "--json")).json == {
        "libraries": 1,
        "assets": 1,
        "moments": 0,
    }
    assert "the trash is empty" in (await mediamill("trash", "empty", "--yes")).out
    assert await ground.counts("libraries", "assets") == [0, 0]


async def test_only_what_is_in_the_trash_is_erased(mediamill: Mediamill, ground: Ground) -> None:
    await ground.library()
    said = await mediamill("trash", "empty", "photos", "--yes")
    assert (said.code, "mediamill library remove photos" in said.err) == (1, True)
    unknown = await mediamill("trash", "empty", "nothing", "--yes")
    assert (unknown.code, "there is no library 'nothing'" in unknown.err) == (1, True)

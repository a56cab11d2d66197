"""Adding libraries: names, folders, and what stands in the way."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mediamill.libraries.add import add_library
from mediamill.libraries.edit import edit_library
from mediamill.libraries.erase import mark_for_erasing
from mediamill.libraries.look import show_library
from mediamill.libraries.model import (
    SLUG_CHARACTERS,
    BadLibraryError,
    LibraryExistsError,
    LibraryInTrashError,
    make_slug,
)
from tests.libraries.played import Ground, ground

__all__ = ["ground"]


async def add(ground: Ground, name: str, path: Path | str, **more: Any) -> str:
    async with ground.database.transaction() as connection:
        return await add_library(connection, name, str(path), **more)


@pytest.mark.spec("L1")
async def test_a_library_is_what_was_said_of_it(ground: Ground) -> None:
    slug = await add(
        ground,
        "  Été à   Rome ",
        f"{ground.root}/../photos/",
        rescan_seconds=900,
        ignore_previews=True,
        sampling_limit=20,
        mode="windows",
    )
    async with ground.database.connection() as connection:
        library = await show_library(connection, slug)
    expected = {
        "slug": "ete-a-rome",
        "name": "Été à Rome",
        "absolute_path": str(ground.root),
        "is_active": True,
        "deleted_at": None,
        "scan_status": "idle",
        "target_tagger_id": None,
        "rescan_seconds": 900,
        "ignore_previews": True,
        "sampling_limit": 20,
        "sampling_policy": {"mode": "windows"},
        "assets": 0,
    }
    assert {name: library[name] for name in expected} == expected
    event = await ground.one("select subject from events where topic = 'library.changed'")
    assert event == slug


@pytest.mark.spec("L1")
async def test_how_videos_are_sampled_has_a_default(ground: Ground) -> None:
    slug = await add(ground, "Photos", ground.root)
    async with ground.database.connection() as connection:
        library = await show_library(connection, slug)
    assert (library["sampling_limit"], library["sampling_policy"]) == (100, {"mode": "scenes"})


@pytest.mark.spec("L14")
async def test_a_name_in_the_trash_is_refused_with_both_ways_out(ground: Ground) -> None:
    await ground.library()
    await ground.remove()
    with pytest.raises(LibraryInTrashError) as refused:
        await add(ground, "PHOTOS", ground.root)
    assert refused.value.fix is not None
    assert "mediamill library restore photos" in refused.value.fix
    assert "another name" in refused.value.fix


async def test_the_name_of_a_library_that_is_being_erased_is_refused_until_it_is_gone(ground: Ground) -> None:
    await ground.library()
    await ground.remove()
    async with ground.database.transaction() as connection:
        await mark_for_erasing(connection, "photos")
    with pytest.raises(LibraryInTrashError, match="being erased"):
        await add(ground, "photos", ground.root)


async def test_the_folder_of_a_library_that_is_being_erased_can_be_added_by_another_name(
    ground: Ground,
) -> None:
    await ground.library()
    await ground.remove()
    async with ground.database.transaction() as connection:
        await mark_for_erasing(connection, "photos")
    assert await add(ground, "Others", ground.root / "Photos") == "others"


async def test_a_name_or_a_folder_that_is_taken_is_refused(ground: Ground) -> None:
    await ground.library()
    with pytest.raises(LibraryExistsError, match="there is a library photos"):
        await add(ground, "photos", ground.root)
    with pytest.raises(LibraryExistsError, match="is the folder of the library photos"):
        await add(ground, "Others", ground.root / "Photos")
    await ground.remove()
    with pytest.raises(LibraryExistsError) as refused:
        await add(ground, "Others", ground.root / "Photos")
    assert refused.value.fix == "`mediamill library restore photos`"


async def test_a_folder_on_a_network_that_does_not_answer_keeps_nobody_waiting(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system hangs over it, as over a share whose server is gone."""
    answered, real = threading.Event(), Path.is_dir
    hanging = ground.root / "hanging"
    hanging.mkdir()
    await ground.library("Others")

    def is_dir(path: Path) -> bool:
        return answered.wait(60) if path == hanging else real(path)

    monkeypatch.setattr(Path, "is_dir", is_dir)
    monkeypatch.setattr("mediamill.libraries.add.ANSWER_SECONDS", 0.05)
    try:
        with pytest.raises(BadLibraryError, match="can be seen from here"):
            await add(ground, "Photos", hanging)
        with pytest.raises(BadLibraryError, match="can be seen from here"):
            async with ground.database.transaction() as connection:
                await edit_library(connection, "others", path=str(hanging))
    finally:
        answered.set()


async def test_of_two_that_add_the_same_at_once_one_is_refused(ground: Ground) -> None:
    adding = [add(ground, "Photos", ground.root) for _ in range(5)]
    results = await asyncio.gather(*adding, return_exceptions=True)
    assert results.count("photos") == 1
    assert sum(isinstance(result, LibraryExistsError) for result in results) == 4


@pytest.mark.parametrize(
    ("name", "path", "why"),
    [
        ("", ".", "1 to 200 printable characters"),
        ("a" * 201, ".", "1 to 200 printable characters"),
        ("a\nb\x00", ".", "1 to 200 printable characters"),
        ("照片", ".", "makes no short name"),
        ("Photos", "relative/path", "is no absolute path"),
        ("Photos", "/nowhere/at/all", "no folder that can be seen"),
        ("Photos", "/etc/hostname", "no folder that can be seen"),
        ("Photos", "/tmp\0", "is no absolute path"),
        ("Photos", "/tmp/\udcff", "must be UTF-8"),
    ],
)
async def test_what_is_no_name_or_no_folder_is_refused(
    ground: Ground, name: str, path: str, why: str
) -> None:
    with pytest.raises(BadLibraryError, match=why):
        await add(ground, name, str(ground.root) if path == "." else path)


async def test_a_way_of_sampling_that_nobody_knows_is_refused(ground: Ground) -> None:
    with pytest.raises(BadLibraryError, match="scenes or windows"):
        await add(ground, "Photos", ground.root, mode="all")


@given(st.text(max_size=300))
def test_every_slug_is_short_and_plain_or_refused(name: str) -> None:
    try:
        slug = make_slug(name)
    except BadLibraryError:
        return
    assert slug.isascii()
    assert 0 < len(slug) <= SLUG_CHARACTERS
    assert make_slug(slug) == slug


@pytest.mark.spec("P11")
async def test_a_path_may_begin_with_the_home_folder_of_the_server(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(ground.root.parent))
    slug = await add(ground, "Photos", f"~/{ground.root.name}")
    async with ground.database.connection() as connection:
        assert (await show_library(connection, slug))["absolute_path"] == str(ground.root)

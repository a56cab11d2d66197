"""Changing libraries, and pausing them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.recovery.janitor import bury_forgotten
from mediamill.libraries.edit import edit_library, pause_library, resume_library
from mediamill.libraries.look import show_library
from mediamill.libraries.model import BadLibraryError, LibraryExistsError, UnknownLibraryError
from mediamill.libraries.retag import let_go_of_outdated_jobs
from mediamill.libraries.trash import remove_library
from tests.engine.waiting import until_blocked
from tests.libraries.played import IMAGES, VIDEOS, Ground, ground
from tests.outages import let_time_pass

__all__ = ["ground"]


async def edit(ground: Ground, slug: str = "photos", **facts: Any) -> dict[str, Any]:
    async with ground.database.transaction() as connection:
        await edit_library(connection, slug, **facts)
        return await show_library(connection, slug)


async def switch(ground: Ground, verb: Any, slug: str = "photos") -> None:
    async with ground.database.transaction() as connection:
        await verb(connection, slug)


@pytest.mark.spec("L1")
async def test_what_is_named_changes_and_the_rest_stays(ground: Ground, tmp_path: Path) -> None:
    await ground.library()
    before = await edit(ground, rescan_seconds=60)
    assert await edit(ground) == before
    moved = await edit(ground, path=str(tmp_path), name="Pictures", mode="windows", sampling_limit=5)
    changed = {name: value for name, value in moved.items() if value != before[name]}
    assert changed == {
        "absolute_path": str(tmp_path),
        "name": "Pictures",
        "sampling_policy": {"mode": "windows"},
        "sampling_limit": 5,
    }
    assert (await edit(ground, rescan_seconds=0))["rescan_seconds"] is None
    assert (await edit(ground, ignore_previews=True))["ignore_previews"] is True
    assert (await edit(ground, ignore_previews=False))["ignore_previews"] is False


async def test_what_makes_no_sense_is_refused(ground: Ground) -> None:
    await ground.library()
    wrongs: tuple[dict[str, Any], ...] = (
        {"path": "/nowhere/at/all"},
        {"path": "here"},
        {"mode": "all"},
        {"name": "   "},
        {"name": "be\x07ll"},
        {"name": "x" * 201},
    )
    for wrong in wrongs:
        with pytest.raises(BadLibraryError):
            await edit(ground, **wrong)
    with pytest.raises(UnknownLibraryError):
        await edit(ground, "nothing", name="x")


@pytest.mark.spec("L1", "L17")
async def test_nothing_is_worked_on_while_a_library_is_paused(ground: Ground) -> None:
    await ground.library("Others", images=1)
    await ground.library(images=3)
    await ground.feed()
    await switch(ground, pause_library)
    claimed = await ground.claim(pool=IMAGES, amount=10)
    assert len(claimed) == 1, "only the other library's"
    await ground.play_image(claimed[0])
    await ground.run("update assets set job_id = null where status = 'pending'")
    assert await ground.feed() == 1, "the tags of the other one"
    await switch(ground, resume_library)
    assert await ground.claim(pool=IMAGES, amount=10)


@pytest.mark.spec("L17")
async def test_what_was_at_hand_when_a_library_was_paused_is_at_hand_the_next_day(ground: Ground) -> None:
    await ground.library(images=2, videos=1)
    await ground.feed()
    await switch(ground, pause_library)
    await let_time_pass(ground.database, 24, served=True)
    async with ground.database.transaction() as connection:
        assert await bury_forgotten(connection, ground.engine) == 0
    await switch(ground, resume_library)
    assert len(await ground.claim(pool=IMAGES, amount=10)) == 2


async def test_a_name_is_one_line_and_the_folder_of_another_library_is_refused(ground: Ground) -> None:
    await ground.library("Others")
    await ground.library()
    assert (await edit(ground, name=" My\n pictures "))["name"] == "My pictures"
    with pytest.raises(LibraryExistsError, match="is the folder of the library others"):
        await edit(ground, path=str(ground.root / "Others"))
    assert (await edit(ground, path=str(ground.root / "Photos")))["name"] == "My pictures"


async def test_what_was_to_be_read_from_another_folder_is_read_from_the_new_one(
    ground: Ground, tmp_path: Path
) -> None:
    """A job whose folder is away waits for it; but the folder has moved for good."""
    await ground.library("Others", images=1)
    await ground.library(images=2, videos=1)
    await ground.feed()
    (running,) = await ground.claim(pool=VIDEOS)
    assert await let_go_of_outdated_jobs(ground.database) == 0
    await edit(ground, path=str(tmp_path))
    assert await let_go_of_outdated_jobs(ground.database) == 2, "what runs is left alone"
    await ground.fail(running, "away")
    assert await let_go_of_outdated_jobs(ground.database) == 1
    assert await ground.feed() == 3
    roots = "select count(*) from jobs where payload #>> '{file,root}' = $1"
    assert await ground.one(roots, str(tmp_path)) == 3


async def test_a_library_that_is_being_removed_cannot_be_resumed(ground: Ground) -> None:
    number = await ground.library(images=1)
    await ground.feed()
    async with ground.database.transaction() as connection:
        await remove_library(connection, "photos")
        resuming = asyncio.create_task(switch(ground, resume_library))
        await until_blocked(ground.database)
    with pytest.raises(UnknownLibraryError):
        await resuming
    assert await ground.one("select owner from held_owners") == f"library:{number}"
    assert not await ground.claim(pool=IMAGES)


async def test_a_library_that_is_not_there_cannot_be_paused(ground: Ground) -> None:
    for verb in (pause_library, resume_library):
        with pytest.raises(UnknownLibraryError):
            await switch(ground, verb, "nothing")

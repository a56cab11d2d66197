"""A library in the trash: hidden at once, nothing is lost, nobody works on it."""

from __future__ import annotations

import pytest

from mediamill.libraries.edit import pause_library
from mediamill.libraries.look import show_library
from mediamill.libraries.model import UnknownLibraryError
from mediamill.libraries.trash import InTrashError, NotInTrashError
from tests.libraries.played import IMAGES, TAGS, Ground, ground

__all__ = ["ground"]


@pytest.mark.spec("L14")
async def test_a_library_comes_back_with_everything_that_was_in_it(ground: Ground) -> None:
    number = await ground.library(images=2, videos=1)
    await ground.complete()
    tables = ("libraries", "assets", "video_scenes", "search_vectors", "library_folders")
    before = await ground.counts(*tables)
    outputs = await ground.outputs(number)
    async with ground.database.connection() as connection:
        shown = await show_library(connection, "photos")
    await ground.remove()
    await ground.restore()
    assert await ground.counts(*tables) == before
    assert all(folder.is_dir() for folder in outputs)
    async with ground.database.connection() as connection:
        assert await show_library(connection, "photos") == shown


@pytest.mark.spec("L14")
async def test_nobody_works_on_a_library_in_the_trash_and_it_goes_on_after(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES, amount=1)
    await ground.remove()
    assert await ground.claim(pool=IMAGES, amount=10) == []
    await ground.play_image(job)  # what was begun is kept
    assert await ground.feed() == 0
    await ground.restore()
    (other,) = await ground.claim(pool=IMAGES, amount=10)
    await ground.play_image(other)
    await ground.feed()
    assert len(await ground.claim(pool=TAGS, amount=10)) == 2


async def test_one_that_was_paused_comes_back_paused(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.feed()
    async with ground.database.transaction() as connection:
        await pause_library(connection, "photos")
    await ground.remove()
    await ground.restore()
    assert await ground.claim(pool=IMAGES, amount=10) == []
    async with ground.database.connection() as connection:
        assert (await show_library(connection, "photos"))["is_active"] is False


@pytest.mark.spec("L14")
async def test_what_is_or_is_not_in_the_trash_is_said(ground: Ground) -> None:
    await ground.library()
    with pytest.raises(NotInTrashError) as not_there:
        await ground.restore()
    assert not_there.value.code == "not_in_trash"
    await ground.remove()
    with pytest.raises(InTrashError) as refused:
        await ground.remove()
    assert refused.value.code == "in_trash"
    assert refused.value.fix is not None
    assert "library restore photos" in refused.value.fix
    assert "trash empty photos" in refused.value.fix
    for verb in (ground.remove, ground.restore):
        with pytest.raises(UnknownLibraryError):
            await verb("nothing")

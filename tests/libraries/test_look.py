"""Looking at libraries: the list, and one with its counts."""

from __future__ import annotations

import pytest

from mediamill.libraries.look import list_libraries, show_library
from mediamill.libraries.model import UnknownLibraryError
from tests.libraries.played import Ground, ground

__all__ = ["ground"]


@pytest.mark.spec("L1", "L2")
async def test_libraries_are_listed_by_name_with_what_is_in_them(ground: Ground) -> None:
    await ground.library("Zoo", images=1)
    await ground.library(images=3, videos=2)
    await ground.run("update assets set status = 'failed', size = 500 where rel_path = 'video-0000001'")
    await ground.run("update assets set vanished_at = now() where rel_path = 'image-0000002'")
    async with ground.database.connection() as connection:
        libraries = await list_libraries(connection)
        assert await show_library(connection, "photos") == libraries[0]
    assert [library["slug"] for library in libraries] == ["photos", "zoo"]
    photos = libraries[0]
    assert (photos["assets"], photos["vanished"], photos["bytes"]) == (5, 1, 504)
    assert photos["types"] == {"image": 3, "video": 2}
    assert {name: count for name, count in photos["statuses"].items() if count} == {"pending": 4, "failed": 1}


@pytest.mark.spec("L14")
async def test_the_trash_has_a_list_of_its_own(ground: Ground) -> None:
    await ground.library("Zoo")
    await ground.library(images=2)
    await ground.remove()
    async with ground.database.connection() as connection:
        assert [library["slug"] for library in await list_libraries(connection)] == ["zoo"]
        (trashed,) = await list_libraries(connection, trash=True)
        with pytest.raises(UnknownLibraryError):
            await show_library(connection, "photos")
        assert (await show_library(connection, "photos", trash=True))["assets"] == 2
    assert trashed["deleted_at"] is not None


async def test_a_library_that_is_not_there_is_unknown(ground: Ground) -> None:
    async with ground.database.connection() as connection:
        with pytest.raises(UnknownLibraryError, match="nothing") as refused:
            await show_library(connection, "nothing")
    assert refused.value.fix == "mediamill library list shows them"

"""Months of a library: what is of which, and where they begin."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from mediamill.libraries.assets import list_assets
from mediamill.libraries.browse import list_stretch
from mediamill.libraries.cursors import BadCursorError
from mediamill.libraries.model import UnknownLibraryError
from mediamill.libraries.timeline import newest_of_month, timeline
from tests.libraries.played import IMAGES, Ground, ground

__all__ = ["ground"]


async def months(ground: Ground, slug: str = "photos") -> dict[str, int]:
    async with ground.database.transaction() as connection:
        return {one["month"]: one["count"] for one in await timeline(connection, slug)}


async def place(ground: Ground, id_: int, when: str, **more: Any) -> None:
    await ground.run(f"update assets set shown_at = '{when}' where id = $1", id_)


@pytest.mark.spec("L19")
async def test_assets_are_counted_by_month_newest_first(ground: Ground) -> None:
    await ground.library(images=4, videos=1)
    for id_, when in enumerate(
        ("2024-05-01 00:00Z", "2024-04-30 23:59:59Z", "2024-05-31 23:00", "1999-12-31Z", "2024-05-31Z"), 1
    ):
        await place(ground, id_, when)
    assert list((await months(ground)).items()) == [("2024-05", 3), ("2024-04", 1), ("1999-12", 1)]


@pytest.mark.spec("L22")
async def test_a_photo_stands_under_the_day_that_it_was_where_it_was_taken(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.feed()
    for job, taken_at in zip(
        await ground.claim(pool=IMAGES, amount=2),
        ("2024-06-01T00:30:00+02:00", "2024-05-31T23:30:00-07:00"),  # 22:30 and 6:30 UTC
        strict=True,
    ):
        await ground.finish(job, await ground.write_image(job) | {"taken_at": taken_at})
    assert await months(ground) == {"2024-06": 1, "2024-05": 1}
    async with ground.database.transaction() as connection:
        (june,) = (await list_assets(connection, "photos", month="2024-06"))["assets"]
        stretch = await list_stretch(connection, "photos", month="2024-05")
    assert june["shown_at"] == datetime(2024, 6, 1, 0, 30)
    assert [asset["shown_at"] for asset in stretch["assets"]] == [datetime(2024, 5, 31, 23, 30)]


async def test_an_empty_library_has_no_months(ground: Ground) -> None:
    await ground.library()
    assert await months(ground) == {}


async def test_what_vanished_is_of_no_month(ground: Ground) -> None:
    await ground.library(images=2)
    await ground.run("update assets set shown_at = '2024-05-05', vanished_at = case id when 1 then now() end")
    assert await months(ground) == {"2024-05": 1}


async def test_a_list_goes_on_from_the_newest_of_a_month(ground: Ground) -> None:
    await ground.library(images=3)
    for id_, when in ((1, "2024-04-02Z"), (2, "2024-05-31 23:59Z"), (3, "2024-06-01Z")):
        await place(ground, id_, when)
    async with ground.database.connection() as connection:
        after = await newest_of_month(connection, "photos", "2024-05")
        page = await list_assets(connection, "photos", after=after)
        assert [asset["id"] for asset in page["assets"]] == [2, 1]
        with pytest.raises(BadCursorError):
            await newest_of_month(connection, "photos", "May")
        with pytest.raises(UnknownLibraryError):
            await newest_of_month(connection, "nothing", "2024-05")


@pytest.mark.spec("L14")
async def test_a_library_in_the_trash_has_no_months(ground: Ground) -> None:
    await ground.library(images=1)
    await ground.remove()
    with pytest.raises(UnknownLibraryError):
        await months(ground)

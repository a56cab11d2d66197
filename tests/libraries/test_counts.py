"""Counts of libraries: of small ones whenever somebody asks; of large ones kept, and made anew when something moves."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.libraries import counts
from mediamill.libraries.counts import recount_old, total_counts
from mediamill.libraries.erase import empty_trash
from mediamill.libraries.timeline import timeline
from tests.libraries.played import Ground, ground

__all__ = ["ground"]

OLDER = "update library_counts set counted_at = counted_at - $1 * interval '1 second'"
MOVE_ONE = "update assets set shown_at = '2023-01-01' where rel_path = 'image-0000001'"
SOME = {"types": ["image"], "statuses": ["pending"]}


@pytest.fixture
def all_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counts, "SMALL", 0)


async def months(ground: Ground, **some: Any) -> dict[str, int]:
    async with ground.database.connection() as connection:
        return {one["month"]: one["count"] for one in await timeline(connection, "photos", **some)}


async def photos(ground: Ground) -> int:
    number = await ground.library(images=2, videos=1)
    await ground.run("update assets set shown_at = '2024-05-05'")
    return number


async def kept(ground: Ground) -> int:
    return int(await ground.one("select count(*) from asset_counts"))


@pytest.mark.spec("L19")
async def test_a_small_library_is_counted_whenever_somebody_asks(ground: Ground) -> None:
    await photos(ground)
    assert await months(ground) == {"2024-05": 3}
    await ground.run(MOVE_ONE)
    assert await months(ground) == {"2024-05": 2, "2023-01": 1}
    assert await months(ground, **SOME) == {"2024-05": 1, "2023-01": 1}
    assert await kept(ground) == 0


@pytest.mark.spec("L19")
async def test_counts_that_are_kept_are_those_that_were_counted(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await photos(ground)
    await ground.run(MOVE_ONE)
    await ground.run("update assets set vanished_at = now(), size = 500 where type = 'video'")
    async with ground.database.connection() as connection:
        live = await total_counts(connection, [number])
        monkeypatch.setattr(counts, "SMALL", 0)
        assert await total_counts(connection, [number]) == live, "counted, and kept"
        assert await kept(ground) == 3
        assert await total_counts(connection, [number]) == live, "as it was kept"
    assert (live[number]["assets"], live[number]["vanished"], live[number]["bytes"]) == (3, 1, 502)
    assert await months(ground) == {"2024-05": 1, "2023-01": 1}
    assert await months(ground, types=["video"], statuses=["pending"]) == {}


@pytest.mark.usefixtures("all_are_large")
async def test_kept_counts_are_made_anew_in_the_background_while_something_moves(ground: Ground) -> None:
    await photos(ground)
    assert await months(ground) == {"2024-05": 3}
    await ground.run(MOVE_ONE)
    assert await months(ground) == {"2024-05": 3}, "they are fresh"
    await ground.run(OLDER, 10)
    assert await recount_old(ground.database) == 1
    assert await months(ground) == {"2024-05": 2, "2023-01": 1}


@pytest.mark.usefixtures("all_are_large")
async def test_a_library_in_which_nothing_moves_is_not_counted_again(ground: Ground) -> None:
    await photos(ground)
    await ground.run("update assets set status = 'completed'")
    assert await months(ground) == {"2024-05": 3}
    await ground.run(MOVE_ONE)  # behind everybody's back
    await ground.run(OLDER, 30)
    assert await recount_old(ground.database) == 0
    await ground.run("update libraries set scanned_at = now()")
    assert await recount_old(ground.database) == 1
    assert await months(ground) == {"2024-05": 2, "2023-01": 1}


@pytest.mark.usefixtures("all_are_large")
async def test_whoever_asks_counts_if_nobody_else_does(ground: Ground) -> None:
    await photos(ground)
    assert await months(ground) == {"2024-05": 3}
    await ground.run(MOVE_ONE)
    await ground.run(OLDER, 24 * 3600)
    assert await months(ground) == {"2024-05": 2, "2023-01": 1}


@pytest.mark.usefixtures("all_are_large")
async def test_only_one_counts_at_a_time_and_the_others_take_what_is_there(ground: Ground) -> None:
    await photos(ground)
    assert await months(ground) == {"2024-05": 3}
    await ground.run(MOVE_ONE)
    await ground.run(OLDER, 24 * 3600)
    async with ground.database.transaction() as connection:
        await timeline(connection, "photos")  # it counts, and is not done yet
        assert await months(ground) == {"2024-05": 3}
    assert await months(ground) == {"2024-05": 2, "2023-01": 1}


async def test_a_library_that_has_become_small_is_counted_again_whenever_somebody_asks(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    await photos(ground)
    monkeypatch.setattr(counts, "SMALL", 2)
    assert await months(ground) == {"2024-05": 3}
    assert await kept(ground) > 0
    await ground.run("delete from assets where type = 'video'")
    await ground.run(OLDER, 10)
    assert await recount_old(ground.database) == 1
    assert await kept(ground) == 0
    await ground.run(MOVE_ONE)
    assert await months(ground) == {"2024-05": 1, "2023-01": 1}


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.spec("L15")
async def test_counts_go_with_their_library(ground: Ground) -> None:
    await photos(ground)
    await months(ground)
    await ground.remove()
    await empty_trash(ground.database)
    assert await ground.one("select count(*) from libraries") == 0
    assert await kept(ground) == 0


@pytest.mark.usefixtures("all_are_large")
@pytest.mark.parametrize(("assets", "old_after"), [(0, 5), (200_000, 15)])
async def test_counts_may_be_the_older_the_more_there_is_to_count(
    ground: Ground, assets: int, old_after: int
) -> None:
    await photos(ground)
    for seconds, is_old in ((old_after - 2, False), (old_after + 0.5, True)):
        await ground.run("delete from library_counts")
        await months(ground)
        await ground.run("update library_counts set assets = $1", assets)
        await ground.run(OLDER, seconds)
        assert await recount_old(ground.database) == int(is_old), seconds


@pytest.mark.usefixtures("all_are_large")
async def test_even_if_nothing_moves_counts_are_made_anew_after_an_hour(ground: Ground) -> None:
    await photos(ground)
    await ground.run("update assets set status = 'completed'")
    await months(ground)
    for seconds, recounted in ((3_590, 0), (15, 1), (10, 0)):
        await ground.run(OLDER, seconds)
        assert await recount_old(ground.database) == recounted

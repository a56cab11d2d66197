"""Emptying the trash: everything of a library goes, batch by batch, whoever works on it or dies meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from mediamill.libraries.erase import BATCH, Erased, empty_trash, erase_marked, mark_for_erasing
from mediamill.libraries.model import UnknownLibraryError
from mediamill.libraries.store import queries
from mediamill.libraries.trash import BeingErasedError, NotInTrashError
from tests.conftest import wait_until
from tests.libraries.played import IMAGES, VIDEOS, Ground, ground

__all__ = ["ground"]

TABLES = ("libraries", "library_folders", "assets", "video_scenes", "search_vectors", "jobs", "dead_jobs")


@pytest.mark.spec("L15")
async def test_everything_of_the_library_goes_and_nothing_of_another(ground: Ground) -> None:
    await ground.library("Others", images=2, videos=1)
    await ground.complete()
    others = await ground.counts(*TABLES)
    assert others[2:5] == [3, 2, 8]
    number = await ground.library(images=3, videos=2)
    await ground.complete()
    source = ground.root / "Photos" / "kept.jpg"
    source.write_bytes(b"never touched")
    await ground.run("update assets set status = 'pending' where library = $1 and type = 'image'", number)
    await ground.feed()
    (job, *_) = await ground.claim(pool=IMAGES, amount=1)
    await ground.fail(job, permanent=True)
    assert await ground.counts("dead_jobs") == [1]
    await ground.remove()
    erased = await empty_trash(ground.database)
    assert erased == Erased(libraries=1, assets=5, moments=4)
    assert await ground.counts(*TABLES) == others
    assert await ground.counts("kept_files", "held_owners") == [0, 0]
    assert source.read_bytes() == b"never touched"
    assert await ground.library() != number  # the name is free again


@pytest.mark.spec("L15")
async def test_each_batch_is_committed_and_a_run_that_died_is_gone_on_with(ground: Ground) -> None:
    await ground.library(images=2 * BATCH + 1)
    await ground.remove()

    def die(_erased: Erased) -> None:
        raise KeyError("died")

    with pytest.raises(KeyError):
        await empty_trash(ground.database, "photos", die)
    assert await ground.counts("libraries", "assets") == [1, BATCH + 1]
    with pytest.raises(BeingErasedError):
        await ground.restore()
    told: list[int] = []
    erased = await erase_marked(ground.database, on_progress=lambda so_far: told.append(so_far.assets))
    assert erased == Erased(libraries=1, assets=BATCH + 1)
    assert told == [BATCH, BATCH + 1, BATCH + 1]
    assert await ground.counts("libraries", "assets", "library_folders") == [0, 0, 0]


@pytest.mark.spec("L14", "L15")
async def test_until_it_is_marked_a_library_can_be_restored(ground: Ground) -> None:
    await ground.library(images=2)
    with pytest.raises(NotInTrashError):
        await empty_trash(ground.database, "photos")
    with pytest.raises(UnknownLibraryError):
        await empty_trash(ground.database, "nowhere")
    await ground.remove()
    await ground.restore()
    await empty_trash(ground.database)
    assert await ground.counts("libraries", "assets") == [1, 2]
    await ground.remove()
    async with ground.database.transaction() as connection:
        assert await mark_for_erasing(connection) == ["photos"]
    with pytest.raises(BeingErasedError):
        await ground.restore()


@pytest.mark.spec("L15")
async def test_only_the_named_library_is_erased(ground: Ground) -> None:
    for name in ("One", "Two"):
        await ground.library(name, images=1)
        await ground.remove(name.lower())
    assert (await empty_trash(ground.database, "one")).libraries == 1
    assert await ground.one("select array_agg(slug) from libraries") == ["two"]


@pytest.mark.spec("L15")
async def test_two_that_erase_take_turns(ground: Ground) -> None:
    await ground.library(images=2 * BATCH + 1, videos=3)
    await ground.remove()
    async with ground.database.transaction() as connection:
        await mark_for_erasing(connection)
    one, other = await asyncio.gather(erase_marked(ground.database), erase_marked(ground.database))
    assert one.assets + other.assets == 2 * BATCH + 4
    assert one.libraries + other.libraries == 1
    assert await ground.counts("libraries", "assets") == [0, 0]


@pytest.mark.spec("L15")
async def test_a_server_leaves_a_library_to_whoever_erases_it_and_goes_on_when_nobody_does(
    ground: Ground,
) -> None:
    await ground.library(images=1)
    await ground.remove()
    async with ground.database.transaction() as connection:
        await mark_for_erasing(connection)
    assert await erase_marked(ground.database, quiet_seconds=600) == Erased()
    await ground.run("update libraries set erasing_at = now() - interval '1 hour'")
    assert await erase_marked(ground.database, quiet_seconds=600) == Erased(libraries=1, assets=1)


@pytest.mark.spec("L15", "L16")
async def test_a_job_that_ends_after_its_asset_is_gone_brings_nothing_back(ground: Ground) -> None:
    await ground.library(images=2, videos=2)
    await ground.feed()
    done, failed = await ground.claim(pool=IMAGES, amount=2)
    film, lost = await ground.claim(pool=VIDEOS, amount=2)
    await ground.close_scene(film, 1)
    result = await ground.write_image(done)
    await ground.remove()
    await empty_trash(ground.database)
    assert (await ground.finish(done, result)).done == {done.id}
    assert await ground.fail(failed)
    await ground.close_scene(film, 2)
    assert (await ground.play_video(film)).done == {film.id}
    assert await ground.fail(lost, permanent=True)
    empty = ("assets", "video_scenes", "kept_files", "search_vectors")
    assert await ground.counts(*empty) == [0] * len(empty)


@pytest.mark.spec("L15")
async def test_an_asset_whose_job_is_just_being_settled_holds_nobody_up(ground: Ground) -> None:
    number = await ground.library(images=BATCH + 2)
    await ground.remove()
    async with ground.database.transaction() as connection:
        one = await connection.fetchval("select min(id) from assets where library = $1", number)
        await queries.lock_asset.row(connection, id=one)
        erasing = asyncio.create_task(empty_trash(ground.database))

        async def all_others_are_gone() -> bool:
            return bool(await ground.one("select count(*) = 1 from assets"))

        await wait_until(all_others_are_gone)
        assert not erasing.done()
    assert (await erasing).assets == BATCH + 2


@pytest.mark.spec("L15")
async def test_a_rest_between_slices_holds_nothing(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SLICE", 2), ("REST_LEAST_SECONDS", 600), ("REST_MOST_SECONDS", 600)):
        monkeypatch.setattr(f"mediamill.libraries.erase.{name}", value)
    await ground.library(images=5)
    await ground.remove()
    erasing = asyncio.create_task(empty_trash(ground.database))

    async def rests() -> bool:
        return bool(await ground.one("select count(*) = 3 from assets"))

    await wait_until(rests)
    assert await ground.one("select number from libraries for update nowait") is not None
    erasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await erasing


@pytest.mark.spec("L15")
@pytest.mark.parametrize("kind", ["image", "video"])
async def test_a_job_that_is_settled_while_its_asset_is_being_erased_finds_it_gone(
    ground: Ground, kind: str
) -> None:
    number = await ground.library(images=int(kind == "image"), videos=int(kind == "video"))
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES if kind == "image" else VIDEOS)
    async with ground.database.transaction() as connection:
        gone = await queries.erase_assets.rows(connection, ids=[int(job.subject_id or 0)], library=number)
        assert len(gone) == 1
        settling = asyncio.create_task(
            ground.play_image(job) if kind == "image" else ground.close_scene(job, 1)
        )

        async def waits() -> bool:
            return bool(await ground.one("select exists (select from pg_locks where not granted)"))

        await wait_until(waits)
    await settling
    assert await ground.counts("assets", "video_scenes") == [0, 0]

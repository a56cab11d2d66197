"""The same picture under another name takes over what was said of the first, and nobody looks at it again."""

from __future__ import annotations

import json

import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.libraries.retag import note_models, set_tagger
from tests.libraries.played import ASSETS, IMAGES, TAGS, Ground, ground
from tests.libraries.tagged import asset, finds, look

__all__ = ["ground"]

pytestmark = pytest.mark.spec("L10", "L11")

DIGEST = "ab" * 32


async def play(ground: Ground, jobs: list[ClaimedJob], digest: str = DIGEST) -> None:
    """All of them are one and the same picture."""
    for job in jobs:
        await ground.finish(job, {**await ground.write_image(job), "digest": digest})


async def first_tagged(ground: Ground) -> None:
    await note_models(ground.database, ground.settings)
    await ground.library(images=1)
    await ground.feed()
    await play(ground, await ground.claim(pool=IMAGES))
    await ground.feed()
    (job,) = await ground.claim(pool=TAGS)
    await ground.finish(job, {"looks": [look(job)]})


async def add_copy(ground: Ground, library: int = 1) -> None:
    await ground.run(ASSETS, library, "copy-", "image", 1)
    await ground.feed()
    await play(ground, await ground.claim(pool=IMAGES))


async def test_a_copy_is_completed_at_once_with_everything_but_the_name(ground: Ground) -> None:
    await first_tagged(ground)
    await add_copy(ground)
    old, new = await asset(ground, 1), await asset(ground, 2)
    assert new["status"] == "completed"
    for name in ("description", "tags", "tags_model_id"):
        assert new[name] == old[name], name
    assert json.loads(new["facts"])["text"] == "KEEP OUT"
    assert await finds(ground, "keep out dog") == [1, 2]
    assert await finds(ground, "copy") == [2]
    vectors = "select count(*) from search_vectors where asset_id = $1"
    assert await ground.one(vectors, 2) == await ground.one(vectors, 1) == 2
    assert await ground.feed() == 0


async def test_a_renamed_file_that_vanished_gives_its_tags_to_the_new_one(ground: Ground) -> None:
    await first_tagged(ground)
    await ground.run("update assets set vanished_at = now() where id = 1")
    await add_copy(ground)
    assert (await asset(ground, 2))["status"] == "completed"


async def test_copies_that_came_before_the_first_was_seen_are_completed_when_they_are_fed(
    ground: Ground,
) -> None:
    await note_models(ground.database, ground.settings)
    await ground.library(images=2)
    await ground.feed()
    await play(ground, await ground.claim(pool=IMAGES, amount=2))
    await ground.run("update assets set vanished_at = now() where id = 2")  # it is not fed yet
    await ground.feed()
    (job,) = await ground.claim(pool=TAGS)
    await ground.finish(job, {"looks": [look(job)]})
    await ground.run("update assets set vanished_at = null")
    assert await ground.feed() == 0
    assert (await asset(ground, 2))["status"] == "completed"


async def test_another_tagger_or_the_trash_makes_no_twin(ground: Ground) -> None:
    await first_tagged(ground)
    other = await ground.library("Other")
    async with ground.database.transaction() as connection:
        await set_tagger(connection, ground.settings, "other", "openai", "gpt-x")
    await add_copy(ground, other)
    assert (await asset(ground, 2))["status"] == "proxied"
    third = await ground.library("Third")
    await ground.remove()
    await ground.run(ASSETS, third, "late-", "image", 1)
    await ground.feed()
    await play(ground, [job for job in await ground.claim(pool=IMAGES) if job.subject_id == "3"])
    assert (await asset(ground, 3))["status"] == "proxied"

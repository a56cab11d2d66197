"""Another tagger: tagged again from the proxies that are there, the old tags in sight until then."""

from __future__ import annotations

import json

import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.libraries.retag import note_models, retag_some, set_tagger
from mediamill.processors.models.names import UnknownTaggerError
from mediamill.settings import Settings
from tests.libraries.played import TAGS, Ground, ground
from tests.libraries.tagged import asset, finds, look, proxied, scenes_of, video_with

__all__ = ["ground"]

pytestmark = pytest.mark.spec("L11")


async def choose(ground: Ground, engine: str | None, model: str | None = None, slug: str = "photos") -> None:
    async with ground.database.transaction() as connection:
        await set_tagger(connection, ground.settings, slug, engine, model)


async def next_tags(ground: Ground) -> list[ClaimedJob]:
    await ground.feed()
    return await ground.claim(pool=TAGS, amount=100)


async def test_another_target_tags_again_without_new_proxies_and_old_tags_stay_until_then(
    ground: Ground,
) -> None:
    (job,) = await proxied(ground)
    await ground.finish(job, {"looks": [look(job)]})
    before = await asset(ground)
    await choose(ground, "openai", "gpt-x")
    assert await retag_some(ground.database) == 1
    waiting = await asset(ground)
    assert waiting["status"] == "proxied"
    same = ("output", "description", "tags", "tags_model_id", "proxy_digest")
    assert [waiting[name] for name in same] == [before[name] for name in same]
    assert await finds(ground, "dogs") == [1]
    (again,) = await next_tags(ground)
    assert await ground.one("select count(*) from jobs where kind <> 'library.tag'") == 0
    tagger = json.loads(again.payload_json)["tagger"]
    assert (tagger["name"], tagger["engine"]) == ("openai:gpt-x", "openai")
    assert await finds(ground, "dogs") == [1]
    await ground.finish(again, {"looks": [look(again, description="a wolf", tags=[])]})
    after = await asset(ground)
    assert (after["status"], after["description"]) == ("completed", "a wolf")
    assert (after["tags_model_id"], after["output"]) == (tagger["id"], before["output"])
    assert await finds(ground, "dogs") == []
    assert await retag_some(ground.database) == 0


async def test_batches_are_committed_one_by_one_and_the_walk_ends(ground: Ground) -> None:
    jobs = await proxied(ground, images=7)
    for job in jobs:
        await ground.finish(job, {"looks": [look(job)]})
    await choose(ground, "moondream")
    assert await retag_some(ground.database, batch=2) == 7
    assert await ground.one("select retag_after from libraries") is None
    assert await ground.one("select count(*) from assets where status = 'proxied'") == 7
    assert await retag_some(ground.database, batch=2) == 0


async def test_the_same_target_again_moves_nothing(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.finish(job, {"looks": [look(job)]})
    await choose(ground, "local")
    assert await retag_some(ground.database) == 0
    assert (await asset(ground))["status"] == "completed"


async def test_scenes_keep_their_old_tags_until_each_is_replaced(ground: Ground) -> None:
    id_ = await video_with(ground, 2)
    (job,) = await next_tags(ground)
    await ground.finish(job, {"looks": scenes_of(job, "boat")})
    await choose(ground, "openai", "gpt-x")
    await retag_some(ground.database)
    (again,) = await next_tags(ground)
    looks = scenes_of(again, "ship")
    await ground.report(again, parts={"looks": looks[:1]})
    assert len(await finds(ground, "boat", "video_scenes")) == 1
    assert len(await finds(ground, "ship", "video_scenes")) == 1
    assert await finds(ground, "boat") == [id_]
    await ground.finish(again, {"looks": looks[1:]})
    assert await finds(ground, "boat", "video_scenes") == []
    assert await finds(ground, "boat") == []
    assert await finds(ground, "ship") == [id_]


async def test_a_job_of_the_old_tagger_that_ends_after_the_change_is_not_the_last(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await choose(ground, "openai", "gpt-x")
    await retag_some(ground.database)
    await ground.finish(job, {"looks": [look(job)]})
    assert (await asset(ground))["status"] == "proxied"
    (again,) = await next_tags(ground)
    assert json.loads(again.payload_json)["tagger"]["name"] == "openai:gpt-x"


async def test_another_default_tags_again_only_libraries_without_a_target(ground: Ground) -> None:
    assert not await note_models(ground.database, ground.settings)
    (job,) = await proxied(ground)
    await ground.finish(job, {"looks": [look(job)]})
    await ground.library("Own")
    await choose(ground, "local", slug="own")
    await retag_some(ground.database)
    assert not await note_models(ground.database, ground.settings)
    other = Settings(vision="openai", vision_model="gpt-x", data=ground.data)
    assert await note_models(ground.database, other)
    marked = "select array_agg(slug) from libraries where retag_after is not null"
    assert await ground.one(marked) == ["photos"]
    assert await retag_some(ground.database) == 1
    (again,) = await next_tags(ground)  # by a server that still has the old settings
    assert json.loads(again.payload_json)["tagger"]["name"] == "openai:gpt-x"


async def test_a_tagger_that_is_none_is_refused(ground: Ground) -> None:
    await ground.library()
    for engine, model in (("clip", None), ("local", "other"), ("openai", "x" * 300)):
        with pytest.raises(UnknownTaggerError):
            await choose(ground, engine, model)
    await choose(ground, None)
    assert await ground.one("select target_tagger_id from libraries") is None


async def test_a_library_in_the_trash_waits_until_it_is_back(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.finish(job, {"looks": [look(job)]})
    await choose(ground, "openai", "gpt-x")
    await ground.remove()
    assert await retag_some(ground.database) == 0
    await ground.restore()
    assert await retag_some(ground.database) == 1


async def test_what_a_tagger_failed_at_the_next_one_tries_and_what_has_no_proxies_stays_failed(
    ground: Ground,
) -> None:
    refused, damaged = await proxied(ground, images=2)
    await ground.fail(refused, "refused", permanent=True)
    await ground.fail(damaged, "refused", permanent=True)
    await ground.run(
        "update assets set error_code = 'proxy_failed' where id = $1", int(damaged.subject_id or 0)
    )
    await choose(ground, "openai", "gpt-x")
    assert await retag_some(ground.database) == 1
    (again,) = await next_tags(ground)
    assert again.subject_id == refused.subject_id

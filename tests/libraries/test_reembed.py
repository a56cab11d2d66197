"""Another model for vectors: made anew from the previews and texts that are there, the old ones in use until then."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.libraries.retag import let_go_of_outdated_jobs, note_models, retag_some
from mediamill.processors.models.names import ModelName
from mediamill.search import embedders
from mediamill.search.feed import drop_unused_vectors
from mediamill.search.indexes import drop_unused_indexes, ensure_indexes
from mediamill.settings import Settings
from tests.libraries.played import IMAGES, TAGS, VIDEOS, Ground, ground
from tests.libraries.tagged import SEEN, asset, finds, look, proxied, scenes_of, video_with

__all__ = ["ground"]

pytestmark = pytest.mark.spec("L11")

SHORT = base64.b64encode(np.ones(8, "<f2").tobytes()).decode()
MODELS = """select coalesce(array_agg(m.task || ' ' || m.name order by m.task), '{}') from search_vectors v
    join ai_models m on m.id = v.model_id where (asset_id, scene_id, frame_id) is not distinct from ($1, $2, null)"""


def other_texts(ground: Ground) -> Settings:
    return Settings(embedding="openai", embedding_model="e-2", data=ground.data)


async def start(ground: Ground, settings: Settings | None = None) -> bool:
    """As a server does when it starts, with these settings from now on."""
    ground.settings = settings or ground.settings
    return await note_models(ground.database, ground.settings)


async def other_looks(ground: Ground, monkeypatch: pytest.MonkeyPatch, name: str = "eyes@2") -> None:
    """A model of the hub would be downloaded; its name is enough here."""
    monkeypatch.setattr(embedders, "look_name", lambda _: ModelName("look", "hub", name))
    assert await start(ground)


async def next_tags(ground: Ground, amount: int = 100) -> list[ClaimedJob]:
    """Claimed, in the order of the assets."""
    await ground.feed()
    return sorted(await ground.claim(pool=TAGS, amount=amount), key=lambda job: int(job.subject_id or 0))


def asked(job: ClaimedJob) -> list[dict[str, Any]]:
    return list(json.loads(job.payload_json)["looks"])


def embedded(one: Mapping[str, Any]) -> dict[str, Any]:
    """What a worker tells of a look for which only vectors are wanted."""
    vectors = dict.fromkeys(one["wants"], SHORT)
    return {"of": one["of"], "id": one["id"], **vectors}


async def tagged(ground: Ground, images: int = 1) -> None:
    assert not await start(ground)
    for job in await proxied(ground, images=images):
        await ground.finish(job, {"looks": [look(job)]})


async def models_of(ground: Ground, asset_id: int, scene_id: int | None = None) -> list[str]:
    return [name.split("@")[0] for name in await ground.one(MODELS, asset_id, scene_id)]


async def test_another_model_of_texts_embeds_without_looking_or_reading_again(ground: Ground) -> None:
    await tagged(ground)
    before, vectors = await asset(ground), await models_of(ground, 1)
    assert await start(ground, other_texts(ground))
    assert await retag_some(ground.database) == 1
    (job,) = await next_tags(ground)
    payload = json.loads(job.payload_json)
    assert asked(job) == [
        {
            "of": "asset",
            "id": 1,
            "file": "preview.webp",
            "known": "A dog in the snow. dog. KEEP OUT",
            "wants": ["meaning"],
        }
    ]
    assert (payload["text_model"]["name"], payload["file"]["files"]) == ("openai:e-2", [])
    assert await ground.one("select count(*) from jobs where kind <> 'library.tag'") == 0
    assert await models_of(ground, 1) == vectors, "the old ones serve until the new ones are there"
    assert await finds(ground, "dogs") == [1]
    await ground.finish(job, {"looks": [embedded(asked(job)[0])]})
    after = await asset(ground)
    same = ("status", "output", "description", "tags", "tags_model_id", "facts", "look_model_id")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert after["text_model_id"] == payload["text_model"]["id"] != before["text_model_id"]
    assert await models_of(ground, 1) == [vectors[0], "text openai:e-2"]
    assert await retag_some(ground.database) == 0
    assert await ground.feed() == 0
    assert not await start(ground)


async def test_another_model_of_looks_wants_the_preview_and_leaves_the_meaning_alone(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tagged(ground)
    texts = (await models_of(ground, 1))[1]
    await other_looks(ground, monkeypatch)
    await retag_some(ground.database)
    (job,) = await next_tags(ground)
    assert [one["wants"] for one in asked(job)] == [["look"]]
    assert json.loads(job.payload_json)["file"]["files"] == ["preview.webp"]
    await ground.finish(job, {"looks": [embedded(asked(job)[0])]})
    assert await models_of(ground, 1) == ["look eyes", texts]
    assert (await asset(ground))["status"] == "completed"


async def test_scenes_are_embedded_again_job_by_job_and_a_crash_loses_nothing(ground: Ground) -> None:
    await start(ground)
    id_ = await video_with(ground, 60)
    for _ in range(2):
        (job,) = await next_tags(ground)
        await ground.finish(job, {"looks": scenes_of(job, "boat")})
    assert (await asset(ground, id_))["status"] == "completed"
    await start(ground, other_texts(ground))
    assert await retag_some(ground.database) == 1
    (job,) = await next_tags(ground)
    assert len(asked(job)) == 50
    await ground.report(job, parts={"looks": [embedded(one) for one in asked(job)[:30]]})
    await ground.run("delete from jobs")  # lost
    await ground.run("update assets set job_id = null, status = 'proxied'")
    (job,) = await next_tags(ground)
    assert len(asked(job)) == 30
    await ground.finish(job, {"looks": [embedded(one) for one in asked(job)]})
    found = await asset(ground, id_)
    assert (found["status"], json.loads(found["tags"])[0]["label"]) == ("completed", "boat 1")
    counts = "select count(*) from search_vectors v join ai_models m on m.id = v.model_id where m.name = $1"
    assert await ground.one(counts, "openai:e-2") == 60
    assert await ground.one("select count(distinct model_id) from search_vectors") == 2
    assert len(await finds(ground, "boat", "video_scenes")) == 60


async def test_frames_keep_the_words_that_were_read_in_them(ground: Ground) -> None:
    await start(ground)
    await ground.library(videos=1)
    await ground.run(
        """update assets set status = 'proxied', output = '1-0';
        insert into video_frames (asset_id, library, timestamp_ms, is_keyframe, frame_path)
        select id, library, 5, true, 'libraries/001/x/frame-000000005.jpg' from assets"""
    )
    (job,) = await next_tags(ground)
    await ground.finish(job, {"looks": [{**asked(job)[0], **SEEN}]})
    await start(ground, other_texts(ground))
    await retag_some(ground.database)
    (job,) = await next_tags(ground)
    assert [(one["of"], one["known"]) for one in asked(job)] == [
        ("frame", "A dog in the snow. dog. KEEP OUT")
    ]


async def test_a_picture_that_changed_is_looked_at_and_not_only_embedded(ground: Ground) -> None:
    await tagged(ground)
    await start(ground, other_texts(ground))
    await retag_some(ground.database)
    await ground.run("update assets set status = 'pending'")  # the file has changed
    await ground.feed()
    (job,) = await ground.claim(pool=IMAGES)
    await ground.play_image(job)
    (job,) = await next_tags(ground)
    assert "known" not in asked(job)[0]


async def test_another_tagger_and_another_model_at_once_look_again(ground: Ground) -> None:
    await tagged(ground)
    both = Settings(
        vision="openai", vision_model="gpt-x", embedding="openai", embedding_model="e-2", data=ground.data
    )
    assert await start(ground, both)
    assert await retag_some(ground.database) == 1
    (job,) = await next_tags(ground)
    assert "known" not in asked(job)[0]
    await ground.finish(job, {"looks": [look(job, description="a wolf", meaning=SHORT)]})
    assert (await asset(ground))["description"] == "a wolf"
    assert "text openai:e-2" in await models_of(ground, 1)


async def test_a_library_with_a_tagger_of_its_own_gets_new_vectors_too(ground: Ground) -> None:
    await tagged(ground)
    await ground.run("update libraries set target_tagger_id = (select tags_model_id from assets)")
    await start(ground, other_texts(ground))
    assert await retag_some(ground.database) == 1


async def test_a_job_that_asks_for_the_old_model_is_let_go_of_and_one_that_runs_is_not_the_last(
    ground: Ground,
) -> None:
    await start(ground)
    (running, *_) = await proxied(ground, images=1)
    await ground.library("More", images=1)
    await ground.feed()
    for job in await ground.claim(pool=IMAGES):
        await ground.play_image(job)
    await ground.feed()
    await start(ground, other_texts(ground))
    assert await let_go_of_outdated_jobs(ground.database) == 1
    await ground.finish(running, {"looks": [look(running)]})
    assert [(await asset(ground, id_))["status"] for id_ in (1, 2)] == ["proxied", "proxied"]
    first, second = await next_tags(ground)
    assert {json.loads(job.payload_json)["text_model"]["name"] for job in (first, second)} == {"openai:e-2"}
    assert sorted("known" in asked(job)[0] for job in (first, second)) == [False, True]
    assert await let_go_of_outdated_jobs(ground.database) == 0


async def test_a_twin_with_old_vectors_is_none(ground: Ground) -> None:
    await tagged(ground, images=2)
    await ground.run("update assets set proxy_digest = '\\x01'")
    await start(ground, other_texts(ground))
    await retag_some(ground.database)
    await ground.run("update assets set status = 'completed' where id = 2")  # as if it had not been walked to
    (job,) = await next_tags(ground)
    assert job.subject_id == "1"
    await ground.finish(job, {"looks": [embedded(asked(job)[0])]})
    await ground.run("update assets set status = 'proxied' where id = 2")
    assert await next_tags(ground) == [], "what its twin has is taken over"
    assert await models_of(ground, 2) == await models_of(ground, 1)


async def test_vectors_that_nobody_uses_go_when_the_new_ones_are_there_and_their_index_with_them(
    ground: Ground,
) -> None:
    await tagged(ground, images=2)
    await ensure_indexes(ground.database)
    indexes = "select count(*) from pg_indexes where indexname like 'search_vectors_model_%'"
    assert await ground.one(indexes) == 2
    await start(ground, other_texts(ground))
    assert await drop_unused_vectors(ground.database) == 0, "the library has not been gone through"
    await retag_some(ground.database)
    assert await drop_unused_vectors(ground.database) == 0, "its assets wait for new ones"
    first, second = await next_tags(ground)
    await ground.finish(first, {"looks": [embedded(asked(first)[0])]})
    await ground.fail(second, "the preview is gone", permanent=True)  # there will be no new one
    assert await drop_unused_indexes(ground.database) == 0
    assert await drop_unused_vectors(ground.database, batch=1) == 1
    assert await models_of(ground, 1) == [(await models_of(ground, 2))[0], "text openai:e-2"]
    assert await drop_unused_indexes(ground.database) == 1
    await ensure_indexes(ground.database)
    assert await ground.one(indexes) == 2  # of looks, and of the new texts
    await ensure_indexes(ground.database)
    assert await drop_unused_indexes(ground.database) == 0


async def test_going_back_to_the_first_model_embeds_only_what_the_second_has_done(ground: Ground) -> None:
    await tagged(ground, images=2)
    first = ground.settings
    await start(ground, other_texts(ground))
    await retag_some(ground.database)
    job, _ = await next_tags(ground)
    await ground.finish(job, {"looks": [embedded(asked(job)[0])]})
    await start(ground, first)
    await retag_some(ground.database)
    await let_go_of_outdated_jobs(ground.database)
    wants = {one["id"]: one["wants"] for job in await next_tags(ground) for one in asked(job)}
    assert wants[int(job.subject_id or 0)] == ["meaning"]


async def test_videos_without_scenes_are_embedded_by_their_picture(ground: Ground) -> None:
    await start(ground)
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.play_video(job, scenes=0)
    (job,) = await next_tags(ground)
    await ground.finish(job, {"looks": [look(job)]})
    await start(ground, other_texts(ground))
    await retag_some(ground.database)
    (job,) = await next_tags(ground)
    assert asked(job)[0]["known"] == "A dog in the snow. dog. KEEP OUT"

"""Text in pictures has its reader as tags have their tagger: switched on later, or another one, it is read again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.libraries.retag import note_models, retag_some
from mediamill.settings import Settings
from tests.libraries.played import TAGS, Ground, ground
from tests.libraries.tagged import VECTOR, asset, finds, look, proxied, video_with

__all__ = ["ground"]

pytestmark = pytest.mark.spec("L24")


async def start_server(ground: Ground, *, reads: bool) -> None:
    """As it notes its models when it starts, and goes through the libraries."""
    ground.settings = Settings(data=ground.data, library_read_text=reads)
    await note_models(ground.database, ground.settings)
    await retag_some(ground.database)


async def next_job(ground: Ground) -> tuple[ClaimedJob, dict[str, Any]]:
    await ground.feed()
    (job,) = await ground.claim(pool=TAGS)
    return job, json.loads(job.payload_json)


async def test_what_was_tagged_while_reading_was_off_is_only_read_when_it_is_switched_on(
    ground: Ground,
) -> None:
    await start_server(ground, reads=False)
    (job,) = await proxied(ground)
    assert json.loads(job.payload_json)["reader"] is None
    await ground.finish(job, {"looks": [look(job, text=None)]})
    await start_server(ground, reads=False)
    assert (await asset(ground))["status"] == "completed"
    await start_server(ground, reads=True)
    assert (await asset(ground))["status"] == "proxied"
    assert await finds(ground, "dog") == [1], "what is known stays in sight"

    job, payload = await next_job(ground)
    (asked,) = payload["looks"]
    assert (asked["known"], asked["wants"]) == ("A dog in the snow. dog", ["read", "meaning"])
    told = {"of": "asset", "id": 1, "text": "HARBOUR OFFICE", "models": ["reads@1"], "meaning": VECTOR}
    await ground.finish(job, {"looks": [told]})

    found = await asset(ground)
    assert (found["status"], found["description"]) == ("completed", "A dog in the snow")
    assert found["reader_model_id"] == payload["reader"]["id"] > 0
    assert json.loads(found["facts"])["text"] == "HARBOUR OFFICE"
    assert await finds(ground, "harbour dog") == [1]
    await start_server(ground, reads=False)
    await start_server(ground, reads=True)
    assert (await asset(ground))["status"] == "completed", "it was read already"


async def test_another_reader_reads_the_scenes_of_a_video_again(ground: Ground) -> None:
    await start_server(ground, reads=True)
    video = await video_with(ground, scenes=2)
    job, payload = await next_job(ground)
    await ground.finish(job, {"looks": [{**one, **look(job), "id": one["id"]} for one in payload["looks"]]})
    assert (await asset(ground, video))["status"] == "completed"
    await ground.run("update ai_models set name = 'an older reader' where task = 'read'")
    await start_server(ground, reads=True)
    job, payload = await next_job(ground)
    assert [one["wants"] for one in payload["looks"]] == [["read", "meaning"]] * 2
    told = [{"of": one["of"], "id": one["id"], "text": None, "meaning": VECTOR} for one in payload["looks"]]
    await ground.finish(job, {"looks": told})
    assert (await asset(ground, video))["status"] == "completed"
    scenes = (
        "select array_agg(distinct (reader_model_id, description, metadata ->> 'text')) from video_scenes"
    )
    assert await ground.one(scenes) == [(payload["reader"]["id"], "A dog in the snow", None)]
    assert await finds(ground, "keep", "video_scenes") == []
    assert (await asset(ground, video))["reader_model_id"] == payload["reader"]["id"]


async def test_what_was_tagged_before_readers_were_noted_is_left_as_it_is(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.finish(job, {"looks": [look(job)]})
    await ground.run("update assets set reader_model_id = null")
    await start_server(ground, reads=True)
    assert (await asset(ground))["status"] == "completed"
    await ground.run("update ai_models set name = 'an older reader' where task = 'read'")
    await start_server(ground, reads=True)
    assert (await asset(ground))["status"] == "proxied"

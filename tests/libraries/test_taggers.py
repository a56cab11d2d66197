"""Who tags, and what is left to look at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.libraries.taggers import Taggers, known_of, read_taggers
from mediamill.processors.models.names import look_name, reader_name, text_name, vision_name
from mediamill.settings import Settings
from tests.libraries.played import TAGS, VIDEOS, Ground, ground

__all__ = ["ground"]


@pytest.mark.spec("L11")
async def test_the_models_of_a_job_are_those_of_the_settings_each_with_one_id(ground: Ground) -> None:
    async with ground.database.transaction() as connection:
        taggers = await read_taggers(connection, ground.settings, None)
        again = await read_taggers(connection, ground.settings, None)
    assert taggers == again
    told, settings = taggers.as_payload(), ground.settings
    names = {task: model["name"] for task, model in told.items()}
    reader = reader_name(settings)
    assert reader is not None
    wanted = (reader, vision_name(settings), text_name(settings), look_name(settings))
    assert list(names.values()) == [model.name for model in wanted]
    assert len({model["id"] for model in told.values()}) == 4
    dimensions = "select array_agg(dimensions order by id) from ai_models where task in ('text', 'look')"
    assert await ground.one(dimensions) == [384, 384]


@pytest.mark.spec("L10")
async def test_a_video_without_scenes_is_known_by_its_picture(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.play_video(job, scenes=0)
    await ground.feed()
    (job,) = await ground.claim(pool=TAGS)
    assert json.loads(job.payload_json)["looks"] == [{"of": "asset", "id": 1, "file": "preview.webp"}]
    await ground.play_tag(job)
    assert await ground.one("select (status, description)::text from assets") == '(completed,"a harbour")'


@pytest.mark.spec("L9", "L10")
async def test_sampled_frames_are_looked_at_one_by_one(ground: Ground) -> None:
    await ground.library(videos=1)
    await ground.feed()
    (job,) = await ground.claim(pool=VIDEOS)
    await ground.keep(job, "frame-000001500.jpg", b"a frame")
    await ground.keep(job, "preview.webp", b"a picture")
    frame = {"timestamp_ms": 1500, "is_keyframe": True, "file": "frame-000001500.jpg"}
    await ground.finish(job, {"frames": [frame], "digest": "ab" * 32})
    await ground.feed()
    (job,) = await ground.claim(pool=TAGS)
    (look,) = json.loads(job.payload_json)["looks"]
    assert (look["of"], look["file"]) == ("frame", "frame-000001500.jpg")
    await ground.play_tag(job)
    row = "select (description, tags_model_id is not null)::text from video_frames"
    assert await ground.one(row) == '("a harbour",t)'
    assert await ground.one("select status from assets") == "completed"


@pytest.mark.parametrize(
    ("seen_by", "wants"),
    [
        ((1, 2, 3), ["meaning", "look"]),
        ((1, 9, 3), ["meaning"]),
        ((1, 2, None), ["look"]),
        ((1, None, 9), ["meaning", "look"]),
        ((9, 2, 3), None),
        ((None, None, None), None),
    ],
)
def test_what_the_tagger_has_seen_already_wants_vectors_only(
    seen_by: tuple[int | None, ...], wants: list[str] | None
) -> None:
    settings = Settings()
    taggers = Taggers((1, vision_name(settings)), (2, text_name(settings)), (3, look_name(settings)))
    tags = json.dumps([{"label": "boat", "score": 1}])
    row: Any = dict(zip(("tags_model_id", "text_model_id", "look_model_id"), seen_by, strict=True))
    row |= {"tags": tags, "description": "a harbour", "words": "MS Anna", "unread": False}
    known = known_of(row, taggers)
    assert known.get("wants") == wants
    if wants is not None:
        assert all(word in known["known"] for word in ("a harbour", "boat", "MS Anna"))
        assert "a harbour" in known_of(row | {"tags": None}, taggers)["known"]
    else:
        assert known == {}

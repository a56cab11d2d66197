"""What taggers bring: kept with their names, only for what was asked, and nonsense changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mediamill.engine.settle import Finish, finish_jobs
from mediamill.libraries.taggers import LOOKS_OF_ONE_JOB
from mediamill.libraries.tagging import read_looks, read_tags
from tests.libraries.played import TAGS, VIDEOS, Ground, ground
from tests.libraries.tagged import SEEN, asset, finds, look, proxied, scenes_of, video_with

__all__ = ["ground"]


@pytest.mark.spec("L10", "L11")
async def test_an_image_is_described_tagged_and_found_and_all_of_it_names_its_model(ground: Ground) -> None:
    (job,) = await proxied(ground)
    assert (await asset(ground))["status"] == "analyzing"
    settled = await ground.finish(job, {"looks": [look(job)]})
    assert settled.done == {job.id}
    found, payload = await asset(ground), json.loads(job.payload_json)
    assert (found["status"], found["job_id"], found["description"]) == (
        "completed",
        None,
        SEEN["description"],
    )
    assert json.loads(found["tags"]) == SEEN["tags"]
    assert found["tags_model_id"] == payload["tagger"]["id"]
    assert json.loads(found["facts"]) == {"text": "KEEP OUT", "models": ["sees@1"]}
    for words in ("dogs", "snow", "keep out", "image 0000001"):
        assert await finds(ground, words) == [1], words
    vectors = (
        "select array_agg(model_id order by model_id) from search_vectors where asset_id = 1 and library = 1"
    )
    assert set(await ground.one(vectors)) == {payload["text_model"]["id"], payload["look_model"]["id"]}


@pytest.mark.spec("L10")
async def test_a_tag_job_names_the_preview_and_never_the_source(ground: Ground) -> None:
    (job,) = await proxied(ground)
    payload = json.loads(job.payload_json)
    assert str(ground.root) not in job.payload_json
    assert payload["looks"] == [{"of": "asset", "id": 1, "file": "preview.webp"}]
    assert (ground.data / payload["file"]["data"] / "preview.webp").is_file()


@pytest.mark.parametrize(
    "looks",
    [
        None,
        "text",
        {"of": "asset"},
        [None, 1, [], {}, {"of": "asset", "id": "1"}, {"of": "asset", "id": 2**70}, {"of": "jobs", "id": 1}],
        [{"of": "scene", "id": 1}, {"of": "frame", "id": 1}, {"of": "asset", "id": 2}],
    ],
)
@pytest.mark.spec("L2")
async def test_nonsense_changes_nothing_costs_a_try_and_leaves_the_neighbours_alone(
    ground: Ground, looks: Any
) -> None:
    bad, good = await proxied(ground, images=2)
    finishes = [Finish(bad, json.dumps({"looks": looks})), Finish(good, json.dumps({"looks": [look(good)]}))]
    settled = await finish_jobs(ground.database, ground.engine, bad.worker_id, finishes)
    assert settled.done == {bad.id, good.id}
    untouched, other = await asset(ground, 1), await asset(ground, 2)
    assert (untouched["status"], untouched["retry_count"], untouched["tags"]) == ("proxied", 1, None)
    assert other["status"] == "completed"


@pytest.mark.spec("L2")
async def test_a_tagger_that_never_says_anything_usable_poisons_after_more_than_five_times(
    ground: Ground,
) -> None:
    (job,) = await proxied(ground)
    for _ in range(5):
        await ground.finish(job, {"looks": []})
        assert (await asset(ground))["status"] == "proxied"
        await ground.feed()
        (job,) = await ground.claim(pool=TAGS)
    await ground.finish(job, {"looks": []})
    assert (await asset(ground))["status"] == "poisoned"
    assert await ground.feed() == 0


async def test_odd_values_are_dropped_and_the_rest_is_kept(ground: Ground) -> None:
    (job,) = await proxied(ground)
    tags = [
        {"label": "dog", "score": "much"},
        {"label": " "},
        {"score": 1},
        {"label": "x" * 999, "score": 7},
    ]
    odd = look(job, description=" ", tags=tags, text=["x"], models="m", meaning="no vector", look="AAAA")
    await ground.finish(job, {"looks": [odd]})
    found = await asset(ground)
    assert (found["status"], found["description"], json.loads(found["facts"])) == ("completed", None, {})
    labels = [{"label": "dog", "score": None}, {"label": "x" * 100, "score": 1.0}]
    assert json.loads(found["tags"]) == labels
    assert await ground.counts("search_vectors") == [0]


def test_scores_that_json_has_no_word_for_are_no_scores() -> None:
    given = [{"label": "a", "score": float("nan")}, {"label": "b", "score": True}]
    assert [tag["score"] for tag in read_tags(given)] == [None, None]
    assert read_looks([{"of": "asset", "id": 1, "description": "\ud800 half"}])[0].description == "? half"


async def test_an_asset_that_has_another_job_by_now_is_not_touched(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.run("update assets set status = 'pending', job_id = null")  # the file has changed
    await ground.report(job, parts={"looks": [look(job)]})
    await ground.finish(job, {"looks": [look(job)]})
    found = await asset(ground)
    assert (found["status"], found["tags"]) == ("pending", None)


async def test_another_vector_of_the_same_model_takes_the_place_of_the_first(ground: Ground) -> None:
    (job,) = await proxied(ground)
    await ground.report(job, parts={"looks": [look(job)]})
    await ground.finish(job, {"looks": [look(job, meaning=None)]})
    model = "select array_agg(task) from search_vectors v join ai_models m on m.id = v.model_id"
    assert await ground.one(model) == ["look"]


@pytest.mark.spec("L10", "L11")
async def test_a_video_with_many_scenes_goes_round_until_all_are_seen_and_is_summed_up(
    ground: Ground,
) -> None:
    id_ = await video_with(ground, LOOKS_OF_ONE_JOB + 5)
    rounds = []
    while await ground.feed():
        (job,) = await ground.claim(pool=TAGS)
        rounds.append(len(json.loads(job.payload_json)["looks"]))
        assert (await asset(ground, id_))["tags"] is None, "summed up too early"
        await ground.finish(job, {"looks": scenes_of(job, "boat")})
    assert rounds == [LOOKS_OF_ONE_JOB, 5]
    found = await asset(ground, id_)
    assert found["status"] == "completed"
    assert found["tags_model_id"] is not None
    tags = json.loads(found["tags"])
    assert [tag["label"] for tag in tags] == ["boat 1", "boat 0", "boat 2"]
    assert tags[0]["score"] == 0.49
    named = "select count(*) from video_scenes where tags_model_id is not null and metadata ->> 'text' = 'KEEP OUT'"
    assert await ground.one(named) == LOOKS_OF_ONE_JOB + 5
    assert len(await finds(ground, "boat", "video_scenes")) == LOOKS_OF_ONE_JOB + 5
    assert await finds(ground, "boat") == [id_]


@pytest.mark.spec("L10")
async def test_what_was_told_before_a_crash_is_kept(ground: Ground) -> None:
    id_ = await video_with(ground, 3)
    await ground.feed()
    (job,) = await ground.claim(pool=TAGS)
    looks = scenes_of(job, "boat")
    await ground.report(job, parts={"looks": looks[:2]})
    await ground.fail(job, "killed")
    assert (await asset(ground, id_))["retry_count"] == 1
    await ground.run("update jobs set run_after = now(), state = 'queued'")
    (again,) = await ground.claim(pool=TAGS)
    settled = await ground.finish(again, {"looks": looks[2:]})
    assert settled.done == {job.id}
    found = await asset(ground, id_)
    assert (found["status"], found["retry_count"]) == ("completed", 0)


async def test_looks_at_scenes_of_another_video_change_nothing(ground: Ground) -> None:
    await ground.library(videos=2)
    await ground.feed()
    for job in await ground.claim(pool=VIDEOS, amount=2):
        await ground.play_video(job)
    await ground.feed()
    first, second = await ground.claim(pool=TAGS, amount=2)
    await ground.report(first, parts={"looks": scenes_of(second, "stolen")})
    assert await ground.one("select count(*) from video_scenes where tags is not null") == 0
    assert await ground.counts("search_vectors") == [0]


async def test_a_frame_that_cannot_be_read_is_noted_and_not_asked_for_again(ground: Ground) -> None:
    id_ = await video_with(ground, 2)
    await ground.feed()
    (job,) = await ground.claim(pool=TAGS)
    first, second = scenes_of(job, "boat")
    await ground.finish(
        job, {"looks": [{"of": "scene", "id": first["id"], "error": "it is damaged"}, second]}
    )
    assert (await asset(ground, id_))["status"] == "completed"
    noted = "select metadata ->> 'tag_error' from video_scenes where id = $1"
    assert await ground.one(noted, first["id"]) == "it is damaged"

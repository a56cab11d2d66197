"""Videos over HTTP: list, show, edit, retry, retranscode, trash, captions; and that listeners are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from mediamill.db.connection import Database
from mediamill.videos.model import video_folder
from tests.api.listening import listen
from tests.api.remote_worker import register
from tests.api.serving import SECRET, Served, serve
from tests.conftest import wait_until
from tests.videos.played import Ground, play_captions, play_worker


@pytest.fixture
def ground(served: Served) -> Ground:
    """The worker's side of the same server."""
    deps = served.app.state.deps
    return Ground(deps.database, deps.settings, deps.engine, deps.enqueuer)


async def get(served: Served, path: str = "", **params: Any) -> Any:
    answer = await served.client.get(f"/api/videos{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def titles(served: Served, **params: Any) -> list[str]:
    return [video["title"] for video in (await get(served, **params))["videos"]]


@pytest.mark.spec("V14")
async def test_videos_are_listed_newest_first_and_page_by_page(served: Served, ground: Ground) -> None:
    for number in range(5):
        await ground.add(f"Video {number}")
    first = await get(served, amount=2)
    second = await get(served, amount=2, before=first["next"])
    last = await get(served, amount=2, before=second["next"])
    pages = [[video["title"] for video in page["videos"]] for page in (first, second, last)]
    assert pages == [["Video 4", "Video 3"], ["Video 2", "Video 1"], ["Video 0"]]
    assert last["next"] is None


@pytest.mark.spec("V14")
async def test_one_who_pages_on_from_a_video_that_is_gone_comes_to_an_end(
    served: Served, ground: Ground
) -> None:
    await ground.add()
    assert (await get(served, before=str(uuid4()))) == {"videos": [], "next": None}


@pytest.mark.spec("V13", "V14")
async def test_the_list_is_filtered_by_state_category_and_words_also_spoken_ones(
    served: Served, ground: Ground
) -> None:
    sea = await ground.add("The sea", category="holidays", description="with a lighthouse")
    await play_worker(ground, sea)
    await play_captions(ground, ["There is a dolphin over there."])
    await ground.add("The hill", category="hiking")
    assert await titles(served) == ["The hill", "The sea"]
    assert await titles(served, state="ready") == ["The sea"]
    assert await titles(served, category="hiking") == ["The hill"]
    for word in ("sea", "lighthouse", "holidays", "dolphin", '"a dolphin"'):
        assert await titles(served, q=word) == ["The sea"]
    assert await titles(served, q="whale") == []
    answer = await served.client.get("/api/video-categories")
    assert answer.json() == {
        "categories": [{"category": "hiking", "videos": 1}, {"category": "holidays", "videos": 1}]
    }


@pytest.mark.spec("V5", "V9", "V14")
async def test_a_video_is_shown_by_id_and_by_slug_with_the_progress_of_each_quality(
    served: Served, ground: Ground
) -> None:
    video_id = await ground.add("At the sea")
    (job,) = await ground.claim()
    part = {"state": "in_progress", "segments_total": 15, "segments_done": 3, "percent": 20.0}
    await ground.report(job, percent=30, parts={"720p": part, "360p": {**part, "state": "pending"}})
    shown = await get(served, "/at-the-sea")
    assert shown == await get(served, f"/{video_id}")
    assert (shown["state"], shown["step"], shown["percent"]) == ("processing", "transcode", 30)
    assert (shown["job_id"], shown["worker_name"]) == (job.id, "a")
    first, second = shown["qualities"]
    assert (first["quality"], first["segments_done"], first["segments_total"]) == ("720p", 3, 15)
    assert second["state"] == "pending"


@pytest.mark.spec("V9", "V14")
async def test_a_finished_video_has_its_length_and_the_size_and_rate_of_each_quality(
    served: Served, ground: Ground
) -> None:
    video_id = await ground.ready(qualities=("720p", "360p"), seconds=10)
    shown = await get(served, f"/{video_id}")
    assert (shown["state"], shown["duration_seconds"], shown["error"]) == ("ready", 10, None)
    for quality in shown["qualities"]:
        assert quality["state"] == "completed"
        assert quality["bitrate"] == round(8 * quality["bytes"] / 10)
    assert shown["output_bytes"] > sum(quality["bytes"] for quality in shown["qualities"])


@pytest.mark.spec("V14")
async def test_what_is_edited_is_changed_and_the_rest_is_left(served: Served, ground: Ground) -> None:
    video_id = await ground.add("Old", category="a")
    answer = await served.client.patch(f"/api/videos/{video_id}", json={"title": "New", "slug": "a-new-one"})
    assert answer.status_code == 200, answer.text
    assert {name: answer.json()[name] for name in ("title", "slug", "category")} == {
        "title": "New",
        "slug": "a-new-one",
        "category": "a",
    }
    await ground.add("Other")
    for slug, status, code in (("other", 409, "slug_taken"), ("No Slug", 422, "bad_video_facts")):
        answer = await served.client.patch(f"/api/videos/{video_id}", json={"slug": slug})
        assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert (await get(served, f"/{video_id}"))["slug"] == "a-new-one"
    answer = await served.client.patch(f"/api/videos/{video_id}", json={"titel": "x"})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


@pytest.mark.spec("V2", "V14")
async def test_a_video_that_failed_is_tried_again(served: Served, ground: Ground) -> None:
    video_id = await ground.add()
    refused = await served.client.post(f"/api/videos/{video_id}/retry")
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing_to_retry")
    (job,) = await ground.claim()
    await ground.fail(job, "the file ends in the middle", permanent=True)
    shown = await get(served, f"/{video_id}")
    assert (shown["state"], shown["error"]) == ("failed", "the file ends in the middle")
    answer = await served.client.post(f"/api/videos/{video_id}/retry")
    assert answer.json()["retried"] == ["video.transcode"]
    assert answer.json()["state"] == "pending"
    await play_worker(ground, video_id)
    shown = await get(served, f"/{video_id}")
    assert (shown["state"], shown["error"]) == ("ready", None)


@pytest.mark.spec("V10", "V14")
async def test_a_retranscode_waits_while_the_video_plays_and_then_makes_only_what_was_named(
    served: Served, ground: Ground
) -> None:
    video_id = await ground.ready(qualities=("720p", "360p"))
    before = await get(served, f"/{video_id}")
    path = f"/api/videos/{video_id}/retranscode"
    answer = await served.client.post(path, json={"qualities": ["720p"]})
    assert answer.status_code == 202, answer.text
    assert answer.json()["retranscode"] == {"qualities": ["720p"], "transcript": False}
    assert (answer.json()["state"], answer.json()["output"]) == ("ready", before["output"])
    again = await served.client.post(path)
    assert (again.status_code, again.json()["code"]) == (409, "video_busy")
    await play_worker(ground, video_id, ("720p",), salt="once more")
    after = await get(served, f"/{video_id}")
    assert after["output"] != before["output"]
    assert [quality["quality"] for quality in after["qualities"]] == ["720p", "360p"]
    unknown = await served.client.post(path, json={"qualities": ["8k"]})
    assert unknown.status_code == 422


@pytest.mark.spec("V17")
async def test_the_priority_of_a_video_is_changed_while_it_waits(served: Served, ground: Ground) -> None:
    first, second = await ground.add("First"), await ground.add("Second")
    path = f"/api/videos/{second}/priority"
    assert (await get(served, f"/{second}"))["priority"] == "normal"
    answer = await served.client.post(path, json={"priority": "high"})
    assert (answer.status_code, answer.json()["priority"]) == (200, "high")
    (job,) = await ground.claim()
    assert job.subject_id == str(second)
    refused = await served.client.post(path, json={"priority": "low"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_waiting")
    refused = await served.client.post(f"/api/videos/{first}/priority", json={"priority": "soon"})
    assert refused.status_code == 422


@pytest.mark.spec("V14")
async def test_a_video_goes_to_the_trash_comes_back_and_is_erased(served: Served, ground: Ground) -> None:
    video_id = await ground.ready("Sea")
    path = f"/api/videos/{video_id}"
    refused = await served.client.delete(path, params={"forever": "true"})
    assert (refused.status_code, refused.json()["code"]) == (409, "not_in_trash")
    assert (await served.client.delete(path)).json() == {"id": str(video_id), "erased": False}
    assert (await served.client.delete(path)).json()["code"] == "in_trash"
    assert (await titles(served), await titles(served, trash="true")) == ([], ["Sea"])
    restored = await served.client.post(f"{path}/restore")
    assert (restored.status_code, restored.json()["deleted_at"]) == (200, None)
    await served.client.delete(path)
    assert (await served.client.delete(path, params={"forever": "1"})).json()["erased"] is True
    assert (await served.client.get(path)).json()["code"] == "unknown_video"
    folder = ground.data / video_folder(video_id)

    async def gone() -> bool:
        return not folder.exists()

    await wait_until(gone)


@pytest.mark.spec("V14")
async def test_the_trash_is_emptied_and_nothing_else(served: Served, ground: Ground) -> None:
    kept, *deleted = [await ground.add(f"Video {number}") for number in range(3)]
    for video_id in deleted:
        await served.client.delete(f"/api/videos/{video_id}")
    assert (await served.client.delete("/api/video-trash")).json() == {"erased": 2}
    assert [video["id"] for video in (await get(served))["videos"]] == [str(kept)]
    assert await titles(served, trash="true") == []


@pytest.mark.spec("V13")
async def test_what_is_said_comes_as_sentences_and_as_captions(served: Served, ground: Ground) -> None:
    video_id = await ground.ready()
    path = f"/api/videos/{video_id}"
    none = await served.client.get(f"{path}/captions.vtt")
    assert (none.status_code, none.json()["code"]) == (404, "no_captions")
    assert (await get(served, f"/{video_id}/transcript"))["state"] == "pending"
    await play_captions(ground, ["Hello sea.", "Hello <b>sand</b>."])
    said = await get(served, f"/{video_id}/transcript")
    assert (said["state"], said["language"], said["text"]) == ("ready", "en", "Hello sea. Hello <b>sand</b>.")
    assert said["segments"][1] == {"start": 2.0, "end": 4.0, "text": "Hello <b>sand</b>."}
    captions = await served.client.get(f"{path}/captions.vtt")
    assert captions.headers["content-type"] == "text/vtt; charset=utf-8"
    assert captions.text.startswith("WEBVTT")
    assert "<b>" not in captions.text
    known = {"If-None-Match": captions.headers["etag"]}
    assert (await served.client.get(f"{path}/captions.vtt", headers=known)).status_code == 304
    await served.client.delete(path)
    assert (await served.client.get(f"{path}/captions.vtt")).status_code == 404


@pytest.mark.spec("E31", "V9")
async def test_listeners_are_told_when_a_video_changes(served: Served, ground: Ground) -> None:
    async with listen(served, topic="video.changed") as stream:
        video_id = await ground.add("Sea")
        await play_worker(ground, video_id)
        told = [(await stream.next())["data"] for _ in range(3)]
        assert {event["subject"] for event in told} == {str(video_id)}
        assert [event["data"]["state"] for event in told] == ["pending", "processing", "ready"]
        assert told[0]["data"]["slug"] == "sea"
        await served.client.delete(f"/api/videos/{video_id}")
        assert (await stream.next())["data"]["data"]["deleted"] is True
        await served.client.delete(f"/api/videos/{video_id}?forever=true")
        assert (await stream.next())["data"]["data"]["state"] == "gone"


@pytest.mark.spec("E31", "V5")
async def test_the_progress_of_each_quality_arrives_live_under_the_id_of_its_video(
    served: Served, ground: Ground
) -> None:
    video_id = await ground.add()
    (job,) = await ground.claim()
    async with listen(served, topic="job.progress", subject=str(video_id)) as stream:
        part = {"state": "in_progress", "segments_total": 4, "segments_done": 1, "percent": 25.0}
        await ground.report(job, percent=25, parts={"360p": part})
        told = (await stream.next())["data"]
    assert told["subject"] == str(video_id)
    assert told["data"]["parts"]["360p"]["segments_done"] == 1


@pytest.mark.parametrize("path", ["", "/restore", "/retry", "/retranscode", "/transcript", "/captions.vtt"])
async def test_a_video_that_is_not_there_is_a_problem(served: Served, path: str) -> None:
    method = "POST" if path in ("/restore", "/retry", "/retranscode") else "GET"
    for who in (uuid4(), "no-such-video"):
        answer = await served.client.request(method, f"/api/videos/{who}{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "unknown_video")
        assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.spec("V7")
async def test_a_remote_worker_gets_a_video_that_waits_or_shall_be_made_anew_and_no_other(
    served: Served, ground: Ground
) -> None:
    worker, other = await register(served), await register(served, "another")
    video_id = await ground.add()
    path = f"/api/videos/{video_id}"
    await served.client.delete(path)
    assert await worker.claim() == []  # in the trash
    await served.client.post(f"{path}/restore")
    (job,) = await worker.claim()
    assert (job["subject_id"], job["payload"]["file"]) == (
        str(video_id),
        {"data": f"videos/{video_id}/source"},
    )
    assert await other.claim() == []  # claimed already
    assert (await get(served, f"/{video_id}"))["state"] == "processing"
    await worker.post("release", claims=[{"job_id": job["id"], "token": job["token"]}])
    assert (await get(served, f"/{video_id}"))["state"] == "pending"
    await play_worker(ground, video_id, audio=False)
    assert await worker.claim() == []  # ready
    await served.client.post(f"{path}/retranscode")
    assert (await get(served, f"/{video_id}"))["state"] == "ready"
    (again,) = await other.claim()
    assert again["subject_id"] == str(video_id)
    assert (await get(served, f"/{video_id}"))["state"] == "processing"


async def test_beyond_loopback_nothing_of_videos_is_shown_without_the_secret(
    database: Database, tmp_path: Path
) -> None:
    async with serve(database, tmp_path, host="0.0.0.0") as served:
        for path in (
            "/api/videos",
            f"/api/videos/{UUID(int=1)}/source",
            f"/api/videos/{UUID(int=1)}/files/1/x",
        ):
            assert (await served.client.get(path)).status_code == 401
        known = {"Authorization": f"Bearer {SECRET}"}
        assert (await served.client.get("/api/videos", headers=known)).status_code == 200

"""Both clients look after videos on a real server: list, wait, try again, make anew, the trash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from mediamill.client import AsyncClient, Client, ProblemError, Retranscode, Video, VideoFailedError
from mediamill.client import videos as videos_module
from mediamill.db.connection import Database
from tests.api.serving import Served, serve
from tests.videos.played import Ground, play_captions, play_worker


@pytest.fixture
async def served(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(database, tmp_path) as served:
        yield served


@pytest.fixture
def ground(served: Served) -> Ground:
    """The worker's side of the same server."""
    deps = served.app.state.deps
    return Ground(deps.database, deps.settings, deps.engine, deps.enqueuer)


class Either:
    """One of the two clients, called in one way; the blocking one in a thread, since the server is in this one."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self._client = client

    async def __call__(self, name: str, *args: Any, **more: Any) -> Any:
        verb = getattr(self._client, name)
        if isinstance(self._client, AsyncClient):
            return await verb(*args, **more)
        return await asyncio.to_thread(verb, *args, **more)


@pytest.fixture(params=[Client, AsyncClient])
async def client(request: pytest.FixtureRequest, served: Served) -> AsyncIterator[Either]:
    made = request.param(served.url, patience=5)
    yield Either(made)
    await made.close() if isinstance(made, AsyncClient) else made.close()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(videos_module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(videos_module, "PAGE", 2)


@pytest.mark.spec("V14")
async def test_videos_are_listed_over_pages_and_filtered(client: Either, ground: Ground) -> None:
    for number in range(5):
        await ground.add(f"Video {number}", category="even" if number % 2 == 0 else "odd")
    found = await client("videos")
    assert [video.title for video in found] == [f"Video {number}" for number in (4, 3, 2, 1, 0)]
    assert [video.title for video in await client("videos", limit=3)] == ["Video 4", "Video 3", "Video 2"]
    assert len(await client("videos", category="even", state="pending")) == 3
    assert [video.title for video in await client("videos", words="3")] == ["Video 3"]
    assert await client("videos", trash=True) == []


@pytest.mark.spec("V9", "V14", "K3")
async def test_a_video_is_waited_for_until_it_can_be_played(client: Either, ground: Ground) -> None:
    video_id = await ground.add("Sea")
    waiting = asyncio.create_task(client("wait_ready", "sea"))
    await play_worker(ground, video_id)
    video = await waiting
    assert (video.video_id, video.state, video.duration_seconds) == (str(video_id), "ready", 10)
    assert isinstance(video, Video)
    assert {quality.state for quality in video.qualities} == {"completed"}
    assert video.ready_at is not None
    assert video.created_at <= video.ready_at <= datetime.now(UTC)


@pytest.mark.spec("V14")
async def test_waiting_ends_when_the_video_failed_or_time_is_up(client: Either, ground: Ground) -> None:
    video_id = await ground.add("Bad")
    with pytest.raises(TimeoutError, match="Bad is still pending"):
        await client("wait_ready", str(video_id), timeout=0.05)
    (job,) = await ground.claim()
    await ground.fail(job, "the file ends in the middle", permanent=True)
    with pytest.raises(VideoFailedError, match="the file ends in the middle") as caught:
        await client("wait_ready", str(video_id))
    assert caught.value.video.state == "failed"
    assert (await client("retry_video", "bad")).state == "pending"
    with pytest.raises(ProblemError) as refused:
        await client("retry_video", "bad")
    assert (refused.value.code, refused.value.status) == ("nothing_to_retry", 409)


@pytest.mark.spec("V10", "V14", "V17")
async def test_qualities_are_made_anew(client: Either, ground: Ground) -> None:
    video_id = await ground.ready("Sea", qualities=("720p", "360p"))
    await play_captions(ground, ["Hello."])
    video = await client("retranscode_video", "sea", ["720p"], transcript=True)
    assert video.retranscode == Retranscode(("720p",), True)
    assert (await client("set_video_priority", "sea", "high")).priority == "high"
    await play_worker(ground, video_id, ("720p",), salt="new")
    assert (await client("wait_ready", "sea")).output != video.output
    assert (await client("retranscode_video", "sea")).retranscode.qualities is None


@pytest.mark.spec("V14")
async def test_to_the_trash_and_back_and_gone(client: Either, ground: Ground) -> None:
    await ground.ready("Sea")
    await client("delete_video", "sea")
    assert [video.slug for video in await client("videos", trash=True)] == ["sea"]
    assert (await client("restore_video", "sea")).deleted_at is None
    await client("delete_video", "sea")
    await client("delete_video", "sea", forever=True)
    with pytest.raises(ProblemError) as refused:
        await client("video", "sea")
    assert refused.value.code == "unknown_video"

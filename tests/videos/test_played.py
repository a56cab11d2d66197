"""The worker that tests play: what it makes is shown like a real worker's."""

from __future__ import annotations

import pytest

from mediamill.videos.look import show_transcript, show_video
from mediamill.videos.model import output_folder
from tests.videos.played import Ground, play_captions, play_worker


@pytest.mark.spec("V9")
async def test_a_played_video_is_ready_with_its_files_in_place(ground: Ground) -> None:
    video_id = await ground.add()
    job = await play_worker(ground, video_id, ("720p", "360p"), failed={"480p": "no more memory"})
    await play_captions(ground, ["Hello sea.", "Hello sand."])
    async with ground.database.connection() as connection:
        shown = await show_video(connection, video_id)
        said = await show_transcript(connection, video_id)
    assert (shown["state"], shown["output"], shown["captions_state"]) == ("ready", job.id, "ready")
    states = {row["quality"]: row["state"] for row in shown["qualities"]}
    assert states == {"720p": "completed", "480p": "failed", "360p": "completed"}
    assert said["transcript"]["text"] == "Hello sea. Hello sand."
    assert ((ground.data / output_folder(video_id, job.id)) / "master.m3u8").is_file()


@pytest.mark.spec("V5")
async def test_percents_are_kept_as_they_are_told(ground: Ground) -> None:
    await ground.add()
    (job,) = await ground.claim()
    await ground.report(job, parts={"360p": {"state": "in_progress", "percent": 33.5}})
    assert await ground.one("select percent from video_qualities") == 33.5

"""A video with speech through a real worker: its stream, its captions, and the words found again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.videos.look import list_videos, show_transcript, show_video
from mediamill.worker.home import WorkerPlan
from mediamill.worker.local_home import LocalHome
from mediamill.worker.loop import Worker
from tests.conftest import wait_until
from tests.processors.transcode.odd_clips import run_ffmpeg
from tests.videos.played import Ground

VOICE = Path(__file__).parents[2] / "samples" / "voice.ogg"
PICTURES = ("-f", "lavfi", "-i", "testsrc=size=320x180:rate=5")
CODECS = ("-shortest", "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac")


@pytest.mark.spec("V2", "V9", "V13", "V15")
async def test_what_is_said_in_a_video_is_written_down_by_the_audio_processor_and_found(
    database: Database, tmp_path: Path
) -> None:
    ground = Ground.on(database, tmp_path / "data", video_preset="ultrafast")
    run_ffmpeg("-v", "error", *PICTURES, "-i", str(VOICE), *CODECS, str(tmp_path / "talk.mp4"))
    plan = WorkerPlan(name="real", pools=("transcode", "captions"), data_folder=ground.data)
    worker = Worker(LocalHome(database, ground.engine, plan), ground.engine, plan)
    working = asyncio.create_task(worker.run())
    try:
        video_id = await ground.add("A talk", (tmp_path / "talk.mp4").read_bytes())

        async def heard() -> bool:
            async with database.connection() as connection:
                shown = await show_video(connection, video_id)
            assert shown["error"] is None, shown["error"]
            return shown["captions_state"] not in ("none", "pending")

        await wait_until(heard)
        async with database.connection() as connection:
            said = await show_transcript(connection, video_id)
            found = await list_videos(connection, words="young man")
    finally:
        worker.stop()
        worker.stop()
        await working
    assert said["captions_state"] == "ready"
    assert "he was not an ill-disposed young man" in said["transcript"]["text"].lower()
    assert said["captions"].startswith("WEBVTT")
    assert [video["id"] for video in found] == [str(video_id)]

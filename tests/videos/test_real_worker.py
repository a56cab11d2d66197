"""A video with speech through a real worker: its stream, its captions, and the words found again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import psutil
import pytest

from mediamill.db.connection import Database
from mediamill.engine.pools import set_pools
from mediamill.processors.registry import processor_names
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


@asynccontextmanager
async def working(ground: Ground) -> AsyncIterator[Worker]:
    """A worker for the length of the block; at its end it is stopped at once."""
    plan = WorkerPlan(name="real", pools=("transcode", "captions"), data_folder=ground.data)
    worker = Worker(LocalHome(ground.database, ground.engine, plan), ground.engine, plan)
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        worker.stop()
        await task


@pytest.mark.spec("V2", "V9", "V13", "V15")
async def test_what_is_said_in_a_video_is_written_down_by_the_audio_processor_and_found(
    database: Database, tmp_path: Path
) -> None:
    ground = Ground.on(database, tmp_path / "data", video_preset="ultrafast")
    run_ffmpeg("-v", "error", *PICTURES, "-i", str(VOICE), *CODECS, str(tmp_path / "talk.mp4"))
    async with working(ground):
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
    assert said["captions_state"] == "ready"
    assert "he was not an ill-disposed young man" in said["transcript"]["text"].lower()
    assert said["captions"].startswith("WEBVTT")
    assert [video["id"] for video in found] == [str(video_id)]


@pytest.mark.spec("E10", "V2", "V6")
async def test_an_encoder_that_hangs_is_replaced_and_no_finished_segment_is_encoded_again(
    database: Database, tmp_path: Path
) -> None:
    ground = Ground.on(database, tmp_path / "data", video_preset="medium", video_captions=False)
    clip = ("-f", "lavfi", "-i", "testsrc=size=640x360:rate=25:duration=24", "-c:v", "libx264")
    run_ffmpeg("-v", "error", *clip, "-preset", "ultrafast", str(tmp_path / "clip.mp4"))
    async with working(ground):
        video_id = await ground.add("It hangs", (tmp_path / "clip.mp4").read_bytes())
        before = await stop_half_way(ground)
        assert "master.m3u8" not in before, (
            "the clip is too short: the encoder had ended before it was stopped"
        )
        await limit_progress(ground, 2)
        await until(ground, "select exists (select from counters where name = 'stalled')")
        await limit_progress(ground, 1_800)
        await until(ground, "select state = 'ready' from videos")
    async with database.connection() as connection:
        shown = await show_video(connection, video_id)
    assert [one["segments_done"] for one in shown["qualities"] if one["state"] == "completed"] == [6]
    [folder] = [path.parent for path in (ground.data / "videos").rglob("master.m3u8")]
    again = {name for name, changed in before.items() if (folder / name).stat().st_mtime_ns != changed}
    assert again == set()
    assert await ground.one("select sum(value) from counters where name = 'stalled'") == 1


async def stop_half_way(ground: Ground) -> dict[str, int]:
    """SIGSTOP for the encoder when it has kept a segment; all that is kept by then, and when it was made."""
    await until(ground, "select count(*) > 0 from kept_files where name like '360p-%.m4s'")
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if "mediamill.worker.child" in " ".join(process.cmdline()):
                process.suspend()
    names = await ground.one("select array_agg(name) from kept_files")
    [folder] = (ground.data / "kept").glob("*/*")
    return {name: (folder / name).stat().st_mtime_ns for name in names}


async def limit_progress(ground: Ground, seconds: float) -> None:
    async with ground.database.transaction() as connection:
        change = {"name": "transcode", "no_progress_seconds": seconds}
        await set_pools(connection, [change], processor_names())


async def until(ground: Ground, sql: str) -> None:
    async def true() -> bool:
        return bool(await ground.one(sql))

    await wait_until(true)

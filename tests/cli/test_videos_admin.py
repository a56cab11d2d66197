"""`mediamill videos`: looking at videos, following them, trying again, the trash; by the command as it is typed."""

from __future__ import annotations

import asyncio
import json
import signal
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from mediamill.cli.video_files import NAME_BYTES, safe_name
from mediamill.cli.video_screen import draw_progress, length
from mediamill.db.connection import Database
from mediamill.videos.model import video_folder
from tests.cli.conftest import Mediamill, finish_process, start_process
from tests.conftest import wait_until
from tests.videos.played import Ground, keep_stream, play_captions, play_worker, result_of, stream_of

PART = {"state": "in_progress", "segments_total": 46, "segments_done": 11, "percent": 24.0}


@pytest.fixture
def ground(database: Database, tmp_path: Path) -> Ground:
    """The worker's side of the same database and data folder."""
    return Ground.on(database, tmp_path / "data")


@pytest.mark.spec("V14")
async def test_an_empty_list_says_what_to_do(mediamill: Mediamill) -> None:
    assert "mediamill videos upload FILE" in (await mediamill("videos", "list")).out
    assert "the trash is empty" in (await mediamill("videos", "list", "--trash")).out
    assert "no such videos" in (await mediamill("videos", "list", "--state", "failed")).out


@pytest.mark.spec("V13", "V14")
async def test_the_list_shows_how_each_video_is_and_can_be_filtered(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.ready("The sea", qualities=("720p", "360p"), failed={"480p": "no"})
    await play_captions(ground, ["Look, a dolphin."])
    await ground.add("Broken", category="work")
    (job,) = await ground.claim()
    await ground.fail(job, "the file ends in the middle", permanent=True)
    await ground.add("Birthday")
    (job,) = await ground.claim("gpu-1")
    await ground.report(job, percent=37, parts={"720p": PART})
    lines = (await mediamill("videos", "list")).out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "video",
        "─" * len(lines[1]),
        "birthday",
        "broken",
        "the-sea",
    ]
    assert all(word in lines[2] for word in ("processing", "1 to come", "37 % transcode on gpu-1"))
    assert all(word in lines[3] for word in ("failed", "work", "the file ends in the middle"))
    assert all(word in lines[4] for word in ("ready", "0:10", "720p +1, 1 failed"))
    for words, slugs in (
        (("--state", "failed"), ["broken"]),
        (("--category", "work"), ["broken"]),
        (("-q", "dolphin"), ["the-sea"]),
        (("--limit", "1"), ["birthday"]),
        (("--before", "broken"), ["the-sea"]),
    ):
        found = (await mediamill("videos", "list", *words, "--json")).json
        assert [video["slug"] for video in found] == slugs, words


@pytest.mark.spec("V5", "V14")
async def test_a_video_is_shown_with_the_progress_of_each_quality(
    mediamill: Mediamill, ground: Ground
) -> None:
    video_id = await ground.add("At the sea", description="With a dog.")
    (job,) = await ground.claim()
    await ground.report(job, percent=24, parts={"720p": PART, "360p": {**PART, "state": "pending"}})
    shown = (await mediamill("videos", "show", "at-the-sea")).out
    for word in ("At the sea", "With a dog.", str(video_id), "processing", "11/46", "━━━━╌╌╌╌╌╌╌╌╌╌╌╌"):
        assert word in shown
    told = (await mediamill("videos", "show", video_id, "--json")).json
    assert told["qualities"][0]["segments_done"] == 11
    unknown = await mediamill("videos", "show", "nothing")
    assert (unknown.code, "there is no video 'nothing'" in unknown.err) == (1, True)
    assert "mediamill videos list" in unknown.err


@pytest.mark.spec("V14")
async def test_what_a_stranger_named_does_not_steer_the_terminal(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.add("red \x9b31m title", source_name="\x1b]0;owned\x07.mp4", category="\x9bA")
    for words in (("list",), ("show", "red-31m-title")):
        said = (await mediamill("videos", *words)).out
        assert not {"\x1b", "\x9b", "\x07"} & set(said)


@pytest.mark.spec("V14")
async def test_a_video_is_followed_until_it_is_ready(ground: Ground, new_url: str) -> None:
    video_id = await ground.add("Sea")
    words = ("videos", "show", "sea", "--follow", "--json")
    process = start_process(*words, MEDIAMILL_DATABASE_URL=new_url)
    assert process.stdout is not None
    assert json.loads(await asyncio.to_thread(process.stdout.readline))["state"] == "pending"
    (job,) = await ground.claim()
    await ground.report(job, percent=50, parts={"360p": PART})
    while (seen := json.loads(await asyncio.to_thread(process.stdout.readline)))["percent"] != 50:
        assert seen["state"] in ("pending", "processing")
    assert seen["qualities"][0]["segments_done"] == 11
    await keep_stream(ground, job, stream_of())
    await ground.finish(job, result_of())
    said = await asyncio.to_thread(finish_process, process)
    last = json.loads(said.out.splitlines()[-1])
    assert (said.code, last["id"], last["state"]) == (0, str(video_id), "ready")


@pytest.mark.spec("V14")
async def test_following_one_that_has_ended_tells_how(mediamill: Mediamill, ground: Ground) -> None:
    await ground.ready("Good", qualities=("720p", "360p"))
    await ground.add("Bad")
    (job,) = await ground.claim()
    await ground.fail(job, "the file ends in the middle", permanent=True)
    good, bad = await mediamill("videos", "watch", "good"), await mediamill("videos", "watch", "bad")
    assert (good.code, "Good is ready: 0:10, 720p, 360p" in good.out) == (0, True)
    assert (bad.code, "Bad failed: the file ends in the middle" in bad.out) == (1, True)
    assert "mediamill videos retry bad" in bad.out


@pytest.mark.spec("E31", "V14")
async def test_scripts_are_told_of_each_change_of_any_video(ground: Ground, new_url: str) -> None:
    process = start_process("videos", "watch", "--json", MEDIAMILL_DATABASE_URL=new_url)
    assert process.stdout is not None
    try:
        reading = asyncio.create_task(asyncio.to_thread(process.stdout.readline))
        while not reading.done():  # it begins to listen at some time
            await ground.add("Sea")
            await asyncio.wait([reading], timeout=0.5)
        assert json.loads(reading.result())["topic"] == "video.changed"
        (job,) = await ground.claim()
        await ground.report(job, percent=50, parts={"360p": PART})
        while (told := json.loads(await asyncio.to_thread(process.stdout.readline)))[
            "topic"
        ] != "job.progress":
            assert told["topic"] == "video.changed"
        assert told["subject"] == job.subject_id
        assert told["data"]["parts"]["360p"]["segments_done"] == 11
    finally:
        process.send_signal(signal.SIGINT)
    assert (await asyncio.to_thread(finish_process, process)).code == 130


@pytest.mark.spec("V5", "V14")
def test_the_live_picture_shows_the_steps_and_a_bar_for_each_quality() -> None:
    rows = [
        {"quality": "720p", "state": "in_progress", "percent": 50.0, "segments_done": 23, "error": None},
        {"quality": "360p", "state": "failed", "percent": 0.0, "segments_done": 0, "error": "no memory"},
    ]
    nothing = dict.fromkeys(
        ("width", "height", "bytes", "bitrate", "codecs", "started_at", "ended_at", "worker_name")
    )
    video = {
        "title": "Sea",
        "state": "processing",
        "job_state": "running",
        "worker_name": "gpu-1",
        "step": "transcode",
        "percent": 25.0,
        "error": None,
        "qualities": [
            {**nothing, "quality": "720p", "state": "completed", "segments_total": 9, "segments_done": 9}
        ],
        "next_qualities": [{**nothing, "segments_total": 46, **row} for row in rows],
    }
    screen = Console(width=120, record=True, file=StringIO())
    screen.print(draw_progress(video))
    lines = screen.export_text().splitlines()
    assert lines[0].split() == ["Sea", "processing", "on", "gpu-1"]
    assert lines[1].startswith("━" * 10 + "╌" * 30)
    assert "probe · thumbnail · transcode · master playlist · finalize" in lines[1]
    assert all(word in lines[4] for word in ("720p", "in progress", "━" * 8 + "╌" * 8, "23/46"))
    assert all(word in lines[5] for word in ("360p", "failed", "no memory"))


@pytest.mark.spec("V14")
async def test_what_is_named_is_edited(mediamill: Mediamill, ground: Ground) -> None:
    await ground.add("Old", category="a")
    assert "nothing is to be changed" in (await mediamill("videos", "edit", "old")).err
    words = ("--title", "New", "--slug", "a-new-one")
    video = (await mediamill("videos", "edit", "old", *words, "--json")).json
    assert (video["title"], video["slug"], video["category"]) == ("New", "a-new-one", "a")
    assert (await mediamill("videos", "edit", "a-new-one", "--slug", "No!")).code == 1


@pytest.mark.spec("V2", "V10", "V14", "V17")
async def test_videos_are_tried_again_and_made_anew_and_each_refusal_is_told(
    mediamill: Mediamill, ground: Ground
) -> None:
    sea = await ground.ready("Sea", qualities=("720p", "360p"), audio=False)
    await ground.add("Bad")
    (job,) = await ground.claim()
    await ground.fail(job, "no", permanent=True)
    said = await mediamill("videos", "retry", "bad", "sea", "nothing")
    assert (said.code, "1 video queued again: bad" in said.out) == (1, True)
    assert "sea: Nothing of this video failed." in said.err
    assert "nothing: there is no video" in said.err
    await ground.run("delete from jobs")
    said = await mediamill("videos", "retranscode", "sea", "-q", "720p", "--json")
    assert said.json == {"done": ["sea"], "refused": []}
    assert "plays while a retranscode waits" in (await mediamill("videos", "list")).out
    assert "makes 720p anew" in (await mediamill("videos", "show", "sea")).out
    assert (await mediamill("videos", "show", "sea", "--json")).json["priority"] == "low"
    assert "1 video at high priority: sea" in (await mediamill("videos", "priority", "high", "sea")).out
    assert (await mediamill("videos", "show", "sea", "--json")).json["priority"] == "high"
    await play_worker(ground, sea, ("720p",), audio=False, salt="new")
    said = await mediamill("videos", "retranscode", "sea", "-q", "8k")
    assert "there are 2160p, 1440p" in said.err


@pytest.mark.spec("V14")
async def test_to_the_trash_and_back_and_gone(mediamill: Mediamill, ground: Ground) -> None:
    sea = await ground.ready("Sea")
    await ground.ready("Sand")
    assert (await mediamill("videos", "erase", "sea", "--yes")).code == 1  # not in the trash
    assert "2 videos in the trash: sea, sand" in (await mediamill("videos", "delete", "sea", "sand")).out
    assert "mediamill videos restore" in (await mediamill("videos", "watch", "sea")).out
    assert len((await mediamill("videos", "list", "--trash", "--json")).json) == 2
    assert (await mediamill("videos", "restore", "sand", "--json")).json["done"] == ["sand"]
    asked = await mediamill("videos", "erase", "sea")
    assert (asked.code, "add --yes" in asked.err) == (1, True)
    assert (await mediamill("videos", "erase", "sea", "--yes")).code == 0
    folder = ground.data / video_folder(sea)

    async def gone() -> bool:
        return not folder.exists()

    await wait_until(gone)
    await mediamill("videos", "delete", "sand")
    assert (await mediamill("videos", "empty-trash", "--yes", "--json")).json == {"erased": 1}
    assert (await mediamill("videos", "list", "--trash", "--json")).json == []


@pytest.mark.spec("V13", "V14")
async def test_the_transcript_is_printed_with_times_or_as_captions(
    mediamill: Mediamill, ground: Ground
) -> None:
    await ground.ready("Sea")
    assert "still being written down" in (await mediamill("videos", "transcript", "sea")).err
    await play_captions(ground, ["Hello sea.", "Hello sand."])
    said = (await mediamill("videos", "transcript", "sea")).out
    assert said == "0:00  Hello sea.\n0:02  Hello sand.\n"
    assert (await mediamill("videos", "transcript", "sea", "--vtt")).out.startswith("WEBVTT\n")
    assert (await mediamill("videos", "transcript", "sea", "--json")).json["segments"][1][
        "text"
    ] == "Hello sand."


@pytest.mark.spec("V14")
async def test_the_source_is_downloaded_and_nothing_is_overwritten_unasked(
    mediamill: Mediamill, ground: Ground, tmp_path: Path
) -> None:
    source = bytes(range(256)) * 100
    video_id = await ground.add("Sea", source=source, source_name="../../.sea\n.mp4")
    target = tmp_path / "sea_.mp4"
    said = (await mediamill("videos", "download", "sea", "--to", tmp_path, "--json")).json
    assert said == {"path": str(target), "bytes": len(source)}
    assert target.read_bytes() == source
    target.write_bytes(b"mine")
    refused = await mediamill("videos", "download", "sea", "--to", tmp_path)
    assert (refused.code, "--force" in refused.err, target.read_bytes()) == (1, True, b"mine")
    assert (await mediamill("videos", "download", "sea", "--to", tmp_path, "--force")).code == 0
    assert target.read_bytes() == source
    assert not (tmp_path / f".{target.name}.part").exists()
    ((ground.data / video_folder(video_id)) / "source").unlink()
    gone = await mediamill("videos", "download", "sea", "--to", tmp_path / "other")
    assert (gone.code, "run this where the server runs" in gone.err) == (1, True)


@given(st.text(max_size=300))
def test_no_name_of_a_stranger_leads_out_of_the_folder(name: str) -> None:
    safe = safe_name(name, "video.mp4")
    assert Path(safe).name == safe
    assert safe[0] not in ".-"
    assert safe.isprintable()
    assert len(safe.encode(errors="surrogatepass")) <= NAME_BYTES


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (3723, "1:02:03")]
)
def test_lengths_are_told_as_players_tell_them(seconds: float | None, text: str) -> None:
    assert length(seconds) == text

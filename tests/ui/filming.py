"""Videos for the page tests: a short clip with sound, encoded once by the real encoder, and a list with all states."""

from __future__ import annotations

import fcntl
import pickle
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from uuid import UUID

import av
import numpy as np
from PIL import Image
from playwright.async_api import Page

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.transcode.processor import TranscodeProcessor
from tests.videos.played import Files, Ground, keep_stream, play_captions

PHOTO = Path(__file__).parents[2] / "samples" / "photo.jpg"
RATE, FPS = 48_000, 10
SECONDS = 16
FAST = {"preset": "ultrafast", "g": str(FPS)}  # a picture for seeking needs a keyframe
SAID = (
    "Good morning, and welcome to the harbour.",
    "The boats went out before sunrise today.",
    "Behind the old wall there is a market, and you can hear it from here.",
    "Fresh bread, oranges, and far too many cats.",
    "We walked up the hill for the view.",
    "From up there the whole bay looks like a map.",
    "This is the part that everybody takes a picture of.",
    "And that was our day. Goodbye!",
)


@dataclass(frozen=True, slots=True)
class Film:
    """An encoded clip."""

    source: bytes
    files: Files
    result: Mapping[str, Any]


films: list[Path] = []  # the folder in which the processes of a test run share them, once it is known


@cache
def film(width: int = 1280, height: int = 720) -> Film:
    """The clip and its stream, made when it is first asked for, by whichever process of the test run that is."""
    (place,) = films
    kept = place / f"film-{width}.pickle"
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            whole = kept.with_suffix(".part")
            whole.write_bytes(pickle.dumps(_make_film(width, height)))
            whole.rename(kept)
        made = pickle.loads(kept.read_bytes())
    assert isinstance(made, Film)
    return made


def _make_film(width: int, height: int) -> Film:
    folder = Path(mkdtemp(prefix="mediamill-film-"))
    try:
        source = make_clip(folder / "clip.mp4", width, height)
        return _encode(source, folder)
    finally:
        shutil.rmtree(folder)


def make_clip(path: Path, width: int = 1280, height: int = 720, seconds: int = SECONDS) -> Path:
    """A slow walk over a photo, with another light every two seconds, and a quiet tone."""
    with av.open(str(path), "w", format="mp4") as out:
        pictures = out.add_stream("libx264", rate=FPS, options=FAST)
        pictures.width, pictures.height, pictures.pix_fmt = width, height, "yuv420p"
        sound = out.add_stream("aac", rate=RATE, layout="mono")
        for frame in _walk(width, height, seconds):
            out.mux(pictures.encode(frame))
        out.mux(pictures.encode(None))
        for start in range(0, seconds * RATE, 1024):
            wave = 0.1 * np.sin(np.arange(start, start + 1024) / 30)
            samples = av.AudioFrame.from_ndarray(wave.astype(np.float32)[None, :], "fltp", "mono")
            samples.sample_rate, samples.pts = RATE, start
            out.mux(sound.encode(samples))
        out.mux(sound.encode(None))
    return path


def _walk(width: int, height: int, seconds: int) -> Iterator[av.VideoFrame]:
    photo = np.asarray(Image.open(PHOTO).convert("RGB").resize((width + 400, height + 240)))
    lights = [(photo * np.array(light)).astype(np.uint8) for light in ((0.86, 0.95, 1), (1, 0.82, 0.66))]
    for number in range(seconds * FPS):
        share = number / (seconds * FPS)
        x, y = int(400 * share), int(240 * (0.5 + 0.5 * np.sin(6 * share)))
        picture = lights[number // (2 * FPS) % 2][y : y + height, x : x + width]
        frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        frame.pts = number
        yield frame


def _encode(source: Path, folder: Path) -> Film:
    scratch = folder / "scratch"
    scratch.mkdir()
    files: Files = {}

    def keep(name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None:
        files[name] = ((scratch / path).read_bytes(), dict(facts or {}))

    given = ProcessorInput(
        payload={"preset": "ultrafast", "segment_seconds": 2},
        mime_type="video/mp4",
        file=source,
        folder=scratch,
        checkpoint=None,
        attempt=1,
        report=lambda *_, **__: None,
        keep=keep,
    )
    result = TranscodeProcessor((), 600).process(given).result
    return Film(source.read_bytes(), files, result)


async def show_film(
    ground: Ground,
    title: str = "A morning at the harbour",
    *,
    captions: bool = True,
    size: tuple[int, int] = (1280, 720),
    **more: Any,
) -> UUID:
    """A video that is ready and really plays."""
    made = film(*size)
    video_id = await ground.add(title, made.source, **more)
    (job,) = await ground.claim()
    assert job.subject_id == str(video_id)
    await keep_stream(ground, job, made.files)
    settled = await ground.finish(job, made.result)
    assert settled.done == {job.id}, settled
    if captions:
        await play_captions(ground, SAID)
    else:
        await ground.run("delete from jobs where kind = 'video.transcribe'")
    return video_id


async def fill_videos(ground: Ground) -> dict[str, UUID]:
    """One in each state, and a long title."""
    ids = {
        "ready": await show_film(
            ground, category="Travel", description="From the pier to the hill, and back."
        ),
        "tall": await show_film(
            ground, "The cat on the stairs", size=(406, 720), captions=False, category="Family"
        ),
    }
    long = "A title that goes on and on, since nobody told its author that two lines are quite enough for a title"
    ids["failed"] = await ground.add(long, category="Family")
    (job,) = await ground.claim()
    await ground.fail(
        job, "the file ends in the middle of a picture, after 0.4 of 62.1 seconds", permanent=True
    )
    ids["processing"] = await ground.add("Birthday, uncut", category="Family")
    (job,) = await ground.claim("gpu-box")
    await ground.report(job, percent=47.0, parts=some_parts())
    ids["pending"] = await ground.add("Grandmother tells of the war")
    return ids


def some_parts(percent: float = 62.5) -> dict[str, Any]:
    """What a worker in the middle of things tells of each quality."""
    total = 40
    return {
        "1080p": _part("in_progress", total, percent),
        "720p": _part("completed", total, 100),
        "480p": _part("in_progress", total, 30),
        "360p": _part("pending", total, 0),
    }


def _part(state: str, total: int, percent: float) -> dict[str, Any]:
    done = int(total * percent / 100)
    return {"state": state, "segments_total": total, "segments_done": done, "percent": percent, "error": None}


MEBIBYTE = 1024**2


def large_clip(folder: Path, mebibytes: int = 40, name: str = "my_holiday.mp4") -> Path:
    """A clip with so much behind it that it comes in several chunks: a box that players skip."""
    path = make_clip(folder / name, 320, 180, seconds=1)
    size = mebibytes * MEBIBYTE
    with path.open("ab") as file:
        file.write(size.to_bytes(4, "big") + b"free")
        file.truncate(file.tell() + size - 8)
    return path


async def slow_down(page: Page, bytes_per_second: int) -> None:
    """A poor line."""
    session = await page.context.new_cdp_session(page)
    rates = {"downloadThroughput": -1, "uploadThroughput": bytes_per_second, "latency": 5}
    await session.send("Network.emulateNetworkConditions", {"offline": False, **rates})

"""Videos of libraries: poster, thumbnail, head clip and scenes from one decode of a source that is opened once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import pytest
from PIL import Image

from mediamill.media.errors import DamagedMediaError, UnsupportedMediaError
from mediamill.media.frames import Footage, NoPictureError
from mediamill.processors.video.scenes import SceneFinder, SceneRules
from tests.media.clips import FPS, encode, pan, still
from tests.media.making import make_film
from tests.processors.library.homes import Crash, Home
from tests.processors.library.watched import count_opens, moves_access_time
from tests.processors.transcode.odd_clips import again, film, pictures, sound

pytestmark = pytest.mark.spec("L5")

OPENING = ["clip.mp4", "preview.webp", "thumbnail.jpg"]


def shots(count: int = 3, seconds: float = 4) -> Any:
    return chain.from_iterable(pan(seed, seconds, 4.0) for seed in range(count))


def size_of(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        return image.size


def clip_facts(home: Home) -> dict[str, Any]:
    """What the head clip holds, decoded to its end."""
    with av.open(str(home.folder / "clip.mp4")) as clip:
        video = clip.streams.video[0]
        times = [frame.time for frame in clip.decode(video)]
    with av.open(str(home.folder / "clip.mp4")) as clip:
        heard = [frame for stream in clip.streams.audio for frame in clip.decode(stream)]
        return {
            "codec": video.codec_context.codec.canonical_name,
            "size": (video.width, video.height),
            "frames": len(times),
            "ends": times[-1],
            "sound": [stream.codec_context.codec.canonical_name for stream in clip.streams.audio],
            "heard_seconds": sum(frame.samples / frame.sample_rate for frame in heard),
            "loud": max((float(np.abs(frame.to_ndarray()).max()) for frame in heard), default=0.0),
        }


def test_a_video_gets_poster_thumbnail_clip_and_scenes(tmp_path: Path) -> None:
    home = Home(tmp_path / "kept")
    result = home.attempt(encode(tmp_path / "a.mp4", shots()), mode="scenes")

    assert home.names() == [
        *OPENING[:2],
        *(f"scene-0000{number}.jpg" for number in (1, 2, 3)),
        "thumbnail.jpg",
    ]
    assert (result["width"], result["height"], result["frame_rate"]) == (192, 108, FPS)
    assert result["duration_seconds"] == pytest.approx(12.0, abs=0.01)
    assert result["digest"] == sha256((home.folder / "preview.webp").read_bytes()).hexdigest()
    assert (result["scene_count"], result["frames"], result["warnings"]) == (3, [], [])
    assert size_of(home.folder / "preview.webp") == (192, 108)
    clip = clip_facts(home)
    assert (clip["codec"], clip["size"], clip["frames"], clip["sound"]) == ("h264", (192, 108), 10 * FPS, [])
    data = (home.folder / "clip.mp4").read_bytes()
    assert data.index(b"moov") < data.index(b"mdat"), "it does not play before all of it is there"


@pytest.mark.spec("L6", "L8")
def test_the_scenes_are_those_of_the_finder_and_their_pictures_show_the_best_frame(tmp_path: Path) -> None:
    source = encode(tmp_path / "a.mp4", shots(4, 5))
    home = Home(tmp_path / "kept")
    result = home.attempt(source)

    finder = SceneFinder()
    with Footage(source) as footage:
        expected = [scene for glance in footage.glances() for scene in finder.feed(glance)]
        expected += finder.finish(20.0)
        best = [footage.picture_at(scene.best_seconds, 768) for scene in expected]
    assert result["segmentation_version"] == SceneRules().segmentation_version
    told = [home.scenes[number] for number in sorted(home.scenes)]
    assert [
        (one["start_seconds"], one["end_seconds"], one["sharpness"], one["keep_reason"]) for one in told
    ] == [(one.start_seconds, one.end_seconds, one.sharpness, one.keep_reason) for one in expected]
    assert all(before["end_seconds"] == after["start_seconds"] for before, after in pairwise(told))
    for one, picture in zip(told, best, strict=True):
        assert picture is not None
        with Image.open(home.folder / one["file"]) as image:
            difference = np.abs(np.asarray(image, int) - picture.pixels.astype(int)).mean()
        assert difference < 4, one
        assert one["best_seconds"] - one["start_seconds"] >= 2 / FPS - 1e-6, (
            "the first two frames are left out"
        )


@pytest.mark.spec("L6", "L9")
@pytest.mark.parametrize(("limit", "count"), [(100, 4), (3, 2), (1, 1)])
def test_a_video_has_no_more_scenes_than_its_limit_and_none_for_cuts_close_together(
    tmp_path: Path, limit: int, count: int
) -> None:
    cuts = [1.0, 1.0, 1.0, 4.0, 1.0, 3.0, 4.0]
    source = encode(
        tmp_path / "a.mp4", chain.from_iterable(pan(seed, length, 4.0) for seed, length in enumerate(cuts))
    )
    home = Home(tmp_path / "kept")

    result = home.attempt(source, sampling_limit=limit)

    assert result["scene_count"] == len(home.scenes) == count
    assert len([name for name in home.names() if name.startswith("scene-")]) == count
    told = [home.scenes[number] for number in sorted(home.scenes)]
    assert (told[0]["start_seconds"], told[-1]["end_seconds"]) == (0.0, pytest.approx(15.0, abs=0.1))
    assert all(before["end_seconds"] == after["start_seconds"] for before, after in pairwise(told))
    assert all(one["start_seconds"] <= one["best_seconds"] < one["end_seconds"] for one in told)


def test_sound_is_in_the_clip_and_ends_with_it(tmp_path: Path) -> None:
    source = film(
        tmp_path / "a.mp4", "-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac",
        video=pictures("320x180", seconds=14), audio=sound(14),
    )  # fmt: skip
    home = Home(tmp_path / "kept")
    home.attempt(source)
    clip = clip_facts(home)
    assert clip["sound"] == ["aac"]
    assert clip["heard_seconds"] == pytest.approx(10.0, abs=0.1)
    assert clip["ends"] == pytest.approx(10.0, abs=0.1)
    assert clip["loud"] > 0.05


def test_a_large_video_has_a_clip_of_720p_and_pictures_of_768(tmp_path: Path) -> None:
    source = film(
        tmp_path / "a.mp4", "-c:v", "libx264", "-preset", "ultrafast",
        video=pictures("2000x1124", seconds=1), audio=[],
    )  # fmt: skip
    home = Home(tmp_path / "kept")
    result = home.attempt(source)
    assert (result["width"], result["height"]) == (2000, 1124)
    assert clip_facts(home)["size"] == (1280, 720)
    for name, width in (("preview.webp", 768), ("scene-00001.jpg", 768), ("thumbnail.jpg", 320)):
        assert size_of(home.folder / name)[0] == width


def test_a_turned_video_is_upright_everywhere(tmp_path: Path) -> None:
    home = Home(tmp_path / "kept")
    result = home.attempt(make_film(tmp_path / "a.mp4", "mp4", "libx264", seconds=2, turned=90))
    assert (result["width"], result["height"], result["facts"]["rotation"]) == (48, 64, 270)
    assert clip_facts(home)["size"] == (48, 64)
    assert {size_of(home.folder / name) for name in ("preview.webp", "thumbnail.jpg", "scene-00001.jpg")} == {
        (48, 64)
    }


def test_hdr_is_shown_as_sdr(tmp_path: Path) -> None:
    hdr = ["-pix_fmt", "yuv420p10le", "-color_trc", "smpte2084", "-color_primaries", "bt2020", "-colorspace"]
    source = film(
        tmp_path / "a.mp4", "-c:v", "libx265", "-preset", "ultrafast", *hdr, "bt2020nc", "-x265-params",
        "log-level=none", video=pictures("320x180", seconds=1), audio=[],
    )  # fmt: skip
    home = Home(tmp_path / "kept")
    result = home.attempt(source)
    assert result["facts"]["hdr"] is True
    with av.open(str(home.folder / "clip.mp4")) as clip:
        assert (clip.streams.video[0].pix_fmt, clip.streams.video[0].color_trc) == ("yuv420p", 1)


@pytest.mark.parametrize("frames", [1, 2, 7])
def test_a_video_of_a_few_frames_is_one_scene(tmp_path: Path, frames: int) -> None:
    home = Home(tmp_path / "kept")
    result = home.attempt(encode(tmp_path / "a.mp4", still(1, frames / FPS)))
    assert (result["scene_count"], home.scenes[1]["keep_reason"]) == (1, "forced")
    assert home.scenes[1]["end_seconds"] == pytest.approx(frames / FPS, abs=0.01)
    assert clip_facts(home)["frames"] == frames
    assert home.names() == [*OPENING[:2], "scene-00001.jpg", "thumbnail.jpg"]


def test_frames_that_come_irregularly_keep_their_times(tmp_path: Path) -> None:
    source = encode(tmp_path / "even.mp4", shots(2, 3))
    odd = again(
        tmp_path / "odd.mkv",
        source,
        "-vf",
        "setpts='PTS+0.4*mod(N,3)/12/TB'",
        "-fps_mode",
        "vfr",
        "-c:v",
        "libx264",
    )
    home = Home(tmp_path / "kept")
    assert home.attempt(odd)["scene_count"] == 2
    assert home.scenes[1]["end_seconds"] == pytest.approx(3.0, abs=0.1)


@pytest.mark.parametrize("size", ["321x179", "2x2", "1922x6"])
def test_odd_sizes_have_a_clip_too(tmp_path: Path, size: str) -> None:
    source = film(
        tmp_path / "a.mkv", "-c:v", "ffv1", "-pix_fmt", "yuv444p", video=pictures(size, seconds=0.4), audio=[]
    )
    home = Home(tmp_path / "kept")
    result = home.attempt(source)
    assert (result["width"], result["height"]) == tuple(map(int, size.split("x")))
    assert result["warnings"] == []
    assert clip_facts(home)["frames"] == 10


def test_a_torn_video_is_kept_up_to_the_tear_with_a_warning(tmp_path: Path) -> None:
    whole = encode(tmp_path / "whole.mkv", shots()).read_bytes()
    (tmp_path / "torn.mkv").write_bytes(whole[: len(whole) * 6 // 10])
    home = Home(tmp_path / "kept")
    result = home.attempt(tmp_path / "torn.mkv")
    assert 4 < result["duration_seconds"] < 11
    assert home.scenes[max(home.scenes)]["end_seconds"] == pytest.approx(result["duration_seconds"], abs=0.1)
    assert any("ends at" in text or "torn at" in text for text in result["warnings"])


def test_what_has_no_pictures_is_refused_for_good_with_the_reason(tmp_path: Path) -> None:
    home = Home(tmp_path / "kept")
    with pytest.raises(NoPictureError, match="only sound"):
        home.attempt(make_film(tmp_path / "a.mp4", "mp4", None, "aac"))
    Image.new("RGB", (8, 8)).save(tmp_path / "b.mp4", "PNG")
    with pytest.raises(UnsupportedMediaError, match="image/png"):
        home.attempt(tmp_path / "b.mp4")
    (tmp_path / "c.mp4").write_bytes(make_film(tmp_path / "d", "mp4", "libx264").read_bytes()[:200])
    with pytest.raises(DamagedMediaError):
        home.attempt(tmp_path / "c.mp4")


@pytest.mark.spec("L3")
def test_a_program_in_typescript_is_no_damaged_video(tmp_path: Path) -> None:
    home = Home(tmp_path / "kept")
    program, empty = tmp_path / "main.TS", tmp_path / "empty.mts"
    program.write_text("export const answer: number = 42\n")
    empty.touch()
    for path in (program, empty):
        assert home.attempt(path, file={"inside": f"src/{path.name}"}) == {"is_video": False}
    stream = encode(tmp_path / "a.ts", still(1, 1))
    assert home.attempt(stream, file={"inside": "a.ts"})["scene_count"] == 1
    with pytest.raises(UnsupportedMediaError):
        home.attempt(program, file={"inside": "main.mp4"})


def test_when_it_was_taken_is_told_with_the_zone(tmp_path: Path) -> None:
    tags = {"creation_time": "2023-04-05T06:07:08.000000Z"}
    home = Home(tmp_path / "kept")
    result = home.attempt(make_film(tmp_path / "a.mp4", "mp4", "libx264", tags=tags))
    assert result["taken_at"] == "2023-04-05T06:07:08+00:00"
    assert result["facts"]["taken_from"] == "container_utc"
    zero = {"creation_time": "1970-01-01T00:00:00.000000Z"}
    assert home.attempt(make_film(tmp_path / "b.mp4", "mp4", "libx264", tags=zero))["taken_at"] is None


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts", "avi"])
def test_the_source_is_opened_once(tmp_path: Path, suffix: str) -> None:
    assert count_opens("library-video", encode(tmp_path / f"a.{suffix}", shots()), tmp_path / "out") == 1


@pytest.mark.spec("L3")
def test_the_source_keeps_its_times(tmp_path: Path) -> None:
    if not moves_access_time(tmp_path / "probe"):
        pytest.skip("this file system does not note who reads")
    source = encode(tmp_path / "a.mp4", shots(1, 2))
    os.utime(source, ns=(1_000_000_000, 2_000_000_000))
    before = source.stat()
    Home(tmp_path / "kept").attempt(source)
    assert source.stat() == before


def sampled(home: Home, result: Mapping[str, Any]) -> list[int]:
    for one in result["frames"]:
        assert one["file"] == f"frame-{one['timestamp_ms']:09}.jpg"
        assert size_of(home.folder / one["file"]) == (192, 108)
    return [one["timestamp_ms"] for one in result["frames"]]


@pytest.mark.spec("L9")
def test_windows_give_a_frame_each_and_no_scenes(tmp_path: Path) -> None:
    source = encode(tmp_path / "a.mp4", shots(4, 5), gop=60, options={"sc_threshold": "0", "bf": "0"})
    home = Home(tmp_path / "kept")
    result = home.attempt(source, mode="windows", sampling_limit=4)
    assert sampled(home, result) == [0, 5000, 10000, 15000]
    assert [one["is_keyframe"] for one in result["frames"]] == [True] * 4
    assert (result["scene_count"], result["segmentation_version"], home.scenes) == (0, None, {})
    assert set(OPENING) <= set(home.names())
    assert result["duration_seconds"] == pytest.approx(20.0, abs=0.01)


@pytest.mark.spec("L9")
def test_of_several_keyframes_the_picture_is_that_of_the_chosen_one(tmp_path: Path) -> None:
    images = chain(still(1, 1), still(2, 3), still(1, 1), still(2, 1))
    source = encode(tmp_path / "a.mp4", images, gop=FPS, options={"sc_threshold": "0"})
    home = Home(tmp_path / "kept")
    (at,) = sampled(home, home.attempt(source, mode="windows", sampling_limit=1))
    with Footage(source) as footage, Image.open(home.folder / f"frame-{at:09}.jpg") as image:
        picture = footage.picture_at(at / 1000, 768)
        assert picture is not None
        assert cv2.absdiff(np.asarray(image), picture.pixels).mean() < 4


@pytest.mark.spec("L9")
def test_windows_that_are_done_are_not_sampled_again(tmp_path: Path) -> None:
    source = encode(tmp_path / "a.mp4", shots(4, 5), gop=60, options={"sc_threshold": "0", "bf": "0"})
    whole = Home(tmp_path / "whole")
    expected = whole.attempt(source, mode="windows", sampling_limit=4)
    home = Home(tmp_path / "kept")
    for crash_at in (1, 2, 3, 2):
        with pytest.raises(Crash):
            home.attempt(source, crash_at=crash_at, mode="windows", sampling_limit=4)
    before = set(home.facts)
    assert home.attempt(source, mode="windows", sampling_limit=4) == expected
    assert not before & set(home.kept)
    assert home.names() == whole.names()

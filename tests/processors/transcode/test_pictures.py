"""Poster, thumbnail and pictures for seeking, from real little videos."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import pyvips
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mediamill.media.errors import MediaError
from mediamill.media.probe import probe
from mediamill.media.seek_track import Preview, read_seek_track
from mediamill.processors.transcode.pictures import interval_for, make_pictures
from mediamill.processors.transcode.tone import nits_to_pq
from tests.media.clips import FPS, HEIGHT, WIDTH, encode, pan, still, texture, view
from tests.media.making import make_film

pytestmark = pytest.mark.spec("V4", "V12")

BLACK = np.zeros((HEIGHT, WIDTH, 3), np.uint8)


def pictures_of(path: Path) -> tuple[list[str], Path]:
    folder = path.parent / "out"
    folder.mkdir()
    return make_pictures(path, folder, probe(path)), folder


def load(path: Path) -> NDArray[np.int16]:
    return np.asarray(pyvips.Image.new_from_file(str(path)).numpy(), np.int16)


def tile(folder: Path, preview: Preview) -> NDArray[np.int16]:
    sheet = load(folder / preview.sheet)
    return sheet[preview.y : preview.y + preview.height, preview.x : preview.x + preview.width]


def previews(folder: Path) -> list[Preview]:
    return read_seek_track((folder / "seek.vtt").read_text())


def test_a_video_has_a_poster_a_thumbnail_and_pictures_for_seeking(tmp_path: Path) -> None:
    scenes = [still(seed, 3) for seed in (1, 2, 3)]
    names, folder = pictures_of(encode(tmp_path / "a.mp4", itertools.chain(*scenes), gop=FPS))
    assert sorted(names) == ["poster.jpg", "seek.vtt", "sprite-000.jpg", "thumbnail.jpg"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert load(folder / "poster.jpg").shape == (HEIGHT, WIDTH, 3)
    track = previews(folder)
    assert [one.start_ms for one in track] == [second * 1000 for second in range(9)]
    assert [one.end_ms for one in track] == [second * 1000 for second in range(1, 10)]
    assert {(one.width, one.height) for one in track} == {(160, 90)}
    for second, preview in enumerate(track):
        due = pyvips.Image.new_from_array(view(texture(second // 3 + 1), 0, 0)).thumbnail_image(160).numpy()
        assert np.abs(tile(folder, preview) - due.astype(np.int16)).mean() < 12


def test_a_large_video_has_a_smaller_poster(tmp_path: Path) -> None:
    picture = view(texture(5, 1920, 1080), 0, 0, 1920, 1080)
    _, folder = pictures_of(encode(tmp_path / "a.mp4", [picture] * 3))
    assert load(folder / "poster.jpg").shape == (720, 1280, 3)
    assert load(folder / "thumbnail.jpg").shape == (180, 320, 3)


def test_the_poster_is_not_black_and_not_blurred(tmp_path: Path) -> None:
    blurred = np.asarray(pyvips.Image.new_from_array(view(texture(4), 0, 0)).gaussblur(6).numpy(), np.uint8)
    beginning = [BLACK] * (FPS * 2) + [blurred] * FPS
    path = encode(tmp_path / "a.mp4", itertools.chain(beginning, still(4, 1), [BLACK] * (FPS * 8)), gop=FPS)
    _, folder = pictures_of(path)
    poster = load(folder / "poster.jpg")
    assert np.abs(poster - view(texture(4), 0, 0)).mean() < 12


def test_a_video_with_one_black_keyframe_has_a_poster_from_behind_it(tmp_path: Path) -> None:
    path = encode(
        tmp_path / "a.mp4",
        itertools.chain([BLACK] * 6, still(4, 10)),
        gop=1000,
        options={"sc_threshold": "0"},
    )
    names, folder = pictures_of(path)
    assert load(folder / "poster.jpg").mean() > 50
    assert len(previews(folder)) == 1
    assert "seek.vtt" in names


def test_a_video_that_is_black_all_over_has_pictures_all_the_same(tmp_path: Path) -> None:
    names, _ = pictures_of(encode(tmp_path / "a.mp4", [BLACK] * FPS))
    assert "poster.jpg" in names


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_pictures_are_upright(tmp_path: Path, turned: int) -> None:
    """Half of the picture is white; turned, it is white on another side."""
    picture = np.zeros((64, 128, 3), np.uint8)
    picture[:, :64] = 255
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=10)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 128, 64, "yuv420p"
        stream.set_display_rotation(turned)
        for _ in range(20):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24")))
        out.mux(stream.encode(None))
    _, folder = pictures_of(path)
    expected = np.rot90(picture, turned // 90)  # FFmpeg counts against the clock, as NumPy does
    poster = load(folder / "poster.jpg")
    assert poster.shape == expected.shape
    assert np.abs(poster - expected).mean() < 10
    first = tile(folder, previews(folder)[0])
    assert (first.shape[0] > first.shape[1]) == (turned != 180)


def test_long_videos_have_several_sheets(tmp_path: Path) -> None:
    frames = (view(texture(7), number % 90, 0) for number in range(125))
    names, folder = pictures_of(encode(tmp_path / "a.mp4", frames, fps=1, gop=1))
    assert [name for name in names if name.startswith("sprite")] == ["sprite-000.jpg", "sprite-001.jpg"]
    assert load(folder / "sprite-000.jpg").shape == (900, 1600, 3)
    assert load(folder / "sprite-001.jpg").shape == (270, 1600, 3)
    track = previews(folder)
    assert len(track) == 125
    assert (track[100].sheet, track[100].x, track[100].y) == ("sprite-001.jpg", 0, 0)
    assert all(one.end_ms == other.start_ms for one, other in itertools.pairwise(track))
    assert track[-1].end_ms == 125_000


def test_a_video_without_an_index_has_pictures_too(tmp_path: Path) -> None:
    names, folder = pictures_of(encode(tmp_path / "a.ts", pan(3, 6), gop=FPS))
    assert sorted(names) == ["poster.jpg", "seek.vtt", "sprite-000.jpg", "thumbnail.jpg"]
    assert len(previews(folder)) >= 3
    assert load(folder / "poster.jpg").std() > 20


def test_hdr_is_shown_as_sdr(tmp_path: Path) -> None:
    """Grey cards of 26 and 203 nits in PQ: at 0.42 and 0.9 of the signal in SDR, not at 0.38 and 0.58."""
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream(
            "libx265", rate=10, options={"preset": "ultrafast", "x265-params": "log-level=none"}
        )
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 128, 64, "yuv420p10le"
        context = stream.codec_context
        context.color_primaries, context.color_trc, context.colorspace, context.color_range = 9, 16, 9, 1
        for number in range(10):
            out.mux(stream.encode(cards(number)))
        out.mux(stream.encode(None))
    _, folder = pictures_of(path)
    poster = load(folder / "poster.jpg")
    assert poster[:, :56].mean() / 255 == pytest.approx(0.425, abs=0.03)
    assert poster[:, 72:].mean() / 255 == pytest.approx(0.903, abs=0.03)
    assert np.ptp(poster[:, 72:].mean(axis=(0, 1))) < 6


def cards(number: int) -> av.VideoFrame:
    frame = av.VideoFrame(128, 64, "yuv420p10le")
    luma, *chroma = frame.planes
    levels = nits_to_pq(np.array([26.0, 203.0])) * 876 + 64
    rows = np.zeros((64, luma.line_size // 2), "<u2")
    rows[:, :64], rows[:, 64:128] = np.rint(levels)
    luma.update(rows.tobytes())
    for plane in chroma:
        plane.update(np.full(plane.buffer_size // 2, 512, "<u2").tobytes())
    frame.pts, frame.time_base = number, Fraction(1, 10)
    return frame


def test_sound_alone_has_no_pictures(tmp_path: Path) -> None:
    assert pictures_of(make_film(tmp_path / "a.m4a", "ipod", None, "aac"))[0] == []


def test_a_video_of_which_nothing_decodes_is_refused(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", pan(3, 2), gop=FPS)
    facts = probe(path)
    data = path.read_bytes()
    at = data.index(b"mdat") + 4
    path.write_bytes(data[:at] + b"\xff" * (data.index(b"moov") - 4 - at) + data[data.index(b"moov") - 4 :])
    with pytest.raises(MediaError, match="not one picture"):
        make_pictures(path, tmp_path, facts)


def test_a_torn_video_has_pictures_up_to_the_tear(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mkv", pan(3, 10), gop=FPS)
    facts = probe(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    names = make_pictures(path, tmp_path, facts)
    assert {"poster.jpg", "thumbnail.jpg", "seek.vtt"} <= set(names)


def test_what_cannot_be_made_is_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = encode(tmp_path / "a.mp4", pan(3, 2), gop=FPS)
    monkeypatch.setattr("mediamill.processors.transcode.pictures.THUMBNAIL_WIDTH", 0)  # libvips refuses
    warnings: list[str] = []
    assert make_pictures(path, tmp_path, probe(path), warnings.append) == ["sprite-000.jpg", "seek.vtt"]
    assert [warning.split(":")[0] for warning in warnings] == ["there is no poster"]


@given(st.floats(0.01, 400 * 3600))
def test_there_are_never_more_than_400_little_pictures(seconds: float) -> None:
    assert seconds / interval_for(seconds) <= 400

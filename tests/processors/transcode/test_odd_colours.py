"""Colours of odd sources: depth, range, matrix, HDR, RGB, alpha. A player that follows the tags shows them right."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from mediamill.processors.transcode.tone import nits_to_pq
from tests.processors.transcode.checking import (
    SIZES,
    UPRIGHT,
    check,
    check_sync,
)
from tests.processors.transcode.odd_clips import AAC, FAST, SECONDS, again, film, pictures, sound
from tests.processors.transcode.watching import transcode

pytestmark = pytest.mark.spec("V4")

BT709 = (1, 1, 1)


def test_ten_bits(tmp_path: Path) -> None:
    words = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le", *AAC)
    output = transcode(film(tmp_path / "a.mp4", *words))
    check(output, SIZES, SECONDS, sound_seconds=SECONDS)
    assert output.result["hdr"] is False


@pytest.mark.parametrize(
    ("transfer", "signal", "shown"),
    [
        ("smpte2084", float(nits_to_pq(np.array(26.0))), 0.425),
        ("smpte2084", float(nits_to_pq(np.array(203.0))), 0.903),
        ("arib-std-b67", 0.38, 0.426),
        ("arib-std-b67", 0.75, 0.903),
    ],
)
def test_hdr_is_shown_as_sdr(tmp_path: Path, transfer: str, signal: float, shown: float) -> None:
    """A grey of known brightness lands where SDR has it, in every quality, and stays grey."""
    level = round(64 + 876 * signal)
    grey = ["-f", "lavfi", "-i", "color=black:s=856x480:r=25:d=0.6"]
    tags = f"colorprim=bt2020:transfer={transfer}:colormatrix=bt2020nc:range=limited:log-level=error"
    words = (
        *(
            "-vf",
            f"format=yuv420p10le,geq=lum={level}:cb=512:cr=512",
            "-c:v",
            "libx265",
            "-preset",
            "ultrafast",
        ),
        *(
            "-x265-params",
            tags,
            "-color_primaries",
            "bt2020",
            "-color_trc",
            transfer,
            "-colorspace",
            "bt2020nc",
        ),
        *("-tag:v", "hvc1"),
    )
    output = transcode(film(tmp_path / "a.mp4", *words, video=grey, audio=[]))
    assert output.faults() == []
    assert output.result["hdr"] is True
    for track in output.qualities.values():
        seen = track.frames[10]
        assert (seen.format, seen.colours) == ("yuv420p", BT709)
        assert seen.image.mean() / 255 == pytest.approx(shown, abs=0.015)
        assert np.ptp(seen.image.mean(axis=(0, 1))) < 4
        assert track.play() == ""


def test_a_phone_held_upright_that_records_hdr(tmp_path: Path) -> None:
    """HLG, turned: the dark half is above the bright one, in the stream and in the poster."""
    halves = ["-f", "lavfi", "-i", "color=black:s=856x480:r=25:d=0.6"]
    tags = "colorprim=bt2020:transfer=arib-std-b67:colormatrix=bt2020nc:range=limited:log-level=error"
    grey = "format=yuv420p10le,geq=lum='if(lt(X,428),397,721)':cb=512:cr=512"
    words = ("-vf", grey, "-c:v", "libx265", "-preset", "ultrafast", "-x265-params", tags, "-tag:v", "hvc1")
    flat = film(tmp_path / "flat.mov", *words, video=halves, audio=[])
    output = transcode(again(tmp_path / "a.mov", flat, before=("-display_rotation", "-90")))
    with av.open(str(output.folder / "poster.jpg")) as poster:
        images = [next(poster.decode(video=0)).to_ndarray(format="rgb24")]
    images += [track.frames[10].image for track in output.qualities.values()]
    for image in images:
        height, width = image.shape[:2]
        assert (height, width) in [(856, 480), (642, 360)]
        assert image[: height // 2 - 20].mean() / 255 == pytest.approx(0.426, abs=0.02)
        assert image[height // 2 + 20 :].mean() / 255 == pytest.approx(0.903, abs=0.02)


@pytest.mark.parametrize("size", ["856x480", "1280x720"])
@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "full.mp4",
            (
                "-vf",
                "scale=out_range=pc:out_color_matrix=bt709",
                *FAST[:4],
                "-pix_fmt",
                "yuvj420p",
                "-colorspace",
                "bt709",
            ),
        ),
        ("camera.avi", ("-vf", "scale=out_range=pc", "-c:v", "mjpeg", "-q:v", "2", "-pix_fmt", "yuvj422p")),
        ("palette.gif", ("-vf", "format=rgb24,split[a][b];[a]palettegen[p];[b][p]paletteuse=dither=none")),
        ("rgb.mkv", ("-c:v", "libx264rgb", "-preset", "ultrafast")),
        (
            "hd.mp4",
            (
                "-vf",
                "scale=out_color_matrix=bt709",
                *FAST,
                "-colorspace",
                "bt709",
                "-color_primaries",
                "bt709",
            ),
        ),
        ("sd.mp4", ("-vf", "scale=out_color_matrix=bt601", *FAST, "-colorspace", "smpte170m")),
    ],
)
def test_colours_and_ranges(tmp_path: Path, size: str, name: str, words: tuple[str, ...]) -> None:
    """Whatever the matrix and the range, a player that follows the tags shows the same colours."""
    output = transcode(film(tmp_path / name, *words, video=pictures(size, seconds=0.4), audio=[]))
    assert output.faults() == []
    for track in output.qualities.values():
        assert track.frames[5].corners() == UPRIGHT
        assert track.frames[5].format == "yuv420p"


def test_a_turned_video_in_rgb(tmp_path: Path) -> None:
    flat = film(
        tmp_path / "flat.mov", "-c:v", "qtrle", "-pix_fmt", "rgb24", video=pictures(seconds=1), audio=[]
    )
    output = transcode(again(tmp_path / "a.mov", flat, before=("-display_rotation", "180")))
    check(output, SIZES, 1.0, corners=UPRIGHT[::-1])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.mov", ("-c:v", "qtrle", "-pix_fmt", "argb", "-c:a", "pcm_s16le")),
        (
            "a.webm",
            (
                "-c:v",
                "libvpx-vp9",
                "-deadline",
                "realtime",
                "-cpu-used",
                "8",
                "-pix_fmt",
                "yuva420p",
                "-c:a",
                "libopus",
            ),
        ),
        ("b.mov", ("-c:v", "prores_ks", "-pix_fmt", "yuva444p10le", "-c:a", "pcm_s24le")),
    ],
)
def test_alpha(tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    output = transcode(film(tmp_path / name, *words, video=pictures(seconds=2.2), audio=sound(2.2)))
    check(output, SIZES, 2.2, sound_seconds=2.2)
    check_sync(output)

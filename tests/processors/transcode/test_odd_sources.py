"""Odd sources come out right, or are refused with a reason: watched by PyAV and by another ffmpeg."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from mediamill.errors import GiveUpError
from mediamill.processors.transcode.tone import nits_to_pq
from tests.processors.transcode.odd_clips import AAC, FAST, FLASH_AT, again, film, pictures, sound
from tests.processors.transcode.watching import Output, Track, beep_at, flash_at, transcode

pytestmark = pytest.mark.spec("V4")

SIZES = {"480p": (856, 480), "360p": (642, 360)}
TURNED_SIZES = {"480p": (480, 856), "360p": (360, 642)}
UPRIGHT = ["red", "lime", "blue", "yellow"]
FRAME = 0.04
AAC_FRAME = 1024 / 48_000
BT709 = (1, 1, 1)


def check(
    output: Output,
    sizes: dict[str, tuple[int, int]],
    seconds: float,
    frame: float = FRAME,
    sound_seconds: float | None = None,
    corners: Sequence[str] = UPRIGHT,
) -> None:
    """Everything that must be true of any output."""
    assert output.faults() == []
    assert {
        name: (track.frames[0].width, track.frames[0].height) for name, track in output.qualities.items()
    } == sizes
    assert {one.playlist[:-5]: (one.width, one.height) for one in output.master.variants} == sizes
    for track in output.qualities.values():
        check_pictures(track, seconds, frame)
        assert track.frames[0].corners() == list(corners)
    starts = [track.segment_starts() for track in output.qualities.values()]
    assert all(one == starts[0] for one in starts), "keyframes are not where those of other qualities are"
    times = [[round(one.time, 6) for one in track.frames] for track in output.qualities.values()]
    assert all(one == times[0] for one in times), "qualities show pictures at different times"
    if sound_seconds is None:
        assert output.master.audio is None
        assert output.result["has_audio"] is False
    else:
        assert output.result["has_audio"] is True
        check_sound(output.quality("audio"), sound_seconds)


def check_pictures(track: Track, seconds: float, frame: float) -> None:
    frames, playlist = track.frames, track.playlist
    assert frames[0].time == 0
    assert all(later.time > earlier.time for earlier, later in itertools.pairwise(frames))
    assert {one.format for one in frames} == {"yuv420p"}
    assert track.seconds == pytest.approx(seconds, abs=frame * 1.01)
    assert frames[-1].time + frames[-1].seconds == pytest.approx(track.seconds, abs=0.002)
    begins = np.cumsum([0.0, *(segment.seconds for segment in playlist.segments)])
    assert track.segment_starts() == pytest.approx(begins[:-1], abs=0.002)
    assert all(segment.seconds <= 2.5 for segment in playlist.segments)
    told = track.probe()
    assert len(told["packets"]) == len(frames)
    keys = [float(packet["pts_time"]) for packet in told["packets"] if "K" in packet["flags"]]
    assert keys == pytest.approx(begins[:-1], abs=0.002)
    assert told["streams"][0].get("sample_aspect_ratio", "1:1") in ("1:1", "N/A", "0:1")
    assert track.play() == ""


def check_sound(track: Track, seconds: float) -> None:
    start, rate, samples = track.samples
    assert start == pytest.approx(0, abs=0.001)
    assert samples.shape[0] == 2
    assert samples.shape[1] / rate == pytest.approx(seconds, abs=2 * AAC_FRAME)
    assert track.seconds == pytest.approx(samples.shape[1] / rate, abs=0.002)
    assert track.play() == ""


def check_sync(output: Output, flash: float = FLASH_AT, beep: float = FLASH_AT, frame: float = FRAME) -> None:
    """The flash and the beep are where they were, and as far apart as they were."""
    heard = beep_at(output.quality("audio"))
    for track in output.qualities.values():
        seen = flash_at(track)
        assert seen == pytest.approx(flash, abs=frame * 1.01)
        assert heard - seen == pytest.approx(beep - flash, abs=0.012)


def test_an_ordinary_video(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4"))
    check(output, SIZES, 5.0, sound_seconds=5.0)
    check_sync(output)
    assert len(output.qualities["480p"].frames) == 125
    assert output.result["warnings"] == []


def test_a_portrait(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", video=pictures("480x856")))
    check(output, TURNED_SIZES, 5.0, sound_seconds=5.0)


@pytest.mark.parametrize(
    ("degrees", "corners"),
    [
        (90, ["lime", "yellow", "red", "blue"]),
        (180, ["yellow", "blue", "lime", "red"]),
        (270, ["blue", "red", "yellow", "lime"]),
    ],
)
def test_a_turned_video_is_upright(tmp_path: Path, degrees: int, corners: list[str]) -> None:
    """ffmpeg's degrees are against the clock."""
    flat = film(tmp_path / "flat.mp4")
    output = transcode(again(tmp_path / "a.mp4", flat, before=("-display_rotation", str(degrees))))
    sizes = SIZES if degrees == 180 else TURNED_SIZES
    check(output, sizes, 5.0, sound_seconds=5.0, corners=corners)
    check_sync(output)


def test_odd_sizes(tmp_path: Path) -> None:
    words = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p", *AAC)
    output = transcode(film(tmp_path / "a.mp4", *words, video=pictures("855x481")))
    check(output, {"480p": (854, 480), "360p": (640, 360)}, 5.0, sound_seconds=5.0)


def test_a_tiny_video(tmp_path: Path) -> None:
    words = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p", *AAC)
    output = transcode(film(tmp_path / "a.mp4", *words, video=pictures("33x17")))
    check(output, {"360p": (32, 16)}, 5.0, sound_seconds=5.0)


def test_a_variable_frame_rate(tmp_path: Path) -> None:
    """Two seconds with every picture, then every seventh; a screen recorder's sort of file."""
    thin = ",select='lt(t,2)+not(mod(n,7))'"
    words = (*FAST, *AAC, "-fps_mode", "vfr")
    output = transcode(film(tmp_path / "a.mkv", *words, video=pictures(then=thin)))
    times = [one.time for one in output.qualities["480p"].frames]
    source = [number / 25 for number in range(125) if number < 50 or number % 7 == 0]
    check(output, SIZES, 5.0, frame=0.28, sound_seconds=5.0)
    check_sync(output)
    for time in source:  # each is shown when it was; what was added are repeats at borders
        assert min(abs(time - there) for there in times) < 0.002
    assert len(times) <= len(source) + 2


def test_a_picture_that_stands_for_long(tmp_path: Path) -> None:
    """Slides: one picture in five seconds. Segments stay short all the same."""
    words = (*FAST, *AAC, "-fps_mode", "vfr")
    output = transcode(
        film(
            tmp_path / "a.mkv",
            *words,
            video=pictures(seconds=12, then=",select='not(mod(n,125))'"),
            audio=sound(12),
        )
    )
    assert output.faults() == []
    assert output.qualities["480p"].seconds == pytest.approx(12, abs=5)
    assert max(segment.seconds for segment in output.qualities["480p"].playlist.segments) <= 2.5
    assert output.qualities["480p"].play() == ""


def test_a_silent_video(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", *FAST, audio=[]))
    check(output, SIZES, 5.0)


def test_sound_alone_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(GiveUpError, match="only sound"):
        transcode(film(tmp_path / "a.mp4", *AAC, video=[]))


def test_ten_bits(tmp_path: Path) -> None:
    words = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p10le", *AAC)
    output = transcode(film(tmp_path / "a.mp4", *words))
    check(output, SIZES, 5.0, sound_seconds=5.0)
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
    grey = ["-f", "lavfi", "-i", "color=black:s=856x480:r=25:d=1"]
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
    output = transcode(film(tmp_path / name, *words, video=pictures(size, seconds=1), audio=[]))
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


def test_six_channels_are_mixed_to_two(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", audio=sound(channels=6)))
    check(output, SIZES, 5.0, sound_seconds=5.0)
    check_sync(output)
    audio = output.quality("audio")
    assert beep_at(audio, channel=1) == pytest.approx(FLASH_AT, abs=0.012)
    assert 0.3 < np.abs(audio.samples[2]).max() < 1.1  # AAC overshoots a little


@pytest.mark.parametrize(("rate", "frames"), [("24000/1001", 120), ("60000/1001", 300)])
def test_rates_of_film_and_television(tmp_path: Path, rate: str, frames: int) -> None:
    top, bottom = (int(one) for one in rate.split("/"))
    output = transcode(film(tmp_path / "a.mp4", video=pictures(rate=rate)))
    check(output, SIZES, frames * bottom / top, frame=bottom / top, sound_seconds=5.0)
    check_sync(output, frame=bottom / top)
    assert len(output.qualities["360p"].frames) == frames
    assert output.master.variants[0].frame_rate == pytest.approx(top / bottom, abs=0.001)


def test_other_sample_rates(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mkv", *FAST, "-c:a", "pcm_s16le", audio=sound(rate=22_050)))
    check(output, SIZES, 5.0, sound_seconds=5.0)
    check_sync(output)


def test_an_interlaced_video(tmp_path: Path) -> None:
    """Fields that do not belong together become whole pictures: no comb is left of edges that move."""
    moving = ",scroll=h=0.01,tinterlace=interleave_top,fieldorder=tff"
    words = ("-c:v", "mpeg2video", "-q:v", "2", "-flags", "+ildct+ilme", "-top", "1", "-c:a", "mp2")
    output = transcode(film(tmp_path / "a.ts", *words, video=pictures(rate="50", then=moving)))
    check(output, SIZES, 5.0, sound_seconds=5.0)
    assert len(output.qualities["480p"].frames) == 125
    combs = [comb(one.image) for one in output.qualities["480p"].frames[60:70]]
    assert max(combs) < 6  # 65 if nothing is done


def comb(image: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> float:
    """How much every other line differs from its neighbours."""
    gray = image.mean(axis=2)[20:200]
    return float(np.abs(gray[1:-1:2] - (gray[:-2:2] + gray[2::2]) / 2).max(axis=1).mean())


@pytest.mark.parametrize(("shape", "size"), [("32/27", (854, 480)), ("8/9", (720, 540))])
def test_pixels_that_are_not_square(tmp_path: Path, shape: str, size: tuple[int, int]) -> None:
    output = transcode(film(tmp_path / "a.mp4", video=pictures("720x480", then=f",setsar={shape}")))
    assert output.faults() == []
    told = output.qualities["480p"].frames[0]
    assert told.width / told.height == pytest.approx(size[0] / size[1], abs=0.005)
    assert told.height == 480
    assert output.qualities["480p"].probe()["streams"][0].get("sample_aspect_ratio", "1:1") in ("1:1", "N/A")


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
    output = transcode(film(tmp_path / name, *words, video=pictures(seconds=3), audio=sound(3)))
    check(output, SIZES, 3.0, sound_seconds=3.0)
    check_sync(output)


@pytest.mark.parametrize("offset", ["20", "70000", "95441"])
def test_a_broadcast_that_does_not_start_at_zero(tmp_path: Path, offset: str) -> None:
    """The last one passes the point where the clock of MPEG-TS starts again, at 26.5 hours."""
    words = ("-c:v", "mpeg2video", "-q:v", "3", "-c:a", "mp2", "-output_ts_offset", offset)
    output = transcode(film(tmp_path / "a.ts", *words))
    check(output, SIZES, 5.0, sound_seconds=5.0)
    check_sync(output)


def test_an_edit_list_that_cuts_the_beginning(tmp_path: Path) -> None:
    """Cut without encoding: pictures before the cut are in the file, and must not be shown."""
    whole = film(tmp_path / "whole.mp4", *FAST, "-g", "250", *AAC)
    output = transcode(again(tmp_path / "a.mp4", whole, before=("-ss", "0.6")))
    assert output.faults() == []
    check_sync(output, flash=FLASH_AT - 0.6, beep=FLASH_AT - 0.6)
    assert output.qualities["480p"].seconds == pytest.approx(4.4, abs=0.05)


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_sound_that_begins_later(tmp_path: Path, container: str) -> None:
    output = transcode(film(tmp_path / f"a.{container}", audio=["-itsoffset", "0.5", *sound(4)]))
    check(output, SIZES, 5.0, sound_seconds=4.5)
    check_sync(output, beep=FLASH_AT + 0.5)


def test_pictures_that_begin_later(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mkv", video=["-itsoffset", "0.4", *pictures()]))
    check(output, SIZES, 5.4, sound_seconds=5.0)
    check_sync(output, flash=FLASH_AT + 0.4)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_a_broken_tail_is_kept_up_to_the_tear(tmp_path: Path, name: str) -> None:
    words = (*FAST, *AAC, *(("-movflags", "+faststart") if name == "a.mp4" else ()))
    source = film(tmp_path / name, *words, "-b:v", "400k", video=pictures(then=",noise=alls=20:allf=t"))
    source.write_bytes(source.read_bytes()[: source.stat().st_size * 6 // 10])
    output = transcode(source)
    assert output.faults() == []
    assert 2.0 < output.qualities["480p"].seconds < 4.2
    assert output.result["duration_seconds"] == pytest.approx(output.qualities["480p"].seconds, abs=0.01)
    assert bool(output.result["warnings"]) == (name != "a.ts")  # which does not tell its length
    for track in (*output.qualities.values(), output.quality("audio")):
        assert track.play() == ""
    check_sync(output)


def test_a_hole_in_the_middle(tmp_path: Path) -> None:
    source = film(
        tmp_path / "a.mp4", *FAST, *AAC, "-b:v", "400k", video=pictures(then=",noise=alls=20:allf=t")
    )
    data = bytearray(source.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 9000] = b"\0" * 9000
    source.write_bytes(data)
    output = transcode(source)
    assert output.faults() == []
    assert output.qualities["480p"].seconds == pytest.approx(5.0, abs=FRAME)
    assert all(track.play() == "" for track in output.qualities.values())
    check_sync(output)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_one_picture_only(tmp_path: Path, name: str) -> None:
    output = transcode(film(tmp_path / name, *FAST, "-frames:v", "1", audio=[]))
    assert output.faults() == []
    assert [len(track.frames) for track in output.qualities.values()] == [1, 1]
    assert 0 < output.qualities["360p"].seconds <= 1
    assert output.qualities["360p"].play() == ""


def test_a_video_shorter_than_a_segment(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", video=pictures(seconds=1.2), audio=sound(1.2)))
    check(output, SIZES, 1.2, sound_seconds=1.2)
    check_sync(output)


def test_sound_that_lasts_longer(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", video=pictures(seconds=3), audio=sound(5)))
    check(output, SIZES, 3.0, sound_seconds=5.0)
    check_sync(output)


def test_pictures_that_last_longer(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", video=pictures(seconds=5), audio=sound(2.5)))
    check(output, SIZES, 5.0, sound_seconds=2.5)
    check_sync(output)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 5000, b"GIF89a", b"#EXTM3U\nhttp://localhost/x.ts\n", b"\x00\x00\x00\x18ftypisom"],
)
def test_what_is_no_video_is_refused_with_a_reason(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "a.mp4"
    source.write_bytes(content)
    with pytest.raises(GiveUpError) as refused:
        transcode(source)
    assert len(refused.value.message) > 10

"""Odd sources come out right, or are refused with a reason: watched by PyAV and by another ffmpeg."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest

from mediamill.errors import GiveUpError
from tests.processors.transcode.checking import (
    FRAME,
    SIZES,
    TURNED_SIZES,
    UPRIGHT,
    check,
    check_pictures,
    check_sync,
)
from tests.processors.transcode.odd_clips import AAC, FAST, FLASH_AT, SECONDS, again, film, pictures, sound
from tests.processors.transcode.watching import Seen, beep_at, flash_at, transcode

pytestmark = pytest.mark.spec("V4")


def test_an_ordinary_video(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", video=pictures(seconds=5), audio=sound(5)))
    check(output, SIZES, 5.0, sound_seconds=5.0)
    check_sync(output)
    assert len(output.qualities["480p"].frames) == 125
    assert output.result["warnings"] == []


def test_a_portrait(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", video=pictures("480x856")))
    check(output, TURNED_SIZES, SECONDS, sound_seconds=SECONDS)


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
    check(output, sizes, SECONDS, sound_seconds=SECONDS, corners=corners)
    check_sync(output)


@pytest.mark.parametrize(
    ("words", "corners"),
    [
        (("-display_hflip",), ["lime", "red", "yellow", "blue"]),
        (("-display_vflip",), ["blue", "yellow", "red", "lime"]),
        (("-display_rotation", "90", "-display_hflip"), ["yellow", "lime", "blue", "red"]),
        (("-display_rotation", "90", "-display_vflip"), ["red", "blue", "lime", "yellow"]),
    ],
)
def test_a_mirrored_video(tmp_path: Path, words: tuple[str, ...], corners: list[str]) -> None:
    """As front cameras and editors on phones write it; ffmpeg shows it like this."""
    flat = film(tmp_path / "flat.mp4", *FAST, video=pictures(seconds=1), audio=[])
    output = transcode(again(tmp_path / "a.mp4", flat, before=words))
    sizes = TURNED_SIZES if "90" in words else SIZES
    check(output, sizes, 1.0, corners=corners)
    with av.open(str(output.folder / "poster.jpg")) as poster:
        assert Seen.of(next(poster.decode(video=0))).corners() == corners


def test_odd_sizes(tmp_path: Path) -> None:
    words = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p", *AAC)
    output = transcode(film(tmp_path / "a.mp4", *words, video=pictures("855x481")))
    check(output, {"480p": (854, 480), "360p": (640, 360)}, SECONDS, sound_seconds=SECONDS)


def test_a_tiny_video(tmp_path: Path) -> None:
    words = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv444p", *AAC)
    output = transcode(film(tmp_path / "a.mp4", *words, video=pictures("33x17")))
    check(output, {"360p": (32, 16)}, SECONDS, sound_seconds=SECONDS)


def test_a_variable_frame_rate(tmp_path: Path) -> None:
    """Two seconds with every picture, then every seventh; a screen recorder's sort of file."""
    thin = ",select='lt(t,2)+not(mod(n,7))'"
    words = (*FAST, *AAC, "-fps_mode", "vfr")
    output = transcode(film(tmp_path / "a.mkv", *words, video=pictures(seconds=5, then=thin), audio=sound(5)))
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
    check(output, SIZES, SECONDS)


def test_sound_alone_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(GiveUpError, match="only sound"):
        transcode(film(tmp_path / "a.mp4", *AAC, video=[]))


def test_six_channels_are_mixed_to_two(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mp4", audio=sound(channels=6)))
    check(output, SIZES, SECONDS, sound_seconds=SECONDS)
    check_sync(output)
    audio = output.quality("audio")
    assert beep_at(audio, channel=1) == pytest.approx(FLASH_AT, abs=0.012)
    assert 0.3 < np.abs(audio.samples[2]).max() < 1.1  # AAC overshoots a little


@pytest.mark.parametrize(("rate", "frames"), [("24000/1001", 72), ("60000/1001", 180)])
def test_rates_of_film_and_television(tmp_path: Path, rate: str, frames: int) -> None:
    top, bottom = (int(one) for one in rate.split("/"))
    output = transcode(film(tmp_path / "a.mp4", video=pictures(rate=rate)))
    check(output, SIZES, frames * bottom / top, frame=bottom / top, sound_seconds=SECONDS)
    check_sync(output, frame=bottom / top)
    assert len(output.qualities["360p"].frames) == frames
    assert output.master.variants[0].frame_rate == pytest.approx(top / bottom, abs=0.001)


@pytest.mark.parametrize(("rate", "shown"), [("120", 60), ("240000/1001", 60), ("144", 48)])
def test_more_pictures_than_players_are_made_for(tmp_path: Path, rate: str, shown: int) -> None:
    """Slow motion of phones, recordings of games: every second, third or fourth picture is shown."""
    output = transcode(film(tmp_path / "a.mp4", video=pictures(rate=rate, seconds=2.2), audio=sound(2.2)))
    check(output, SIZES, 2.2, frame=1 / shown, sound_seconds=2.2)
    check_sync(output, frame=1 / shown)
    assert len(output.qualities["360p"].frames) == pytest.approx(2.2 * shown, abs=2)
    steps = np.diff([one.time for one in output.qualities["360p"].frames])
    assert steps == pytest.approx(1 / shown, abs=0.005)
    assert output.master.variants[0].frame_rate == pytest.approx(shown, abs=0.1)


def test_other_sample_rates(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mkv", *FAST, "-c:a", "pcm_s16le", audio=sound(rate=22_050)))
    check(output, SIZES, SECONDS, sound_seconds=SECONDS)
    check_sync(output)


def test_an_interlaced_video(tmp_path: Path) -> None:
    """Fields that do not belong together become whole pictures: no comb is left of edges that move."""
    moving = ",scroll=h=0.01,tinterlace=interleave_top,fieldorder=tff"
    words = ("-c:v", "mpeg2video", "-q:v", "2", "-flags", "+ildct+ilme", "-top", "1", "-c:a", "mp2")
    output = transcode(film(tmp_path / "a.ts", *words, video=pictures(rate="50", then=moving)))
    check(output, SIZES, SECONDS, sound_seconds=SECONDS)
    assert len(output.qualities["480p"].frames) == 75
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
    assert output.qualities["480p"].probe["streams"][0].get("sample_aspect_ratio", "1:1") in ("1:1", "N/A")


@pytest.mark.parametrize("offset", ["20", "70000", "95441"])
def test_a_broadcast_that_does_not_start_at_zero(tmp_path: Path, offset: str) -> None:
    """The last one passes the point where the clock of MPEG-TS starts again, at 26.5 hours."""
    words = ("-c:v", "mpeg2video", "-q:v", "3", "-c:a", "mp2", "-output_ts_offset", offset)
    output = transcode(film(tmp_path / "a.ts", *words))
    check(output, SIZES, SECONDS, sound_seconds=SECONDS)
    check_sync(output)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "a.webm",
            ("-c:v", "libvpx", "-deadline", "realtime", "-cpu-used", "8", "-threads", "1", "-c:a", "libopus"),
        ),
        ("a.avi", ("-c:v", "mpeg4", "-q:v", "3", "-bf", "2", "-c:a", "libmp3lame")),
        ("a.wmv", ("-c:v", "wmv2", "-q:v", "3", "-c:a", "wmav2")),
        ("a.flv", ("-c:v", "flv", "-q:v", "3", "-c:a", "libmp3lame", "-ar", "44100")),
        ("fragments.mp4", (*FAST, *AAC, "-movflags", "frag_keyframe+empty_moov")),
        (
            "open.mp4",
            ("-c:v", "libx264", "-preset", "fast", "-x264-params", "open-gop=1:keyint=30:bframes=4", *AAC),
        ),
        ("hevc.mp4", ("-c:v", "libx265", "-preset", "ultrafast", "-x265-params", "log-level=error", *AAC)),
        ("holes.mkv", (*FAST, *AAC, "-af", "aselect='not(between(t,2,2.5))'")),
    ],
)
def test_other_formats(tmp_path: Path, name: str, words: tuple[str, ...]) -> None:
    output = transcode(film(tmp_path / name, *words, video=pictures(seconds=3), audio=sound(3)))
    assert output.faults() == []
    for track in output.qualities.values():
        check_pictures(track, 3.0, frame=2 * FRAME)  # sound may begin before the pictures
        assert track.frames[0].corners() == UPRIGHT
        assert flash_at(track) == pytest.approx(FLASH_AT, abs=2 * FRAME)
        assert beep_at(output.quality("audio")) - flash_at(track) == pytest.approx(0, abs=0.02)
    assert output.quality("audio").seconds == pytest.approx(3.0, abs=0.15)
    assert output.quality("audio").play() == ""


def test_two_recordings_in_one_file(tmp_path: Path) -> None:
    """Their clocks begin again and their sizes differ: one plays behind the other, sound and all."""
    words = (*FAST, "-c:a", "mp2")
    first = film(tmp_path / "1.ts", *words, video=pictures(seconds=3), audio=sound(3))
    second = film(tmp_path / "2.ts", *words, video=pictures("640x360", seconds=3), audio=sound(3))
    source = tmp_path / "a.ts"
    source.write_bytes(first.read_bytes() + second.read_bytes())
    output = transcode(source)
    check(output, SIZES, 6.0, sound_seconds=6.03)
    check_sync(output)
    assert all(track.frames[-1].corners() == UPRIGHT for track in output.qualities.values())


def test_an_edit_list_that_cuts_the_beginning(tmp_path: Path) -> None:
    """Cut without encoding: pictures before the cut are in the file, and must not be shown."""
    whole = film(tmp_path / "whole.mp4", *FAST, "-g", "250", *AAC)
    output = transcode(again(tmp_path / "a.mp4", whole, before=("-ss", "0.6")))
    assert output.faults() == []
    check_sync(output, flash=FLASH_AT - 0.6, beep=FLASH_AT - 0.6)
    assert output.qualities["480p"].seconds == pytest.approx(SECONDS - 0.6, abs=0.05)


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_sound_that_begins_later(tmp_path: Path, container: str) -> None:
    output = transcode(film(tmp_path / f"a.{container}", audio=["-itsoffset", "0.5", *sound(2)]))
    check(output, SIZES, SECONDS, sound_seconds=2.5)
    check_sync(output, beep=FLASH_AT + 0.5)


def test_pictures_that_begin_later(tmp_path: Path) -> None:
    output = transcode(film(tmp_path / "a.mkv", video=["-itsoffset", "0.4", *pictures()]))
    check(output, SIZES, SECONDS + 0.4, sound_seconds=SECONDS)
    check_sync(output, flash=FLASH_AT + 0.4)


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv", "a.ts"])
def test_a_broken_tail_is_kept_up_to_the_tear(tmp_path: Path, name: str) -> None:
    words = (*FAST, *AAC, *(("-movflags", "+faststart") if name == "a.mp4" else ()))
    source = film(
        tmp_path / name,
        *words,
        "-b:v",
        "400k",
        video=pictures(seconds=5, then=",noise=alls=20:allf=t"),
        audio=sound(5),
    )
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
        tmp_path / "a.mp4",
        *FAST,
        *AAC,
        "-b:v",
        "400k",
        video=pictures(seconds=5, then=",noise=alls=20:allf=t"),
        audio=sound(5),
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

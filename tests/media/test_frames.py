import math
import struct
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import cv2
import numpy as np
import pytest

from mediamill.media.errors import DamagedMediaError, MediaError, MediaTooLargeError
from mediamill.media.frames import Footage, NoPictureError, check_size, sharpness_of
from tests.media.clips import FPS, HEIGHT, WIDTH, Image, encode, pan, still, texture, view


def times(path: Path) -> list[float]:
    with Footage(path) as footage:
        return [glance.time_seconds for glance in footage.glances()]


def quarters() -> Image:
    """Red, green, blue and white quarters: a picture that shows how it is turned."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    middle, centre = HEIGHT // 2, WIDTH // 2
    image[:middle, :centre] = 255, 0, 0
    image[:middle, centre:] = 0, 255, 0
    image[middle:, :centre] = 0, 0, 255
    image[middle:, centre:] = 255, 255, 255
    return image


def with_timestamps(path: Path, seconds: list[float]) -> Path:
    """A video whose frames are shown at these times."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30, options={"preset": "ultrafast", "bf": "0"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        for image, at in zip(pan(1, len(seconds) / FPS), seconds, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), "rgb24")
            frame.pts, frame.time_base = round(at * 1000), Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


@pytest.mark.spec("L6")
@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("a.mp4", "libx264"),
        ("a.webm", "libvpx-vp9"),
        ("a.avi", "mjpeg"),
        ("a.mkv", "mpeg4"),
        ("a.ts", "libx264"),
    ],
)
def test_every_frame_is_seen_once_and_in_order(tmp_path: Path, name: str, codec: str) -> None:
    path = encode(tmp_path / name, pan(1, 2), codec=codec)
    found = times(path)
    assert found == pytest.approx([number / FPS for number in range(2 * FPS)], abs=0.02)


def test_a_glance_is_the_frame_in_32_by_32_grey_pixels(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", [quarters()] * 3)
    with Footage(path) as footage:
        glance = next(footage.glances())
    assert glance.tiny.shape == (32, 32)
    levels = [int(glance.tiny[y, x]) for y, x in ((8, 8), (8, 24), (24, 8), (24, 24))]
    assert sorted(levels, reverse=True) == [
        levels[3],
        levels[1],
        levels[0],
        levels[2],
    ]  # white, green, red, blue


def test_a_blurred_frame_is_less_sharp() -> None:
    sharp = np.ascontiguousarray(texture(3, 160, 160)[:160, :160, 1])
    blurred = np.asarray(cv2.blur(sharp, (5, 5)), np.uint8)
    assert sharpness_of(blurred) < 0.5 * sharpness_of(sharp)


def test_a_variable_frame_rate_keeps_its_times(tmp_path: Path) -> None:
    shown = [0.0, 0.1, 0.15, 2.0, 2.04, 7.5, 7.6]
    assert times(with_timestamps(tmp_path / "a.mp4", shown)) == pytest.approx(shown, abs=0.002)


def test_a_file_that_starts_late_starts_at_zero(tmp_path: Path) -> None:
    shown = [100.0, 100.1, 100.2]
    assert times(with_timestamps(tmp_path / "a.ts", shown)) == pytest.approx([0, 0.1, 0.2], abs=0.002)


def test_frames_without_timestamps_follow_each_other(tmp_path: Path) -> None:
    raw = encode(tmp_path / "a.mpg", pan(1, 1), codec="mpeg1video", fps=25)
    with Footage(raw) as footage:
        found = [glance.time_seconds for glance in footage.glances()]
    assert len(found) == FPS
    assert all(later > earlier for earlier, later in pairwise(found))


@pytest.mark.spec("L6")
def test_a_torn_end_is_kept_up_to_the_tear_and_reported(tmp_path: Path) -> None:
    encode(tmp_path / "a.mp4", pan(1, 4))
    with_index_first = tmp_path / "first.mp4"
    with (
        av.open(str(tmp_path / "a.mp4")) as source,
        av.open(str(with_index_first), "w", options={"movflags": "faststart"}) as target,
    ):
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    data = with_index_first.read_bytes()
    torn = tmp_path / "torn.mp4"
    torn.write_bytes(data[: len(data) * 6 // 10])
    with Footage(torn) as footage:
        found = [glance.time_seconds for glance in footage.glances()]
        assert footage.damage.as_facts()
    assert 1.0 < found[-1] < 3.9


def test_one_bad_packet_costs_no_more_than_its_group(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mkv", pan(1, 6), gop=FPS)
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 1500] = bytes(np.random.default_rng(1).integers(0, 256, 1500, np.uint8))
    path.write_bytes(data)
    found = times(path)
    assert len(found) >= 4 * FPS
    assert found[-1] > 5.5


@pytest.mark.parametrize("seed", range(12))
def test_garbage_inside_is_never_more_than_an_error_of_ours(tmp_path: Path, seed: int) -> None:
    path = encode(tmp_path / "a.mp4", still(1, 1))
    data = bytearray(path.read_bytes())
    random = np.random.default_rng(seed)
    for at in random.integers(32, len(data), 60):
        data[at] = random.integers(0, 256)
    path.write_bytes(data)
    found: list[float] = []
    with suppress(MediaError):
        found = times(path)
    assert all(math.isfinite(at) for at in found)


def test_a_file_without_pictures_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 16_000), np.float32), "fltp", "mono")
        frame.rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    with pytest.raises(NoPictureError, match="no moving pictures"):
        Footage(path, "video/mp4")


def test_a_file_that_is_no_video_says_so(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    path.write_bytes(b"\0\0\0\x18ftypisom\0\0\0\0isommp42" + b"\xff" * 500)
    with pytest.raises(DamagedMediaError):
        Footage(path, "video/mp4")


def test_frames_of_too_many_pixels_are_refused() -> None:
    check_size(7680, 4320)
    with pytest.raises(MediaTooLargeError, match="50000 × 50000"):
        check_size(50_000, 50_000)


@pytest.mark.parametrize(
    ("degrees", "corners"),
    [(0, "RGBW"), (90, "BRWG"), (180, "WBGR"), (270, "GWRB")],
)
def test_a_picture_is_upright(tmp_path: Path, degrees: int, corners: str) -> None:
    path = encode(tmp_path / "a.mp4", [quarters()] * 3)
    rotate_track(path, degrees)
    with Footage(path) as footage:
        picture = footage.picture_at(0, 96)
    assert picture is not None
    height, width = picture.pixels.shape[:2]
    assert (width > height) == (degrees in (0, 180))
    assert max(width, height) == 96
    spots = [(height // 4, width // 4), (height // 4, -width // 4), (-height // 4, width // 4)]
    assert "".join(colour(picture.pixels[y, x]) for y, x in [*spots, (-height // 4, -width // 4)]) == corners


def rotate_track(path: Path, clockwise: int) -> None:
    """Phones write how they were held into the matrix of the track."""
    turn = math.radians(clockwise)
    cos, sin = (round(value(turn)) << 16 for value in (math.cos, math.sin))
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40
    data[at : at + 36] = struct.pack(">9i", cos, sin, 0, -sin, cos, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


def colour(pixel: Image) -> str:
    red, green, blue = (int(value) > 128 for value in pixel)
    return {(True, False, False): "R", (False, True, False): "G", (False, False, True): "B"}.get(
        (red, green, blue), "W"
    )


def test_pixels_that_are_not_square_are_made_square(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", [quarters()] * 2, options={"aspect": "2:1"})
    with av.open(str(path)) as container:
        shape = container.streams.video[0].sample_aspect_ratio
    assert shape == 2
    with Footage(path) as footage:
        picture = footage.picture_at(0, 1000)
    assert picture is not None
    height, width = picture.pixels.shape[:2]
    assert width / height == pytest.approx(2 * WIDTH / HEIGHT, rel=0.02)


@pytest.mark.parametrize("wanted", [0.0, 0.5, 2.5, 3.9])
def test_one_picture_is_found_by_its_time(tmp_path: Path, wanted: float) -> None:
    path = encode(tmp_path / "a.mp4", (np.full((HEIGHT, WIDTH, 3), 4 * n, np.uint8) for n in range(4 * FPS)))
    with Footage(path) as footage:
        for _ in range(2):  # the second time from wherever the first one ended
            picture = footage.picture_at(wanted, 64)
            assert picture is not None
            assert picture.time_seconds == pytest.approx(round(wanted * FPS) / FPS, abs=0.05)
            assert picture.pixels.mean() == pytest.approx(4 * round(wanted * FPS), abs=4)


def test_a_time_behind_the_end_gives_the_last_picture(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", pan(1, 2))
    with Footage(path) as footage:
        picture = footage.picture_at(1e6, 64)
    assert picture is None or picture.time_seconds == pytest.approx(2 - 1 / FPS, abs=0.01)


def test_odd_sizes_and_a_single_frame_are_fine(tmp_path: Path) -> None:
    image = np.full((61, 35, 3), 90, np.uint8)
    path = encode(tmp_path / "a.avi", [image], codec="ffv1")
    with Footage(path) as footage:
        assert len(list(footage.glances())) == 1
        picture = footage.picture_at(0, 4000)
    assert picture is not None
    assert picture.pixels.shape == (61, 35, 3)


def test_keyframes_come_from_the_index(tmp_path: Path) -> None:
    path = encode(tmp_path / "a.mp4", pan(1, 6), gop=2 * FPS, options={"sc_threshold": "0", "bf": "0"})
    with Footage(path) as footage:
        assert footage.keyframe_times() == pytest.approx([0, 2, 4], abs=0.01)
        for mark in footage.keyframe_times():
            found = footage.keyframe_at(mark)
            assert found is not None
            assert found[0] == pytest.approx(mark, abs=0.01)
            assert found[1].key_frame


SCAN_A_LONG_FILE = """
import resource, sys
from pathlib import Path
from mediamill.media.frames import Footage
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Footage(Path(sys.argv[1])) as footage:
    for number, glance in enumerate(footage.glances()):
        if number == 60:
            early = peak()
print(number + 1, (peak() - early) // 1024)
"""


@pytest.mark.spec("C26")
def test_memory_is_flat_over_a_file_of_a_gigabyte(tmp_path: Path) -> None:
    picture = np.ascontiguousarray(view(texture(1, 1280, 720), 0, 0, 1280, 720))
    path = repeat_frame(picture, tmp_path / "long.avi", 740)
    assert path.stat().st_size > 1_000_000_000
    done = subprocess.run(
        [sys.executable, "-c", SCAN_A_LONG_FILE, str(path)], capture_output=True, text=True, check=True
    )
    path.unlink()
    frames, grown_megabytes = map(int, done.stdout.split())
    assert frames == 740
    assert grown_megabytes < 50


def repeat_frame(picture: Image, path: Path, count: int) -> Path:
    """The same uncompressed frame over and over: no time is spent on encoding."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("rawvideo", rate=FPS)
        stream.height, stream.width = picture.shape[:2]
        stream.pix_fmt = "yuv420p"
        first, *_ = stream.encode(av.VideoFrame.from_ndarray(picture, "rgb24"))
        data = bytes(first)
        for number in range(count):
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.is_keyframe = stream, Fraction(1, FPS), True
            packet.pts = packet.dts = number
            container.mux(packet)
    return path

"""Stand-ins of images: one read of the source, the right sizes, never enlarged, little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import pyvips
from PIL import Image

from mediamill.media.images import load_pixels
from mediamill.processors.image.proxies import make_proxies
from tests.media.making_images import corner_names, corners, make_dng, make_heic, with_orientation

pytestmark = pytest.mark.spec("L4")


def sizes(folder: Path) -> list[tuple[str | None, tuple[int, int]]]:
    """Formats and sizes of both files."""
    found = []
    for name in ("preview.webp", "thumbnail.jpg"):
        with Image.open(folder / name) as image:
            found.append((image.format, image.size))
    return found


def test_a_photo_gets_a_webp_of_768_and_a_jpeg_of_320(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    pyvips.Image.new_from_array(corners(2000, 1500)).jpegsave(str(path))

    proxies = make_proxies(path, "image/jpeg", tmp_path)

    assert sizes(tmp_path) == [("WEBP", (768, 576)), ("JPEG", (320, 240))]
    assert (proxies.preview, proxies.thumbnail) == ("preview.webp", "thumbnail.jpg")
    assert (proxies.width, proxies.height) == (768, 576)
    assert (proxies.source.width, proxies.source.height) == (2000, 1500)


@pytest.mark.parametrize(("size", "small"), [((32, 32), (32, 32)), ((500, 100), (320, 64))])
def test_nothing_is_enlarged(tmp_path: Path, size: tuple[int, int], small: tuple[int, int]) -> None:
    for suffix in ("png", "webp", "jpeg", "gif", "tiff"):
        path = tmp_path / f"icon.{suffix}"
        Image.fromarray(corners(*size)).save(path)

        make_proxies(path, f"image/{suffix}", tmp_path)

        assert sizes(tmp_path) == [("WEBP", size), ("JPEG", small)]


@pytest.mark.parametrize("width", [767, 768, 769, 1535, 1536, 1537, 3072, 6143, 6144, 12288])
def test_the_decoder_never_reduces_below_768(tmp_path: Path, width: int) -> None:
    path = tmp_path / "photo.jpg"
    pyvips.Image.black(width, 16, bands=3).copy(interpretation="srgb").jpegsave(str(path))

    assert make_proxies(path, "image/jpeg", tmp_path).width == min(width, 768)


def test_both_files_are_upright(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    with_orientation(np.ascontiguousarray(np.rot90(corners(1600, 1000), 1)), 6).jpegsave(str(path))

    make_proxies(path, "image/jpeg", tmp_path)

    assert sizes(tmp_path) == [("WEBP", (768, 480)), ("JPEG", (320, 200))]
    for name in ("preview.webp", "thumbnail.jpg"):
        with Image.open(tmp_path / name) as image:
            assert corner_names(np.asarray(image.convert("RGB"))) == "rgby"
            assert not image.getexif()


def test_heic_and_raw_get_theirs_too(tmp_path: Path) -> None:
    heic, raw = tmp_path / "photo.heic", tmp_path / "photo.dng"
    make_heic(heic, corners(1024, 768))
    make_dng(raw, corners(700, 500), (20, 20, 200))

    make_proxies(heic, "image/heic", tmp_path)
    assert sizes(tmp_path) == [("WEBP", (768, 576)), ("JPEG", (320, 240))]
    make_proxies(raw, "image/x-adobe-dng", tmp_path)
    assert sizes(tmp_path) == [("WEBP", (700, 500)), ("JPEG", (320, 229))]
    make_proxies(raw, "image/x-adobe-dng", tmp_path, ignore_previews=True)
    assert sizes(tmp_path) == [("WEBP", (256, 192)), ("JPEG", (256, 192))]


def test_a_cut_out_keeps_its_alpha_in_the_webp_and_lies_on_white_in_the_jpeg(tmp_path: Path) -> None:
    path = tmp_path / "logo.png"
    pixels = np.zeros((400, 400, 4), np.uint8)
    pixels[:, :200] = (200, 0, 0, 255)
    Image.fromarray(pixels).save(path)

    make_proxies(path, "image/png", tmp_path)

    with Image.open(tmp_path / "preview.webp") as preview:
        assert preview.mode == "RGBA"
        assert preview.getpixel((390, 200))[3] == 0  # type: ignore[index]
    assert load_pixels(tmp_path / "thumbnail.jpg", "image/jpeg", 320)[160, 310].min() > 250


WATCHED = """
import ctypes, os, sys
from pathlib import Path
from mediamill.processors.image.proxies import make_proxies
path, mime_type, folder = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, os.fsencode(path), 0x20) >= 0  # IN_OPEN
make_proxies(path, mime_type, folder)
try:
    print(len(os.read(watch, 65536)) // 16)
except BlockingIOError:
    print(0)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's count of opens")
@pytest.mark.parametrize("suffix", ["jpeg", "png", "webp", "gif", "tiff"])
def test_the_source_is_opened_once(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"photo.{suffix}"
    Image.fromarray(corners(2000, 1500)).save(path)

    command = [sys.executable, "-c", WATCHED, str(path), f"image/{suffix}", str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "1"


LIMITED = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_DATA, (600_000_000, 600_000_000))
from mediamill.processors.image.proxies import make_proxies
proxies = make_proxies(Path(sys.argv[1]), "image/jpeg", Path(sys.argv[2]))
status = Path("/proc/self/status").read_text()  # getrusage would count the memory of the process that started this
peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
print(proxies.source.width * proxies.source.height, peak)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's limits and units")
def test_a_jpeg_of_200_megapixels_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "large.jpg"
    tile = pyvips.Image.new_from_array(corners(64, 64)).copy(interpretation="srgb")
    tile.replicate(255, 200).jpegsave(str(path), Q=60, keep="none")

    command = [sys.executable, "-c", LIMITED, str(path), str(tmp_path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)

    pixels, memory_bytes = map(int, told.stdout.split())
    assert pixels > 200_000_000
    assert memory_bytes < 600_000_000
    assert sizes(tmp_path) == [("WEBP", (768, 602)), ("JPEG", (320, 251))]

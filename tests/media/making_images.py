"""Image files that tests need and no library writes: HEIC and DNG, made by hand, and bombs."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np
import pyvips
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]
RED, GREEN, BLUE, YELLOW = (220, 30, 30), (30, 180, 40), (30, 40, 210), (240, 220, 40)


def corners(width: int, height: int) -> Pixels:
    """Red at the top left, green top right, blue bottom left, yellow bottom right: every turn shows."""
    pixels = np.zeros((height, width, 3), np.uint8)
    middle, half = height // 2, width // 2
    pixels[:middle, :half], pixels[:middle, half:] = RED, GREEN
    pixels[middle:, :half], pixels[middle:, half:] = BLUE, YELLOW
    return pixels


def corner_names(pixels: Pixels) -> str:
    """The colours of the four corners: r, g, b, y, left to right, top to bottom."""
    height, width = pixels.shape[:2]
    spots = [(height // 8, width // 8), (height // 8, -width // 8), (-height // 8, width // 8)]
    spots.append((-height // 8, -width // 8))
    known = np.array([RED, GREEN, BLUE, YELLOW], int)
    return "".join(
        "rgby"[int(np.abs(known - pixels[row, column].astype(int)).sum(axis=1).argmin())]
        for row, column in spots
    )


def with_orientation(pixels: Pixels, orientation: int) -> pyvips.Image:
    """An image that says how it is to be turned."""
    image = pyvips.Image.new_from_array(pixels).copy()
    image.set_type(pyvips.GValue.gint_type, "orientation", orientation)
    return image


def box(name: bytes, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return struct.pack(">I", 8 + len(data)) + name + data


def make_heic(path: Path, pixels: Pixels, quarter_turns: int = 0) -> None:
    """One HEVC frame as a HEIC image, turned by a transformation that readers must apply."""
    height, width = pixels.shape[:2]
    config, frame = _encode_hevc(pixels)
    full = b"\0\0\0\0"
    properties = [config, box(b"ispe", full, struct.pack(">II", width, height))]
    properties.append(box(b"irot", bytes([quarter_turns])))
    item = box(b"infe", b"\2\0\0\0", struct.pack(">HH", 1, 0), b"hvc1\0")
    uses = struct.pack(">IHB", 1, 1, 3) + bytes([0x81, 0x02, 0x83])
    head = box(b"ftyp", b"heic\0\0\0\0mif1heic")

    def meta(offset: int) -> bytes:
        place = struct.pack(">BBHHHHII", 0x44, 0, 1, 1, 0, 1, offset, len(frame))
        return box(
            b"meta",
            full,
            box(b"hdlr", full, b"\0\0\0\0pict", bytes(13)),
            box(b"pitm", full, struct.pack(">H", 1)),
            box(b"iloc", full, place),
            box(b"iinf", full, struct.pack(">H", 1), item),
            box(b"iprp", box(b"ipco", *properties), box(b"ipma", full, uses)),
        )

    start = len(head) + len(meta(0)) + 8
    path.write_bytes(head + meta(start) + box(b"mdat", frame))


def _encode_hevc(pixels: Pixels) -> tuple[bytes, bytes]:
    """The configuration box and the data of one frame, taken out of an MP4."""
    height, width = pixels.shape[:2]
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream: Any = container.add_stream(
            "libx265", rate=1, options={"x265-params": "bframes=0:log-level=none"}
        )
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for packet in (*stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")), *stream.encode()):
            container.mux(packet)
    data = file.getvalue()
    at = data.index(b"hvcC") - 4
    config = data[at : at + int.from_bytes(data[at : at + 4], "big")]
    at = data.index(b"mdat") - 4
    return config, data[at + 8 : at + int.from_bytes(data[at : at + 4], "big")]


Tag = tuple[int, int, Sequence[Any] | bytes]  # number, TIFF type, values


def make_tiff(directories: Sequence[Sequence[Tag]], blobs: Sequence[bytes] = ()) -> bytes:
    """A TIFF file by hand. A value `blob:N` is where that blob lies, `ifd:N` where that directory lies."""
    places: dict[str, int] = {}
    data = b""
    for _ in range(2):  # the first round finds the places
        data = b"II*\0" + struct.pack("<I", 8)
        for number, tags in enumerate(directories):
            places[f"ifd:{number}"] = len(data)
            data += _directory(tags, len(data), places)
        for number, blob in enumerate(blobs):
            places[f"blob:{number}"] = len(data)
            data += blob + b"\0" * (len(blob) % 2)
    return data


def _directory(tags: Sequence[Tag], at: int, places: dict[str, int]) -> bytes:
    codes = {1: "B", 2: "B", 3: "H", 4: "I", 5: "I", 7: "B", 10: "i"}
    entries, extra = b"", b""
    after = at + 2 + 12 * len(tags) + 4
    for number, kind, values in sorted(tags, key=lambda tag: tag[0]):
        known = [places.get(value, 0) if isinstance(value, str) else value for value in values]
        data = struct.pack(f"<{len(known)}{codes[kind]}", *known)
        count = len(known) // 2 if kind in (5, 10) else len(known)
        if len(data) > 4:
            where = after + len(extra)
            extra += data + b"\0" * (len(data) % 2)
            data = struct.pack("<I", where)
        entries += struct.pack("<HHI", number, kind, count) + data.ljust(4, b"\0")
    return struct.pack("<H", len(tags)) + entries + b"\0\0\0\0" + extra


def make_dng(
    path: Path, preview: Pixels | None, sensor_colour: tuple[int, int, int], *, orientation: int = 1
) -> None:
    """A raw photo of 256 × 192 with one colour on the sensor, and a JPEG preview of another look."""
    width, height = 256, 192
    mosaic = np.zeros((height, width), np.uint16)
    red, green, blue = (level * 256 for level in sensor_colour)
    mosaic[::2, ::2], mosaic[::2, 1::2], mosaic[1::2, ::2], mosaic[1::2, 1::2] = red, green, green, blue
    raw: list[Tag] = [
        (254, 4, [0]), (256, 4, [width]), (257, 4, [height]), (258, 3, [16]), (259, 3, [1]), (262, 3, [32803]),
        (273, 4, ["blob:0"]), (277, 3, [1]), (278, 4, [height]), (279, 4, [mosaic.nbytes]), (33421, 3, [2, 2]),
        (33422, 1, [0, 1, 1, 2]), (50717, 4, [65535]),
    ]  # fmt: skip
    camera: list[Tag] = [
        (271, 2, b"Mill\0"), (272, 2, b"Mill One\0"), (274, 3, [orientation]), (306, 2, b"2024:05:01 12:30:00\0"),
        (50706, 1, [1, 4, 0, 0]), (50708, 2, b"Mill One\0"), (50778, 3, [21]),
        (50721, 10, [1, 1, 0, 1, 0, 1, 0, 1, 1, 1, 0, 1, 0, 1, 0, 1, 1, 1]), (50728, 5, [1, 1, 1, 1, 1, 1]),
    ]  # fmt: skip
    if preview is None:
        path.write_bytes(make_tiff([camera + raw], [mosaic.tobytes()]))
        return
    jpeg = pyvips.Image.new_from_array(preview).jpegsave_buffer(Q=95, keep="none")
    small: list[Tag] = [
        (254, 4, [1]), (256, 4, [preview.shape[1]]), (257, 4, [preview.shape[0]]), (258, 3, [8, 8, 8]), (259, 3, [7]),
        (262, 3, [6]), (273, 4, ["blob:1"]), (277, 3, [3]), (278, 4, [preview.shape[0]]), (279, 4, [len(jpeg)]),
        (330, 4, ["ifd:1"]),
    ]  # fmt: skip
    path.write_bytes(make_tiff([camera + small, raw], [mosaic.tobytes(), jpeg]))


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def make_png_header(path: Path, width: int, height: int, *, interlaced: bool = False) -> None:
    """A PNG that claims any size; its data would fill 100 MB with zeros."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, int(interlaced))
    data = zlib.compress(bytes(100_000_000), 1) if width * height < 2**32 else b""
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", data) + png_chunk(b"IEND", b"")
    )


def make_gif(path: Path, width: int, height: int, frames: int) -> None:
    """A GIF with as many frames as wanted, a few bytes each, and no end."""
    head = b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes([0, 0, 0, 255, 255, 255])
    frame = b"!\xf9\4\0\1\0\0\0," + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\2\2\x44\1\0"
    path.write_bytes(head + frame * frames)


def exif_blob() -> bytes:
    camera = [(0x829A, 5, [1, 250]), (0x9003, 2, b"2024:05:01 12:30:00\0"), (0x9011, 2, b"+02:00\0")]
    place = [
        (1, 2, b"N\0"), (2, 5, [52, 1, 30, 1, 0, 1]), (3, 2, b"W\0"), (4, 5, [13, 1, 24, 1, 0, 1]),
        (5, 1, [1]), (6, 5, [34, 1]),
    ]  # fmt: skip
    main = [(271, 2, b"Mill\0"), (272, 2, b"One\0"), (0x8769, 4, ["ifd:1"]), (0x8825, 4, ["ifd:2"])]
    return make_tiff([main, camera, place])

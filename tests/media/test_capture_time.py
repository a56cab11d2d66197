"""When a photo was taken: local time, its offset where something says so, and where both come from."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin

from mediamill.media.capture_time import read_container_time, read_text_time
from mediamill.media.exif import Exif
from mediamill.media.images import read_picture
from mediamill.media.raw_notes import read_notes
from tests.media.making_images import Tag, corners, make_tiff

pytestmark = pytest.mark.spec("L22")

NIGHT = b"2024:06:01 00:30:00\0"
GPS_22_30: list[Tag] = [(7, 5, [22, 1, 30, 1, 12, 1]), (29, 2, b"2024:05:31\0")]
XMP = (
    b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    b'<rdf:Description xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:CreateDate="2024-06-01T00:30:00+02:00"/>'
    b"</rdf:RDF></x:xmpmeta>"
)


def blob(camera: list[Tag], place: list[Tag] = [], main: list[Tag] = []) -> bytes:  # noqa: B006 - read only
    links: list[Tag] = [(0x8769, 4, ["ifd:1"]), (0x8825, 4, ["ifd:2"])]
    return make_tiff([[*main, *links], camera or [(0x9000, 7, b"0232")], place or [(0, 1, [2, 3, 0, 0])]])


def taken(exif: Exif) -> tuple[str, str] | None:
    found = exif.facts()
    return (found["taken_at"], found["taken_from"]) if "taken_at" in found else None


@pytest.mark.parametrize(
    ("camera", "place", "main", "expected"),
    [
        (
            [(0x9003, 2, NIGHT), (0x9011, 2, b"+02:00\0")],
            [],
            [],
            ("2024-06-01T00:30:00+02:00", "exif_offset"),
        ),
        ([(0x9003, 2, NIGHT)], GPS_22_30, [], ("2024-06-01T00:30:00+02:00", "exif_gps")),
        ([(0x9003, 2, NIGHT)], [], [], ("2024-06-01T00:30:00", "exif")),
        (  # GPS has no fix of today: the clock is believed, and no offset made up
            [(0x9003, 2, NIGHT)],
            [(7, 5, [9, 1, 7, 1, 0, 1]), (29, 2, b"2024:05:20\0")],
            [],
            ("2024-06-01T00:30:00", "exif"),
        ),
        (
            [(0x9003, 2, NIGHT), (0x9291, 2, b"25\0"), (0x9011, 2, b"-03:30\0")],
            [],
            [],
            ("2024-06-01T00:30:00.250000-03:30", "exif_offset"),
        ),
        (  # the offset stands beside the same time only
            [(0x9003, 2, NIGHT), (0x9010, 2, b"+02:00\0")],
            [],
            [(306, 2, NIGHT)],
            ("2024-06-01T00:30:00+02:00", "exif_offset"),
        ),
        (  # edited elsewhere: the editor's offset is not the camera's
            [(0x9003, 2, NIGHT), (0x9010, 2, b"-07:00\0")],
            [],
            [(306, 2, b"2024:06:09 10:00:00\0")],
            ("2024-06-01T00:30:00", "exif"),
        ),
        (
            [(0x9004, 2, NIGHT), (0x9012, 2, b"+02:00\0")],
            [],
            [],
            ("2024-06-01T00:30:00+02:00", "exif_offset"),
        ),
        ([], GPS_22_30, [], ("2024-05-31T22:30:12+00:00", "gps")),
        ([], [], [(306, 2, NIGHT)], ("2024-06-01T00:30:00", "exif")),
        ([(0x9003, 2, b"0000:00:00 00:00:00\0")], [], [], None),
        ([(0x9003, 2, b"1970:01:01 00:00:00\0")], [], [], None),
    ],
)
def test_the_camera_s_clock_counts_with_the_offset_that_something_tells(
    camera: list[Tag], place: list[Tag], main: list[Tag], expected: tuple[str, str] | None
) -> None:
    assert taken(Exif(blob(camera, place, main))) == expected


def test_every_format_tells_its_time(tmp_path: Path) -> None:
    exif = b"Exif\0\0" + blob([(0x9003, 2, NIGHT), (0x9011, 2, b"+02:00\0")])
    picture = Image.fromarray(corners(160, 96))
    for name in ("jpeg", "png", "webp"):
        picture.save(tmp_path / f"a.{name}", exif=exif)
        picture.save(tmp_path / f"b.{name}", **({"xmp": XMP} if name != "png" else {"pnginfo": _xmp_chunk()}))
    (tmp_path / "a.tiff").write_bytes(_tiff([(0x9003, 2, NIGHT), (0x9011, 2, b"+02:00\0")], []))
    (tmp_path / "b.tiff").write_bytes(_tiff([], [(700, 1, list(XMP))]))
    note = PngImagePlugin.PngInfo()
    note.add_text("Creation Time", "2024:06:01 00:30:00")
    picture.save(tmp_path / "c.png", pnginfo=note)

    found = {
        path.name: taken(read_picture(path, f"image/{path.suffix[1:]}", 80).facts.exif)
        for path in sorted(tmp_path.iterdir())
    }

    by_camera, by_editor = (("2024-06-01T00:30:00+02:00", origin) for origin in ("exif_offset", "xmp"))
    assert found == {
        **{f"a.{name}": by_camera for name in ("jpeg", "png", "tiff", "webp")},
        **{f"b.{name}": by_editor for name in ("jpeg", "png", "tiff", "webp")},
        "c.png": ("2024-06-01T00:30:00", "text"),
    }


def test_raw_files_that_are_no_tiff_tell_their_time(tmp_path: Path) -> None:
    tags: list[Tag] = [(0x9003, 2, NIGHT), (0x9011, 2, b"+02:00\0")]
    Image.fromarray(corners(16, 16)).save(tmp_path / "a.jpg", exif=b"Exif\0\0" + blob(tags))
    jpeg = (tmp_path / "a.jpg").read_bytes()
    raf = b"FUJIFILMCCD-RAW 0201".ljust(84, b"\0") + struct.pack(">II", 200, len(jpeg))
    canon = bytes.fromhex("85c0b687820f11e08111f4ce462b6a48")
    parts = _box(b"CMT1", make_tiff([[(271, 2, b"Canon\0"), (272, 2, b"Canon EOS R5\0")]]))
    parts += _box(b"CMT2", make_tiff([[(0x9003, 2, NIGHT)]])) + _box(b"CMT4", make_tiff([GPS_22_30]))
    cr3 = _box(b"ftyp", b"crx \0\0\0\1crx isom") + _box(b"moov", _box(b"uuid", canon + parts))

    assert taken(read_notes(raf.ljust(200, b"\0") + jpeg)) == ("2024-06-01T00:30:00+02:00", "exif_offset")
    assert taken(read_notes(cr3)) == ("2024-06-01T00:30:00+02:00", "exif_gps")
    assert read_notes(cr3).facts()["camera"] == "Canon EOS R5"
    for whole in (raf.ljust(200, b"\0") + jpeg, cr3):
        for length in range(0, len(whole), 7):  # torn anywhere, it is only silent
            read_notes(whole[:length])


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (
            {
                "com.apple.quicktime.creationdate": "2024-06-01T00:30:00+0200",
                "creation_time": "2024-05-31T22:30:00Z",
            },
            ("2024-06-01T00:30:00+02:00", "quicktime"),
        ),
        ({"creation_time": "2024-05-31T22:30:00.000000Z"}, ("2024-05-31T22:30:00+00:00", "container_utc")),
        ({"date": "2024-06-01 00:30:00"}, ("2024-06-01T00:30:00", "container")),
        ({"creation_time": "1904-01-01T00:00:00Z"}, None),
        ({"date": "2024"}, None),
    ],
)
def test_a_video_has_the_local_time_where_it_is_written(
    tags: dict[str, str], expected: tuple[str, str] | None
) -> None:
    found = read_container_time(tags)
    assert (found and tuple(found.facts().values())) == expected


def test_a_png_s_text_is_read_in_each_of_its_forms() -> None:
    for text in ("Sat, 01 Jun 2024 00:30:00 GMT", "2024-06-01T00:30:00Z", "1 Jun 2024 00:30:00 +0000"):
        found = read_text_time(text)
        assert found is not None
        assert found.moment.isoformat() == "2024-06-01T00:30:00+00:00"


def _xmp_chunk() -> PngImagePlugin.PngInfo:
    note = PngImagePlugin.PngInfo()
    note.add_itxt("XML:com.adobe.xmp", XMP.decode())
    return note


def _tiff(camera: list[Tag], more: list[Tag]) -> bytes:
    pixels = bytes(16 * 16 * 3)
    main: list[Tag] = [
        (256, 4, [16]), (257, 4, [16]), (258, 3, [8, 8, 8]), (259, 3, [1]), (262, 3, [2]), (273, 4, ["blob:0"]),
        (277, 3, [3]), (278, 4, [16]), (279, 4, [len(pixels)]), *more,
    ]  # fmt: skip
    return make_tiff([main + [(0x8769, 4, ["ifd:1"])] * bool(camera), camera], [pixels])


def _box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name) + content

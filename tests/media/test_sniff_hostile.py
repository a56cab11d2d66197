"""Sniffing ends soon, reads little and never raises, whatever the bytes claim."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mediamill.media.peek import BUDGET_BYTES, BUDGET_LOOKS, HEAD_BYTES
from mediamill.media.sniff import Sniffed, sniff
from tests.media.making import make_film
from tests.media.pieces import box, ebml, ftyp, ogg_page, ole, tiff, track, zipped

pytestmark = pytest.mark.spec("C29")

ENDLESS = 8 << 40  # bytes; the files have holes and take no room
HUGE = struct.pack(">Q", 2**63)
LYING_ZIP = zipped({"a.txt": "hello"})
STARTS: dict[str, bytes] = {
    "box of length 0": ftyp(b"isom") + box(b"moov", track(b"vide"), length=0),
    "box of length 1 without the rest": ftyp(b"isom") + box(b"mdat", length=1),
    "box of length 2": ftyp(b"isom") + box(b"mdat", length=2),
    "box of 2**63 bytes": ftyp(b"isom") + box(b"mdat", HUGE, length=1),
    "box of length 0 inside itself": ftyp(b"isom") + box(b"moov", box(b"trak", box(b"mdia", length=0), length=0)),
    "ftyp that never ends": box(b"ftyp", b"isom", length=0),
    "chain of boxes": ftyp(b"isom") + box(b"free") * 100_000 + box(b"moov", track(b"soun")),
    "chain of tracks": ftyp(b"isom") + box(b"moov", track(b"text") * 20_000),
    "EBML of unknown length": b"\x1a\x45\xdf\xa3\xff" + b"\x42\x82\x84webm" + b"\x18\x53\x80\x67\xff" * 9000,
    "EBML of 2**55 bytes": ebml(b"webm")[:-8] + b"\x01" + b"\xfe" * 7,
    "EBML number without end": b"\x1a\x45\xdf\xa3\x00" * 5000,
    "chain of EBML voids": ebml(b"matroska")[:-20] + b"\x18\x53\x80\x67\xff" + b"\xec\x80" * 60_000,
    "zip whose directory is elsewhere": LYING_ZIP[:-10] + b"\xff" * 8 + b"\0\0",
    "zip whose directory is itself": LYING_ZIP[:-6] + b"\0" * 6,
    "chain of Ogg pages": ogg_page(b"x") * 5000,
    "OLE directory that leads to itself": ole("a").replace(struct.pack("<I", 0xFFFFFFFE), struct.pack("<I", 1)),
    "OLE directory far away": ole("a")[:48] + b"\xf0\xff\xff\xff" + ole("a")[52:],
    "TIFF directory that points at itself": b"II*\0\x04\0\0\0" + b"\xff" * 2000,
    "TIFF with a maker nowhere": tiff({254: 1, 271: b"NIKON\0", 330: 9}).replace(b"NIKON", b"\xff" * 5),
    "ID3 tag of 256 MiB": b"ID3\x04\0\x10\x7f\x7f\x7f\x7f" + b"\0" * 100,
    "icon that points nowhere": b"\0\0\x01\0\xff\0" + b"\xff" * 40,
    "program that points nowhere": b"MZ" + b"\xff" * 200,
    "deep JSON": b"[" * 60_000,
    "deep JSON that ends": b"[" * 30_000 + b"]" * 30_000,
    "XML of brackets": b"<?xml version='1.0'?>" + b"<!" * 30_000,
    "XML of comments": b"<?xml version='1.0'?>" + b"<!---->" * 9000 + b"<svg/>",
    "CSV with an open quote": b'a,b,c\n"' + b"x,\n" * 20_000,
    "Markdown of brackets": b"## x\n" + b"[" * 60_000,
    "stars": b"**a" * 20_000,
}  # fmt: skip


def io_counters() -> tuple[int, int]:
    """Bytes read and calls of read by this process."""
    lines = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(lines["rchar"]), int(lines["syscr"])


@pytest.mark.skipif(sys.platform != "linux", reason="counts reads by /proc")
@pytest.mark.parametrize("tail", [0, ENDLESS], ids=["as it is", "with terabytes behind it"])
@pytest.mark.parametrize("start", STARTS)
def test_a_file_that_lies_costs_little(start: str, tail: int, tmp_path: Path) -> None:
    path = tmp_path / "lies"
    path.write_bytes(STARTS[start])
    if tail:
        try:
            os.truncate(path, tail)
        except OSError:
            pytest.skip("this file system has no files of this size")
    before = io_counters()
    assert isinstance(sniff(path), Sniffed)
    after = io_counters()
    counting = 2048  # the counters' own file
    assert after[0] - before[0] <= HEAD_BYTES + BUDGET_BYTES + counting
    assert after[1] - before[1] <= BUDGET_LOOKS + 10


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from([b"", *(content[:200] for content in STARTS.values())]),
    rest=st.binary(max_size=300),
)
def test_any_bytes_have_a_type(start: bytes, rest: bytes, tmp_path: Path) -> None:
    (tmp_path / "any").write_bytes(start + rest)
    found = sniff(tmp_path / "any")
    assert found.mime_type.count("/") == 1
    assert found.evidence


def test_noise_is_unknown(tmp_path: Path) -> None:
    noise = random.Random(7)
    wrong = []
    for number in range(300):
        (tmp_path / "noise").write_bytes(noise.randbytes(4096))
        if (found := sniff(tmp_path / "noise")).mime_type != "application/octet-stream":
            wrong.append((number, found))
    assert wrong == []


def test_a_file_cut_anywhere_keeps_its_family_or_is_unknown(tmp_path: Path) -> None:
    whole = make_film(tmp_path / "film", "mp4", "libx264", "aac").read_bytes()
    for length in (*range(0, 64), *range(64, len(whole), 499)):
        (tmp_path / "cut").write_bytes(whole[:length])
        assert sniff(tmp_path / "cut").mime_type in ("video/mp4", "application/octet-stream"), length


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [
        (b"\xff\xd8\xff\xe0" + b"%PDF-1.7" + LYING_ZIP, "image/jpeg"),
        (b"GIF89a/*<svg onload=alert(1)>*/", "image/gif"),
        (LYING_ZIP + b"%PDF-1.7", "application/zip"),
        (b"%PDF-1.7\n" + LYING_ZIP, "application/pdf"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "text/plain"),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "text/plain"),
    ],
)
def test_a_file_that_is_two_things_is_what_it_begins_with(
    content: bytes, mime_type: str, tmp_path: Path
) -> None:
    (tmp_path / "two").write_bytes(content)
    assert sniff(tmp_path / "two").mime_type == mime_type


def test_what_is_no_file_is_an_os_error_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "missing"):
        with pytest.raises(OSError):
            sniff(tmp_path / name)


def test_sniffing_imports_nothing_heavy() -> None:
    code = (
        "import sys, mediamill.media.sniff; print({'av', 'pyvips', 'numpy', 'PIL', 'cv2'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

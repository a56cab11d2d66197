"""Files that were built to harm: bombs, headers that lie, endless ones, names that lead elsewhere."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache

from mediamill.testing.fuzz_seeds import (
    TEXT,
    join_pdf,
    make_docx,
    make_odt,
    make_pdf,
    make_png,
    make_seeds,
    make_xlsx,
    make_zip,
)

HUGE = 50_000
BOMB_BYTES = 256 << 20

# -- archives


def _nested_zip() -> bytes:
    data = make_zip({"deepest.txt": TEXT})
    for depth in range(10):
        data = make_zip({f"level-{depth}.zip": data})
    return data


def _overlapping_zip() -> bytes:
    """Five thousand names for one member of 16 MB: 80 GB if each is unpacked."""
    one = make_zip({"a.txt": bytes(16 << 20)})
    start = one.index(b"PK\1\2")
    end = one.index(b"PK\5\6")
    entry, count = one[start:end], 5000
    tail = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, count, count, len(entry) * count, start, 0)
    return one[:start] + entry * count + tail


def _zip_with_evil_names() -> bytes:
    names = ("../../escaped.txt", "/tmp/escaped.txt", "a\\..\\..\\escaped.txt", "..", "a\nb'\"$(id).txt")  # noqa: S108
    return make_zip(dict.fromkeys(names, TEXT))


# -- bombs


@cache
def _packed() -> bytes:
    return zlib.compress(b" " * BOMB_BYTES, 1)


def _png_bomb() -> bytes:
    return make_png(16_383, 16_383, zlib.compress(bytes(16_384 * 16_383), 1))


def _png_text_bomb() -> bytes:
    png = make_seeds()["image.png"]
    body = b"Comment\0\0" + _packed()
    chunk = struct.pack(">I", len(body)) + b"zTXt" + body + struct.pack(">I", zlib.crc32(b"zTXt" + body))
    return png[:33] + chunk + png[33:]


def _pdf_bomb() -> bytes:
    """Packed twice: a few hundred bytes that become 256 MB."""
    pdf = make_pdf(zlib.compress(_packed(), 9), filtered=True)
    return pdf.replace(b"/Filter/FlateDecode", b"/Filter[/FlateDecode/FlateDecode]")


def _docx_bomb() -> bytes:
    return make_docx(f"<w:p><w:r><w:t>{' ' * (BOMB_BYTES // 2)}x</w:t></w:r></w:p>")


def _xlsx_bomb() -> bytes:
    row = '<row><c t="inlineStr"><is><t>aaaaaaaaaaaaaaaa</t></is></c></row>'
    return make_xlsx(row * (BOMB_BYTES // 4 // len(row)))


def _odt_bomb() -> bytes:
    return make_odt("<text:p>a</text:p>" * (BOMB_BYTES // 4 // 18))


def _webp_bomb() -> bytes:
    """Lossless, with codes of zero bits: 16,384 × 16,384 pixels out of 20 bytes."""
    bits = "".join(
        format(value, f"0{width}b")[::-1]
        for value, width in ((16_383, 14), (16_383, 14), (0, 1), (0, 3), (0, 1), (0, 1), (0, 1))
    )
    bits += "1000" * 5  # five simple codes with one symbol each, which is 0
    bits += "0" * (-len(bits) % 8)
    body = b"\x2f" + bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))
    return _riff(b"VP8L", body)


def _riff(kind: bytes, body: bytes) -> bytes:
    chunk = kind + struct.pack("<I", len(body)) + body + b"\0" * (len(body) % 2)
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


# -- headers of 50,000 × 50,000


def _huge_jpeg() -> bytes:
    data = bytearray(make_seeds()["image.jpg"])
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", HUGE, HUGE)
    return bytes(data)


def _huge_webp() -> bytes:
    canvas = struct.pack("<I", HUGE - 1)[:3]
    return _riff(b"VP8X", b"\0\0\0\0" + canvas + canvas) + make_seeds()["image.webp"][12:]


def _huge_gif() -> bytes:
    data = bytearray(make_seeds()["image.gif"])
    data[6:10] = struct.pack("<HH", HUGE, HUGE)
    at = data.index(b"\x2c\0\0\0\0")
    data[at + 5 : at + 9] = struct.pack("<HH", HUGE, HUGE)
    return bytes(data)


def _huge_tiff() -> bytes:
    fields = (
        (256, HUGE),
        (257, HUGE),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, HUGE),
        (279, 64),
    )
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    return b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(fields)) + directory + bytes(4 + 64)


def _huge_bmp() -> bytes:
    data = bytearray(make_seeds()["image.bmp"])
    data[18:26] = struct.pack("<ii", HUGE, HUGE)
    return bytes(data)


def _endless_gif() -> bytes:
    """20,000 frames that loop for ever, and no end."""
    head = b"GIF89a" + struct.pack("<HHBBB", 500, 500, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    loop = b"\x21\xff\x0bNETSCAPE2.0\x03\x01\0\0\0"
    frame = b"\x21\xf9\x04\0\0\0\0\0" + b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\0"
    return head + loop + frame * 20_000


# -- films


def _patch(data: bytes, kind: bytes, offset: int, value: bytes) -> bytes:
    at = data.index(kind) + offset
    return data[:at] + value + data[at + len(value) :]


def _lying_mp4() -> bytes:
    """Half a second that claims to be 600 hours."""
    data, years = make_seeds()["film.mp4"], struct.pack(">I", 0x7FFFFFFF)
    for kind, offset in ((b"mvhd", 20), (b"tkhd", 24), (b"mdhd", 20)):
        data = _patch(data, kind, offset, years)
    return data


def _mp4_with_size(size: int) -> Callable[[], bytes]:
    return lambda: _patch(make_seeds()["film.mp4"], b"moov", -4, struct.pack(">I", size))


def _mp4_with_many_samples() -> bytes:
    return _patch(make_seeds()["film.mp4"], b"stsz", 12, struct.pack(">I", 0x7FFFFFFF))


def _lying_wav() -> bytes:
    return _patch(make_seeds()["sound.wav"], b"data", 4, b"\xff\xff\xff\x7f")


# -- documents


def _pdf_with_many_pages() -> bytes:
    count = 100_000
    kids = b" ".join(b"%d 0 R" % number for number in range(3, count + 3))
    pages = b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count)
    return join_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            pages,
            *[b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"] * count,
        ]
    )


def _pdf_that_contains_itself() -> bytes:
    return join_pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2>>"])


def _entities(root: str) -> str:
    """Nine levels of ten: a thousand million letters, if somebody expands them."""
    levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
    return f'<?xml version="1.0"?><!DOCTYPE {root} [<!ENTITY e0 "ha">{levels}<!ENTITY f SYSTEM "file:///etc/passwd">]>'


def _entity_docx() -> bytes:
    return make_docx("<w:p><w:r><w:t>&e9;&f;</w:t></w:r></w:p>", before=_entities("w:document"))


def _entity_odt() -> bytes:
    return make_odt("<text:p>&e9;&f;</text:p>", before=_entities("office:document-content"))


def _entity_svg() -> bytes:
    body = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><text>&e9;&f;</text></svg>'
    return (_entities("svg") + body).encode()


def _entity_html() -> bytes:
    return (_entities("html") + "<html><body><p>&e9;&f;</p></body></html>").encode()


def _deep_html() -> bytes:
    return b"<!doctype html><html><body>" + b"<div>" * 200_000 + b"deep"


def _deep_rtf() -> bytes:
    return b"{\\rtf1 " + b"{\\b " * 200_000 + b"deep"


def _deep_json() -> bytes:
    return b"[" * 200_000


def _mail(body: str, kind: str) -> bytes:
    return f"From: a@example.org\r\nSubject: x\r\nMIME-Version: 1.0\r\nContent-Type: {kind}\r\n\r\n{body}".encode()


def _deep_mail() -> bytes:
    body = "".join(
        f'--b{n}\r\nContent-Type: multipart/mixed; boundary="b{n + 1}"\r\n\r\n' for n in range(2000)
    )
    return _mail(body, 'multipart/mixed; boundary="b0"')


def _wide_mail() -> bytes:
    return _mail("--b\r\nContent-Type: text/plain\r\n\r\nx\r\n" * 50_000, 'multipart/mixed; boundary="b"')


def _mail_with_bomb() -> bytes:
    packed = base64.encodebytes(_overlapping_zip()).decode()
    part = f"--b\r\nContent-Type: application/zip\r\nContent-Transfer-Encoding: base64\r\n\r\n{packed}\r\n--b--\r\n"
    return _mail(part, 'multipart/mixed; boundary="b"')


def _far_xlsx() -> bytes:
    return make_xlsx('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')


SPECIALS: Mapping[str, Callable[[], bytes]] = {
    "empty.bin": bytes,
    "empty.jpg": bytes,
    "nested.zip": _nested_zip,
    "overlapping.zip": _overlapping_zip,
    "evil-names.zip": _zip_with_evil_names,
    "bomb.png": _png_bomb,
    "text-bomb.png": _png_text_bomb,
    "bomb.pdf": _pdf_bomb,
    "bomb.docx": _docx_bomb,
    "bomb.xlsx": _xlsx_bomb,
    "bomb.odt": _odt_bomb,
    "bomb.webp": _webp_bomb,
    "huge.png": lambda: make_png(HUGE, HUGE, zlib.compress(bytes(1000))),
    "huge.jpg": _huge_jpeg,
    "huge.webp": _huge_webp,
    "huge.gif": _huge_gif,
    "huge.tif": _huge_tiff,
    "huge.bmp": _huge_bmp,
    "endless.gif": _endless_gif,
    "lying-duration.mp4": _lying_mp4,
    "lying-size.mp4": _mp4_with_size(0x7FFFFFFF),
    "endless-box.mp4": _mp4_with_size(0),
    "tiny-box.mp4": _mp4_with_size(9),
    "many-samples.mp4": _mp4_with_many_samples,
    "lying-size.wav": _lying_wav,
    "many-pages.pdf": _pdf_with_many_pages,
    "circular.pdf": _pdf_that_contains_itself,
    "entities.docx": _entity_docx,
    "entities.odt": _entity_odt,
    "entities.svg": _entity_svg,
    "entities.html": _entity_html,
    "deep.html": _deep_html,
    "deep.rtf": _deep_rtf,
    "deep.json": _deep_json,
    "deep.eml": _deep_mail,
    "wide.eml": _wide_mail,
    "bomb.eml": _mail_with_bomb,
    "far-cell.xlsx": _far_xlsx,
}

# Names that a sender may choose. Those that a file system refuses travel as metadata only.
NAMES = (
    "../../../escaped.jpg",
    "..",
    "/etc/passwd",
    "two\nlines.jpg",
    "quotes'\"`$(id);.jpg",
    "-rf --help.jpg",
    " .jpg ",
    "\u202egpj.exe",
    "%2e%2e%2fescaped.jpg",
    "😀" * 60 + ".jpg",
    "x" * 251 + ".jpg",
    "x" * 296 + ".jpg",
    "CON.jpg",
    "\udcff\udcfe not utf-8.jpg",
    "a\tb\x1b[31m.jpg",
)

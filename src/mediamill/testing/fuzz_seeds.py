"""Tiny valid files of many types, made by code, for the fuzz corpus to start from. The same bytes every time."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

RATE = 16_000
TYPES = "[Content_Types].xml"
OFFICE = "http://schemas.openxmlformats.org"
TEXT = "The quick brown fox jumps over the lazy dog. 12 345,67 €\n"


@cache
def make_seeds() -> Mapping[str, bytes]:
    """File name -> bytes."""
    return {**_images(), **_sounds(), **_films(), **_documents()}


# -- images


def _images() -> dict[str, bytes]:
    picture = _picture(64, 48)
    made = {
        f"image.{suffix}": bytes(picture.write_to_buffer(f".{suffix}", **options))
        for suffix, options in IMAGE_OPTIONS.items()
    }
    animation = _picture(32, 96).copy()
    animation.set_type(_vips().GValue.gint_type, "page-height", 32)
    made["animation.gif"] = bytes(animation.write_to_buffer(".gif"))
    made["animation.webp"] = bytes(animation.write_to_buffer(".webp"))
    made["image.bmp"] = make_bmp(8, 8)
    made["drawing.svg"] = (
        b'<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"><circle cx="9" cy="9" r="5"/></svg>'
    )
    return made


IMAGE_OPTIONS: dict[str, dict[str, Any]] = {
    "jpg": {"Q": 70},
    "png": {},
    "gif": {},
    "webp": {"Q": 60},
    "avif": {"Q": 50, "effort": 0},
    "tif": {"compression": "lzw"},
}


def _vips() -> Any:
    import pyvips

    return pyvips


def _picture(width: int, height: int) -> Any:
    """A gradient with a square in it."""
    ramp = _vips().Image.xyz(width, height)
    bands = ramp[0].linear(3, 0).bandjoin([ramp[1].linear(2, 0), ramp[0].linear(-2, 200)])
    picture = bands.cast("uchar").copy(interpretation="srgb")
    return picture.draw_rect([250, 20, 20], width // 4, height // 4, 12, 12, fill=True).copy_memory()


def make_bmp(width: int, height: int) -> bytes:
    """A black bitmap."""
    row = (width * 3 + 3) // 4 * 4
    pixels = b"\0" * (row * height)
    head = struct.pack("<2sIHHI", b"BM", 54 + len(pixels), 0, 0, 54)
    return head + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(pixels), 0, 0, 0, 0) + pixels


# -- sounds and films


def _sounds() -> dict[str, bytes]:
    return {
        "sound.wav": make_film("wav", audio="pcm_s16le"),
        "sound.mp3": make_film("mp3", audio="libmp3lame"),
        "voice.ogg": make_film("ogg", audio="libopus", rate=48_000),
        "sound.m4a": make_film("ipod", audio="aac"),
        "sound.flac": make_film("flac", audio="flac"),
    }


def _films() -> dict[str, bytes]:
    return {
        "film.mp4": make_film("mp4", video="libx264", audio="aac"),
        "film.webm": make_film("webm", video="libvpx", audio="libopus", rate=48_000),
        "film.mkv": make_film("matroska", video="mpeg4", audio="libmp3lame"),
    }


def make_film(
    container: str, *, video: str | None = None, audio: str | None = None, rate: int = RATE
) -> bytes:
    """Half a second: frames of 64 × 48 that get brighter, and a tone."""
    import av

    target = io.BytesIO()
    with av.open(target, "w", format=container, options={"fflags": "+bitexact"}) as out:
        pictures: Any = out.add_stream(video, rate=10) if video else None
        sound: Any = out.add_stream(audio, rate=rate, layout="mono") if audio else None
        for stream in (pictures, sound):
            if stream is not None:
                stream.codec_context.flags |= av.codec.context.Flags.bitexact
        if pictures is not None:
            pictures.width, pictures.height, pictures.pix_fmt = 64, 48, "yuv420p"
            pictures.thread_count = 1
            _encode(out, pictures, _frames())
        if sound is not None:
            _encode(out, sound, _tone(sound, rate))
    return target.getvalue()


def _encode(out: Any, stream: Any, frames: Iterable[Any]) -> None:
    for frame in frames:
        out.mux(stream.encode(frame))
    out.mux(stream.encode(None))


def _frames() -> Iterable[Any]:
    import av
    import numpy as np

    for number in range(5):
        frame = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 20 + 40 * number, np.uint8), format="rgb24")
        frame.pts = number
        yield frame


def _tone(stream: Any, rate: int) -> Iterable[Any]:
    import av
    import numpy as np

    size = stream.frame_size or 1024
    resampler = av.AudioResampler(format=stream.format.name, layout="mono", rate=rate, frame_size=size)
    samples = (np.sin(np.arange(rate // 2) / 20) * 8000).astype(np.int16).reshape(1, -1)
    frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
    frame.sample_rate, frame.pts = rate, 0
    yield from resampler.resample(frame)
    yield from resampler.resample(None)


# -- documents


def _documents() -> dict[str, bytes]:
    return {name: make() for name, make in DOCUMENTS.items()}


def make_zip(members: Mapping[str, bytes | str], *, first_plain: bool = False) -> bytes:
    """A zip archive without the time of its making."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for number, (name, content) in enumerate(members.items()):
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_STORED if first_plain and not number else zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return target.getvalue()


def make_pdf(
    content: bytes = b"BT /F1 18 Tf 20 100 Td (A small page of text) Tj ET", *, filtered: bool = False
) -> bytes:
    """One page. `filtered`: the content is deflated already."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>"
    how = b"/Filter/FlateDecode" if filtered else b""
    return join_pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            page,
            b"<</Length %d%s>>stream\n%s\nendstream" % (len(content), how, content),
            b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        ]
    )


def join_pdf(objects: list[bytes]) -> bytes:
    """The file of these objects, of which the first is the catalogue."""
    body, places = bytearray(b"%PDF-1.5\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s endobj\n" % (number, content)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % place for place in places)
    body += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(body)


def make_docx(paragraphs: str = f"<w:p><w:r><w:t>{TEXT}</w:t></w:r></w:p>", *, before: str = "") -> bytes:
    """A word document; `before` comes ahead of its root."""
    name = f"{OFFICE}/wordprocessingml/2006/main"
    document = f'{before}<w:document xmlns:w="{name}"><w:body>{paragraphs}</w:body></w:document>'
    return make_zip(_package("word/document.xml", "wordprocessingml.document.main", document))


def make_xlsx(
    rows: str = '<row r="1"><c r="A1" t="inlineStr"><is><t>Name</t></is></c><c r="B1"><v>7</v></c></row>',
) -> bytes:
    """A workbook of one sheet."""
    name = f"{OFFICE}/spreadsheetml/2006/main"
    related = f"{OFFICE}/officeDocument/2006/relationships"
    book = (
        f'<workbook xmlns="{name}" xmlns:r="{related}"><sheets>'
        '<sheet name="One" sheetId="1" r:id="rId1"/></sheets></workbook>'
    )
    members = _package("xl/workbook.xml", "spreadsheetml.sheet.main", book)
    members["xl/_rels/workbook.xml.rels"] = _relations("worksheet", "worksheets/sheet1.xml")
    members["xl/worksheets/sheet1.xml"] = (
        f'<worksheet xmlns="{name}"><sheetData>{rows}</sheetData></worksheet>'
    )
    return make_zip(members)


def make_pptx(text: str = TEXT) -> bytes:
    """One slide."""
    name, drawing = f"{OFFICE}/presentationml/2006/main", f"{OFFICE}/drawingml/2006/main"
    related = f"{OFFICE}/officeDocument/2006/relationships"
    show = (
        f'<p:presentation xmlns:p="{name}" xmlns:r="{related}">'
        '<p:sldIdLst><p:sldId id="256" r:id="rId1"/></p:sldIdLst></p:presentation>'
    )
    members = _package("ppt/presentation.xml", "presentationml.presentation.main", show)
    members["ppt/_rels/presentation.xml.rels"] = _relations("slide", "slides/slide1.xml")
    members["ppt/slides/slide1.xml"] = (
        f'<p:sld xmlns:p="{name}" xmlns:a="{drawing}"><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>{text}'
        "</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )
    return make_zip(members)


def make_odt(text: str = f"<text:p>{TEXT}</text:p>", *, before: str = "") -> bytes:
    """An OpenDocument text."""
    names = "urn:oasis:names:tc:opendocument:xmlns"
    content = (
        f'{before}<office:document-content xmlns:office="{names}:office:1.0" xmlns:text="{names}:text:1.0">'
        f"<office:body><office:text>{text}</office:text></office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.text"
    return make_zip({"mimetype": kind, "content.xml": content}, first_plain=True)


def _package(main: str, kind: str, content: str) -> dict[str, bytes | str]:
    types = (
        f'<Types xmlns="{OFFICE}/package/2006/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/{main}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/></Types>'
    )
    return {TYPES: types, "_rels/.rels": _relations("officeDocument", main), main: content}


def _relations(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{OFFICE}/package/2006/relationships"><Relationship Id="rId1" '
        f'Type="{OFFICE}/officeDocument/2006/relationships/{kind}" Target="{target}"/></Relationships>'
    )


def make_png(width: int, height: int, data: bytes, *, depth: int = 8, colour: int = 0) -> bytes:
    """A PNG with this header and this compressed data, whether they agree or not."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", data), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )


MAIL = (
    "From: a@example.org\r\nTo: b@example.org\r\nSubject: Hello\r\nMIME-Version: 1.0\r\n"
    'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/plain\r\n\r\nGood morning.\r\n'
    "--x\r\nContent-Type: text/html\r\n\r\n<p>Good <b>morning</b>.</p>\r\n--x--\r\n"
)
CALENDAR = (
    "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\nBEGIN:VEVENT\r\nUID:1\r\nDTSTART:20260102T100000Z\r\n"
    "SUMMARY:Meeting\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)
DOCUMENTS: dict[str, Callable[[], bytes]] = {
    "page.pdf": make_pdf,
    "letter.docx": make_docx,
    "table.xlsx": make_xlsx,
    "slides.pptx": make_pptx,
    "text.odt": make_odt,
    "notes.txt": lambda: (TEXT * 5).encode(),
    "page.html": lambda: f"<!doctype html><html><body><h1>Title</h1><p>{TEXT}</p></body></html>".encode(),
    "mail.eml": MAIL.encode,
    "meeting.ics": CALENDAR.encode,
    "letter.rtf": lambda: (
        b"{\\rtf1\\ansi\\deff0{\\fonttbl{\\f0 Arial;}}\\f0\\fs24 Hello \\b world\\b0.\\par}"
    ),
    "archive.zip": lambda: make_zip({"a.txt": TEXT, "b/c.txt": TEXT * 3}),
}

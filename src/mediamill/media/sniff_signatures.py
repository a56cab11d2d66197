"""Formats that a few bytes at a fixed place give away."""

from __future__ import annotations

from mediamill.media.peek import Peek

# (offset, bytes, mime type): the first that fits.
SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    # images
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (0, b"\xff\x0a", "image/jxl"),
    (0, b"\x00\x00\x00\x0cJXL \r\n\x87\n", "image/jxl"),
    (0, b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"),
    (0, b"\xff\x4f\xff\x51", "image/jp2"),
    (0, b"8BPS\x00\x01", "image/vnd.adobe.photoshop"),
    (0, b"FUJIFILMCCD-RAW", "image/x-fuji-raf"),
    (0, b"IIRO", "image/x-olympus-orf"),
    (0, b"IIRS", "image/x-olympus-orf"),
    (0, b"MMOR", "image/x-olympus-orf"),
    (0, b"IIU\x00", "image/x-panasonic-rw2"),
    (0, b"AT&TFORM", "image/vnd.djvu"),
    # sound
    (0, b"fLaC", "audio/flac"),
    (0, b"#!AMR-WB\n", "audio/amr-wb"),
    (0, b"#!AMR\n", "audio/amr"),
    (0, b"MThd\x00\x00\x00\x06", "audio/midi"),
    (0, b"caff\x00\x01", "audio/x-caf"),
    (0, b"wvpk", "audio/x-wavpack"),
    (0, b".snd\x00\x00\x00", "audio/basic"),
    # video
    (0, b"FLV\x01", "video/x-flv"),
    (0, b"\x00\x00\x01\xba", "video/mpeg"),
    (0, b"\x00\x00\x01\xb3", "video/mpv"),
    # documents
    (0, b"%PDF-", "application/pdf"),
    (0, b"{\\rtf", "application/rtf"),
    (0, b"%!PS", "application/postscript"),
    # archives
    (0, b"\x1f\x8b\x08", "application/gzip"),
    (0, b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (0, b"Rar!\x1a\x07", "application/vnd.rar"),
    (257, b"ustar", "application/x-tar"),
    (0, b"\xfd7zXZ\x00", "application/x-xz"),
    (0, b"\x28\xb5\x2f\xfd", "application/zstd"),
    (0, b"\x04\x22\x4d\x18", "application/x-lz4"),
    # the rest
    (0, b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (0, b"\x7fELF", "application/x-elf"),
    (0, b"\x00asm\x01\x00\x00\x00", "application/wasm"),
    (0, b"wOFF", "font/woff"),
    (0, b"wOF2", "font/woff2"),
    (0, b"OTTO\x00", "font/otf"),
    (0, b"\x00\x01\x00\x00\x00", "font/ttf"),
)

# RIFF and IFF files carry their form at byte 8.
FORMS: dict[tuple[bytes, bytes], str] = {
    (b"RIFF", b"WEBP"): "image/webp",
    (b"RIFF", b"WAVE"): "audio/wav",
    (b"RF64", b"WAVE"): "audio/wav",
    (b"RIFF", b"AVI "): "video/x-msvideo",
    (b"FORM", b"AIFF"): "audio/aiff",
    (b"FORM", b"AIFC"): "audio/aiff",
}
BMP_HEADERS = {12, 40, 52, 56, 64, 108, 124}
PDF_WITHIN = 1024  # readers accept a header that begins this late


def look_at_signatures(peek: Peek) -> tuple[str, str] | None:
    """The table, then formats whose few bytes need a second look."""
    head = peek.head
    if mime_type := FORMS.get((head[:4], head[8:12])):
        return mime_type, f"{head[:4].decode()} form {head[8:12].decode().strip()}"
    for offset, magic, mime_type in SIGNATURES:
        if head.startswith(magic, offset):
            return mime_type, f"signature {magic!r} at byte {offset}"
    return _second_look(peek)


def _second_look(peek: Peek) -> tuple[str, str] | None:
    head = peek.head
    if head.startswith(b"BM") and peek.number(14, 4, little=True) in BMP_HEADERS and not any(head[6:10]):
        return "image/bmp", "BM and a bitmap header"
    if head[:4] in (b"\x00\x00\x01\x00", b"\x00\x00\x02\x00") and _is_icon(peek):
        return "image/vnd.microsoft.icon", "icon directory"
    if head.startswith(b"BZh") and head[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "application/x-bzip2", "bzip2 header and block"
    if head.startswith(b"MZ") and peek.at(peek.number(60, 4, little=True), 4) == b"PE\x00\x00":
        return "application/vnd.microsoft.portable-executable", "MZ and PE headers"
    if (at := head[:PDF_WITHIN].find(b"%PDF-")) > 0:
        return "application/pdf", f"%PDF- at byte {at}"
    return None


def _is_icon(peek: Peek) -> bool:
    """The first entry must point behind the directory and into the file."""
    count = peek.number(4, 2, little=True)
    length, offset = peek.number(14, 4, little=True), peek.number(18, 4, little=True)
    return 0 < count < 256 and length > 0 and 6 + 16 * count <= offset < peek.size

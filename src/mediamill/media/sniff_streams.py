"""Sound and video without a file header: frames that follow each other, Ogg pages, ASF objects."""

from __future__ import annotations

from collections.abc import Iterator

from mediamill.media.peek import Peek

OGG_SOUND = (b"OpusHead", b"\x01vorbis", b"\x7fFLAC", b"Speex   ", b"PCM     ")
OGG_VIDEO = (b"\x80theora", b"BBCD\x00", b"OVP80", b"\x01video")
MOST_PAGES = 32
ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
ASF_VIDEO = bytes.fromhex("c0ef19bc4d5bcf11a8fd00805f5c442b")
ASF_AUDIO = bytes.fromhex("409e69f84d5bcf11a8fd00805f5c442b")

MP3_KBITS = {  # (MPEG 1?, layer) -> kbit/s by index
    (True, 1): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
PADDING_BYTES = 4096  # of zeros that may follow an ID3 tag
TS_PACKETS = 5


def look_at_ogg(peek: Peek) -> tuple[str, str] | None:
    """Every stream of an Ogg file begins with a page of its own; these come first."""
    if not peek.head.startswith(b"OggS\x00"):
        return None
    starts = list(_ogg_stream_starts(peek))
    if any(start.startswith(OGG_VIDEO) for start in starts):
        return "video/ogg", "Ogg with a video stream"
    if any(start.startswith(OGG_SOUND) for start in starts):
        return "audio/ogg", "Ogg with sound only"
    return "application/ogg", "Ogg with unknown streams"


def _ogg_stream_starts(peek: Peek) -> Iterator[bytes]:
    at = 0
    for _ in range(MOST_PAGES):
        header = peek.at(at, 27 + 255)
        if len(header) < 27 or not header.startswith(b"OggS") or not header[5] & 2:
            return
        body = at + 27 + header[26]
        yield peek.at(body, 16)
        at = body + sum(header[27 : 27 + header[26]])


def look_at_asf(peek: Peek) -> tuple[str, str] | None:
    """Windows Media: the stream types are named in the header object."""
    if not peek.head.startswith(ASF):
        return None
    if ASF_AUDIO in peek.head and ASF_VIDEO not in peek.head:
        return "audio/x-ms-wma", "ASF with sound only"
    return "video/x-ms-wmv", "ASF header"


def look_at_streams(peek: Peek) -> tuple[str, str] | None:
    """MP3, AAC and MPEG transport streams: at least two frames in a row must fit together."""
    if peek.head.startswith(b"ID3") and len(peek.head) >= 10:
        return _behind_id3(peek)
    return _frames(peek, 0) or _transport_stream(peek)


def _behind_id3(peek: Peek) -> tuple[str, str]:
    length = 0
    for byte in peek.head[6:10]:
        length = length << 7 | byte & 0x7F
    start = 10 + length + (10 if peek.head[5] & 0x10 else 0)
    after = peek.at(start, PADDING_BYTES)
    start += len(after) - len(after.lstrip(b"\x00"))
    if peek.at(start, 4) == b"fLaC":
        return "audio/flac", "FLAC behind an ID3 tag"
    mime_type, evidence = _frames(peek, start) or ("audio/mpeg", "no frame found")
    return mime_type, f"ID3 tag, {evidence}"


def _frames(peek: Peek, start: int) -> tuple[str, str] | None:
    first = peek.at(start, 7)
    for mime_type, measure in (("audio/mpeg", _mp3_frame), ("audio/aac", _aac_frame)):
        length = measure(first)
        if not length:
            continue
        after = peek.at(start + length, 7)
        same_sort = bool(after) and after[0] == 0xFF and first[1] & 0xFE == after[1] & 0xFE
        if (same_sort and measure(after)) or start + length == peek.size:
            return mime_type, "frames in a row"
    return None


def _mp3_frame(header: bytes) -> int:
    """Length of an MPEG audio frame in bytes, 0 if this is none."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return 0
    version, layer = header[1] >> 3 & 3, 4 - (header[1] >> 1 & 3)
    rate_index, bit_index = header[2] >> 2 & 3, header[2] >> 4
    if version == 1 or layer == 4 or rate_index == 3 or bit_index in (0, 15):
        return 0
    rate, padding = MP3_RATES[version][rate_index], header[2] >> 1 & 1
    bits = MP3_KBITS[version == 3, layer][bit_index] * 1000
    if layer == 1:
        return (12 * bits // rate + padding) * 4
    samples = 72 if layer == 3 and version != 3 else 144
    return samples * bits // rate + padding


def _aac_frame(header: bytes) -> int:
    """Length of an ADTS frame in bytes, 0 if this is none."""
    if len(header) < 7 or header[0] != 0xFF or header[1] & 0xF6 != 0xF0 or header[2] >> 2 & 15 > 12:
        return 0
    length = (header[3] & 3) << 11 | header[4] << 3 | header[5] >> 5
    return length if length > 7 else 0


def _transport_stream(peek: Peek) -> tuple[str, str] | None:
    """Packets of 188 bytes that begin with 0x47; on Blu-ray each has 4 bytes before it."""
    for offset, packet in ((0, 188), (4, 192)):
        count = min(TS_PACKETS, (len(peek.head) - offset + packet - 188) // packet)
        if count >= 2 and all(peek.head[offset + packet * n] == 0x47 for n in range(count)):
            return "video/mp2t", f"{count} transport packets of {packet} bytes"
    return None

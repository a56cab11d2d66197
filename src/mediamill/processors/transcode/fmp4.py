"""Fragmented MP4 as HLS wants it (CMAF), written from encoded samples: an init for a track, a fragment for a segment.

Each fragment stands alone: its times depend on its own samples only, so that a segment is the same whoever made the
ones before it. It begins, as decoders count, at exactly the time of its first picture. Pictures that are decoded
before others that are shown earlier need a delay: all are shown later by a constant that the init's edit list takes
off again, the same in all qualities.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

TRACK = 1
NAL_SPS, NAL_PPS = 7, 8
START_CODE = re.compile(rb"\x00\x00\x00?\x01")
HIGH_PROFILES = {100, 110, 122, 244}
SYNC_SAMPLE, OTHER_SAMPLE = 0x02000000, 0x01010000
DEFAULT_BASE_IS_MOOF = 0x020000
UNITY = struct.pack(">9i", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


@dataclass(frozen=True, slots=True)
class Sample:
    """One picture or one frame of sound. `time`: when it is shown, in ticks of the track."""

    time: int
    data: bytes


def lengths_for_start_codes(data: bytes) -> bytes:
    """Annex B, as encoders write it, with a length before each unit, as MP4 holds it."""
    return b"".join(struct.pack(">I", len(unit)) + unit for unit in units_of(data))


def units_of(data: bytes) -> list[bytes]:
    """The NAL units between start codes."""
    return [unit for unit in START_CODE.split(data) if unit]


def codec_of(extradata: bytes) -> str:
    """The codec by RFC 6381, from an H.264 encoder's header."""
    sps = _parameter_sets(extradata)[0]
    return f"avc1.{sps[1:4].hex()}"


def write_video_init(extradata: bytes, width: int, height: int, timescale: int, delay: int) -> bytes:
    """The init of a track of H.264, whose fragments are written with that delay (ticks)."""
    entry = _box(
        b"avc1",
        struct.pack(">6xH16xHHIIIH32xHh", 1, width, height, 0x480000, 0x480000, 0, 1, 24, -1),
        _box(b"avcC", _avc_record(extradata)),
        _box(b"pasp", struct.pack(">II", 1, 1)),
    )
    header = _full_box(b"vmhd", 0, 1, bytes(8))
    return _init(entry, b"vide", header, timescale, (width, height), delay)


def write_audio_init(config: bytes, sample_rate: int, channels: int, bit_rate: int) -> bytes:
    """The init of a track of AAC; `config` is its AudioSpecificConfig."""
    decoder = struct.pack(">BBHBII", 0x40, 0x15, 0, 0, bit_rate, bit_rate) + _descriptor(5, config)
    stream = struct.pack(">HB", TRACK, 0) + _descriptor(4, decoder) + _descriptor(6, b"\x02")
    entry = _box(
        b"mp4a",
        struct.pack(">6xH8xHH4xI", 1, channels, 16, sample_rate << 16),
        _full_box(b"esds", 0, 0, _descriptor(3, stream)),
    )
    header = _full_box(b"smhd", 0, 0, bytes(4))
    return _init(entry, b"soun", header, sample_rate, (0, 0), 0)


def write_fragment(
    sequence: int, samples: Sequence[Sample], end: int, *, pictures: bool, delay: int = 0
) -> bytes:
    """One segment. Samples come in the order of decoding, the first is shown first; the last ends at `end`."""
    times = decode_times([sample.time for sample in samples], delay)
    steps = [later - earlier for earlier, later in pairwise([*times, end])]
    if not samples or times[0] != samples[0].time or min(steps) <= 0:
        raise ValueError("the samples of a segment must begin with the first to be shown, and each take time")
    rows = bytearray()
    for number, (sample, step, time) in enumerate(zip(samples, steps, times, strict=True)):
        flags = OTHER_SAMPLE if pictures and number else SYNC_SAMPLE
        rows += struct.pack(">IIIi", step, len(sample.data), flags, sample.time + delay - time)
    run_bytes = 20 + len(rows)
    movie_bytes = 8 + 16 + 8 + 16 + 20 + run_bytes
    run = _full_box(b"trun", 1, 0xF01, struct.pack(">Ii", len(samples), movie_bytes + 8), bytes(rows))
    track = _box(
        b"traf",
        _full_box(b"tfhd", 0, DEFAULT_BASE_IS_MOOF, struct.pack(">I", TRACK)),
        _full_box(b"tfdt", 1, 0, struct.pack(">Q", times[0])),
        run,
    )
    movie = _box(b"moof", _full_box(b"mfhd", 0, 0, struct.pack(">I", sequence)), track)
    kind = _box(b"styp", b"msdh", bytes(4), b"msdhmsixcmfs")
    return kind + movie + _box(b"mdat", *(sample.data for sample in samples))


def decode_times(shown: Sequence[int], delay: int) -> list[int]:
    """When each sample is decoded: in rising order, none later than it is shown (with the delay)."""
    times: list[int] = []
    latest = None
    for time, in_order in zip(reversed(shown), sorted(shown, reverse=True), strict=True):
        bounds = [in_order, time + delay] if latest is None else [in_order, time + delay, latest - 1]
        latest = min(bounds)
        times.append(latest)
    return times[::-1]


def _init(
    entry: bytes, handler: bytes, header: bytes, timescale: int, size: tuple[int, int], delay: int
) -> bytes:
    kind = _box(b"ftyp", b"iso6", bytes(4), b"iso6cmfcmp41")
    movie = _full_box(
        b"mvhd", 0, 0, struct.pack(">8xIIIH10x", timescale, 0, 0x10000, 0x100), UNITY, bytes(24),
        struct.pack(">I", TRACK + 1),
    )  # fmt: skip
    loud = 0 if size[0] else 0x100
    track = _full_box(
        b"tkhd", 0, 3, struct.pack(">8xI4xI8xHHH2x", TRACK, 0, 0, 0, loud), UNITY,
        struct.pack(">II", size[0] << 16, size[1] << 16),
    )  # fmt: skip
    shift = _full_box(b"elst", 0, 0, struct.pack(">IIiHH", 1, 0, delay, 1, 0))
    edits = _box(b"edts", shift) if delay else b""
    media = _box(
        b"mdia",
        _full_box(b"mdhd", 0, 0, struct.pack(">8xIIHH", timescale, 0, 0x55C4, 0)),
        _full_box(b"hdlr", 0, 0, bytes(4), handler, bytes(12), b"mediamill\0"),
        _box(b"minf", header, _data_here(), _table(entry)),
    )
    extends = _full_box(b"trex", 0, 0, struct.pack(">IIIII", TRACK, 1, 0, 0, 0))
    return kind + _box(b"moov", movie, _box(b"trak", track, edits, media), _box(b"mvex", extends))


def _data_here() -> bytes:
    return _box(b"dinf", _full_box(b"dref", 0, 0, struct.pack(">I", 1), _full_box(b"url ", 0, 1)))


def _table(entry: bytes) -> bytes:
    empty = [_full_box(name, 0, 0, bytes(4)) for name in (b"stts", b"stsc", b"stco")]
    sizes = _full_box(b"stsz", 0, 0, bytes(8))
    return _box(b"stbl", _full_box(b"stsd", 0, 0, struct.pack(">I", 1), entry), *empty, sizes)


def _avc_record(extradata: bytes) -> bytes:
    sps, pps = _parameter_sets(extradata)
    record = struct.pack(">B3sBBH", 1, sps[1:4], 0xFF, 0xE1, len(sps)) + sps
    record += struct.pack(">BH", 1, len(pps)) + pps
    # 4:2:0 of 8 bits, no extensions: what we encode.
    return record + (b"\xfd\xf8\xf8\x00" if sps[1] in HIGH_PROFILES else b"")


def _parameter_sets(extradata: bytes) -> tuple[bytes, bytes]:
    found = {unit[0] & 31: unit for unit in units_of(extradata)}
    if NAL_SPS not in found or NAL_PPS not in found or len(found[NAL_SPS]) < 4:
        raise ValueError("the encoder gave no H.264 header")
    return found[NAL_SPS], found[NAL_PPS]


def _descriptor(tag: int, body: bytes) -> bytes:
    if len(body) > 127:
        raise ValueError("a descriptor is too long")
    return struct.pack(">BB", tag, len(body)) + body


def _full_box(kind: bytes, version: int, flags: int, *parts: bytes) -> bytes:
    return _box(kind, struct.pack(">I", version << 24 | flags), *parts)


def _box(kind: bytes, *parts: bytes) -> bytes:
    return b"".join((struct.pack(">I4s", 8 + sum(map(len, parts)), kind), *parts))

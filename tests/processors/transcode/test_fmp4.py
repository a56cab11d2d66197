"""Fragmented MP4 from encoded samples, read back by libavformat."""

from __future__ import annotations

import io

import av
import pytest

from mediamill.processors.transcode.fmp4 import (
    Sample,
    lengths_for_start_codes,
    units_of,
    write_audio_init,
    write_fragment,
)

pytestmark = pytest.mark.spec("V4")

AAC_CONFIG = bytes.fromhex("1190")  # LC, 48 kHz, stereo


def test_start_codes_of_both_lengths_become_lengths() -> None:
    data = b"\0\0\0\1\x67abc\0\0\1\x68d\0\0\0\1\x65\0\0\3\1e"
    assert units_of(data) == [b"\x67abc", b"\x68d", b"\x65\0\0\3\1e"]
    assert lengths_for_start_codes(data) == (b"\0\0\0\4\x67abc" + b"\0\0\0\2\x68d" + b"\0\0\0\6\x65\0\0\3\1e")


def test_a_fragment_begins_at_its_own_time_and_keeps_the_order_of_decoding() -> None:
    init = write_audio_init(AAC_CONFIG, 48_000, 2, 128_000)
    samples = [Sample(96_000, b"I"), Sample(99_072, b"PP"), Sample(97_024, b"BBB"), Sample(98_048, b"b")]
    data = init + write_fragment(3, samples, 100_096, pictures=True)
    with av.open(io.BytesIO(data), "r", format="mp4") as container:
        packets = [packet for packet in container.demux() if packet.size]
    assert [packet.pts for packet in packets] == [96_000, 99_072, 97_024, 98_048]
    assert [bytes(packet) for packet in packets] == [b"I", b"PP", b"BBB", b"b"]
    assert [packet.is_keyframe for packet in packets] == [True, False, False, False]
    times = [int(packet.dts or 0) for packet in packets]
    assert times == sorted(times)
    assert {packet.duration for packet in packets} == {1024}


@pytest.mark.parametrize(
    "samples",
    [[], [Sample(5, b"x"), Sample(5, b"y")], [Sample(9, b"x"), Sample(5, b"y")], [Sample(20, b"x")]],
)
def test_samples_that_make_no_segment_are_refused(samples: list[Sample]) -> None:
    with pytest.raises(ValueError, match="samples of a segment"):
        write_fragment(1, samples, 20, pictures=True)

"""Sound of any file becomes one stream of samples, whatever is wrong with the file."""

from __future__ import annotations

import struct
import subprocess
import sys
import wave
from pathlib import Path

import numpy as np
import pytest

from mediamill.media.errors import DamagedMediaError, EmptyMediaError
from mediamill.media.sound import RATE, NoSoundError, Samples, SoundReader
from tests.media.making import make_film
from tests.media.speech import DASHWOOD, melody, read, silence, write

FORMATS = {
    "note.ogg": ("libopus", 48_000),
    "song.mp3": ("libmp3lame", 44_100),
    "memo.m4a": ("aac", 44_100),
    "phone.wav": ("pcm_s16le", 8_000),
    "studio.wav": ("pcm_f32le", 96_000),
    "album.flac": ("flac", 11_025),
}


def likeness(one: Samples, other: Samples) -> float:
    """1 if they sound the same, however loud and whenever they begin: by their outlines over time."""
    first, second = _outline(one), _outline(other)
    return max(float(np.corrcoef(first[shift : shift + 500], second[20:520])[0, 1]) for shift in range(0, 41))


def _outline(samples: Samples) -> Samples:
    frames = samples[: len(samples) // 160 * 160].reshape(-1, 160)
    return np.asarray(np.sqrt(np.mean(np.square(frames), 1)), np.float32)


@pytest.mark.spec("C26")
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_and_rate_sounds_the_same(name: str, tmp_path: Path) -> None:
    said = read(DASHWOOD)
    codec, rate = FORMATS[name]
    heard = read(write(tmp_path / name, [said], codec, rate))
    assert len(heard) == pytest.approx(len(said), abs=0.1 * RATE)
    assert heard.dtype == np.float32
    assert likeness(heard, said) > 0.95


def test_stereo_is_mixed_and_the_sound_of_a_video_is_found(tmp_path: Path) -> None:
    said = read(DASHWOOD)
    path = write(tmp_path / "film.mp4", [said], "aac", 48_000, layout="stereo", picture=True)
    assert likeness(read(path), said) > 0.95


def test_blocks_are_a_second_long_and_what_was_heard_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "tone.wav", [melody(2.5)], "pcm_s16le", 22_050)
    with SoundReader(path) as reader:
        lengths = [len(block) for block in reader.blocks()]
    heard = reader.heard
    assert lengths[:2] == [RATE, RATE]
    assert sum(lengths) == pytest.approx(2.5 * RATE, abs=10)
    assert (heard.codec, heard.sample_rate, heard.channels) == ("pcm_s16le", 22_050, 1)
    assert heard.seconds == pytest.approx(2.5, abs=0.01)
    assert heard.peak_db is not None
    assert heard.loudness_db is not None
    assert -40 < heard.loudness_db < heard.peak_db < 0
    assert not heard.cut_short


def test_digital_silence_has_no_loudness(tmp_path: Path) -> None:
    with SoundReader(write(tmp_path / "s.wav", [silence(1)], "pcm_s16le")) as reader:
        assert not np.any(list(reader.blocks()))
    assert (reader.heard.peak_db, reader.heard.loudness_db) == (None, None)


def test_a_file_of_floats_that_are_no_numbers_makes_no_trouble(tmp_path: Path) -> None:
    path = write(tmp_path / "f.wav", [melody(1)], "pcm_f32le")
    data = bytearray(path.read_bytes())
    data[-4000:] = struct.pack("<4f", float("nan"), float("inf"), -float("inf"), 1e30) * 250
    path.write_bytes(data)
    heard = read(path)
    assert np.isfinite(heard).all()
    assert np.abs(heard).max() <= 1


@pytest.mark.parametrize("name", ["note.ogg", "song.mp3", "memo.m4a", "phone.wav", "album.flac"])
def test_what_is_left_of_a_cut_file_is_heard(name: str, tmp_path: Path) -> None:
    codec, rate = FORMATS[name]
    path = write(tmp_path / name, [melody(4)], codec, rate)
    if name == "memo.m4a":  # its index is at the end: without it, nothing can be found
        with pytest.raises(DamagedMediaError):
            read(_cut(path))
    else:
        assert 1.0 < len(read(_cut(path))) / RATE < 2.6


def _cut(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    return path


def test_packets_that_cannot_be_decoded_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.m4a", [melody(6)], "aac")
    data = bytearray(path.read_bytes())
    middle = data.index(b"mdat") + 20_000
    data[middle : middle + 5000] = b"\xff" * 5000
    path.write_bytes(data)
    with SoundReader(path) as reader:
        seconds = sum(len(block) for block in reader.blocks()) / RATE
    assert reader.heard.skipped_packets > 0
    assert seconds == pytest.approx(6, abs=0.5)  # the hole is silent


def test_gaps_between_timestamps_become_silence(tmp_path: Path) -> None:
    path = tmp_path / "gap.mka"
    _write_with_gap(path, 5.0)
    heard = read(path)
    assert len(heard) / RATE == pytest.approx(7.0, abs=0.2)
    assert not heard[int(1.5 * RATE) : int(5.5 * RATE)].any()
    assert heard[int(6.2 * RATE) :].any()


def test_a_gap_of_years_is_a_lie(tmp_path: Path) -> None:
    path = tmp_path / "gap.mka"
    _write_with_gap(path, 3 * 365 * 86400.0)
    assert len(read(path)) / RATE == pytest.approx(2.0, abs=0.2)


def _write_with_gap(path: Path, gap_seconds: float) -> None:
    """A second of music, a gap in the timestamps, another second."""
    import av

    with av.open(str(path), "w", format="matroska") as out:
        stream = out.add_stream("pcm_s16le", rate=RATE, layout="mono")
        for second in range(2):
            samples = (melody(1) * 32767).astype(np.int16).reshape(1, -1)
            for part in range(10):
                frame = av.AudioFrame.from_ndarray(
                    samples[:, part * 1600 : part * 1600 + 1600], "s16", "mono"
                )
                frame.sample_rate = RATE
                frame.pts = part * 1600 + int(second * (1 + gap_seconds) * RATE)
                out.mux(stream.encode(frame))


def test_a_duration_that_lies_harms_nothing(tmp_path: Path) -> None:
    path = _wav(tmp_path / "liar.wav", claimed_bytes=0x7FFF_FF00, data=bytes(2 * RATE))
    with SoundReader(path) as reader:
        assert sum(len(block) for block in reader.blocks()) == pytest.approx(RATE, abs=2048)


@pytest.mark.parametrize("rate", [1, 999, 4_000_000_000])
def test_an_impossible_sample_rate_is_damage(rate: int, tmp_path: Path) -> None:
    path = _wav(tmp_path / "rate.wav", rate=rate, data=bytes(100_000))
    with pytest.raises(DamagedMediaError):
        read(path)


def test_a_recording_of_no_length_is_told(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "none.wav"), "wb") as out:
        out.setparams((1, 2, RATE, 0, "NONE", ""))
    with pytest.raises(EmptyMediaError, match="0 seconds"):
        read(tmp_path / "none.wav")


def test_a_video_without_sound_is_told(tmp_path: Path) -> None:
    path = make_film(tmp_path / "mute.mp4", "mp4", video="mpeg4")
    with pytest.raises(NoSoundError, match="no audio track"):
        read(path)


def _wav(
    path: Path,
    *,
    rate: int = RATE,
    channels: int = 1,
    bits: int = 16,
    data: bytes = b"",
    claimed_bytes: int | None = None,
) -> Path:
    frame = channels * bits // 8
    size = len(data) if claimed_bytes is None else claimed_bytes
    head = struct.pack("<HHIIHH", 1, channels, rate, rate * frame & 0xFFFF_FFFF, frame, bits)
    path.write_bytes(
        b"RIFF"
        + struct.pack("<I", 36 + size)
        + b"WAVEfmt "
        + struct.pack("<I", 16)
        + head
        + b"data"
        + struct.pack("<I", size)
        + data
    )
    return path


LISTEN = """
import resource, sys
from pathlib import Path
from mediamill.media.sound import SoundReader

with SoundReader(Path(sys.argv[1])) as reader:
    for number, block in enumerate(reader.blocks()):
        if number == 5:
            early = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(int(reader.heard.seconds), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - early)
"""


@pytest.mark.spec("C26")
def test_a_gigabyte_of_sound_takes_no_more_memory_than_a_second(tmp_path: Path) -> None:
    size = 1 << 30
    path = _wav(tmp_path / "long.wav", rate=192_000, channels=8, bits=32, claimed_bytes=size)
    with path.open("r+b") as opened:
        opened.truncate(44 + size)  # sparse: it takes no room on the disk
    told = subprocess.run(
        [sys.executable, "-c", LISTEN, str(path)], check=True, capture_output=True, text=True, timeout=250
    )
    seconds, grown_kilobytes = map(int, told.stdout.split())
    assert seconds == size // (192_000 * 8 * 4)
    assert grown_kilobytes < 20_000

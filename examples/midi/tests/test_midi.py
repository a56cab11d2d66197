"""The rules of every processor, and what is true of this one."""

from pathlib import Path

import pytest

from mediamill.media.errors import DamagedMediaError
from mediamill.processors.contract import RefusedMediaError
from mediamill.testing.conformance import MediaConformance
from mediamill_midi.processor import MidiProcessor
from mediamill_midi.song import read_song

PIECES = (
    b"\x00\xff\x03\x0aOde to Joy",
    b"\x00\xff\x51\x03\x07\xa1\x20",  # 120 beats a minute
    b"\x00\xff\x58\x04\x04\x02\x18\x08",  # 4/4
    b"\x00\xff\x59\x02\x02\x00",  # D major
    b"\x00\xc0\x28",  # a violin
)
NOTES = ((66, b"Freu"), (66, b"de, "), (67, b"sch\xc3\xb6"), (69, b"ner "))


def write_song(path: Path) -> None:
    """Four notes, a beat each, with the words on them."""
    track = b"".join(PIECES)
    for note, word in NOTES:
        track += b"\x00\xff\x05" + bytes([len(word)]) + word
        track += bytes([0, 0x90, note, 80, 96, 0x80, note, 0])
    track += b"\x00\xff\x2f\x00"
    head = b"MThd" + (6).to_bytes(4) + (0).to_bytes(2) + (1).to_bytes(2) + (96).to_bytes(2)
    path.write_bytes(head + b"MTrk" + len(track).to_bytes(4) + track)


class TestMidi(MediaConformance):
    processor = MidiProcessor
    mime_types = ("audio/midi",)
    mime_type = "audio/midi"

    def make_sample(self, path: Path) -> None:
        write_song(path)

    def test_the_text_says_what_is_played_and_sung(self, tmp_path: Path) -> None:
        output = self.run_good(self.attempt(tmp_path))
        assert output.result["content"] == (
            "Ode to Joy: 0:02 of music at 120 beats a minute, in D major, 4/4 time.\n"
            "Played by strings (4 notes).\n"
            "Sung:\nFreude, schöner"
        )
        assert output.files == {"lyrics.txt": "lyrics.txt"}

    def test_a_file_that_is_cut_off_is_refused_with_a_reason(self, tmp_path: Path) -> None:
        attempt = self.attempt(tmp_path)
        attempt.source.write_bytes(attempt.source.read_bytes()[:60])
        with pytest.raises(RefusedMediaError, match="the MIDI file is damaged: it ends too early") as caught:
            attempt.run(self.the_processor())
        assert isinstance(caught.value.__cause__, DamagedMediaError)


def test_a_slower_half_takes_longer(tmp_path: Path) -> None:
    write_song(tmp_path / "song.mid")
    data = (tmp_path / "song.mid").read_bytes()
    slow = data.replace(b"\xff\x51\x03\x07\xa1\x20", b"\xff\x51\x03\x0f\x42\x40")
    assert read_song(slow).seconds == 2 * read_song(data).seconds == 4.0

"""What a MIDI file holds. Pure: bytes in, a Song out; a damaged file is a ValueError with a reason."""

from __future__ import annotations

from dataclasses import dataclass, field

MOST_EVENTS = 2_000_000
DRUMS = 9  # the tenth channel, by the General MIDI standard
FAMILIES = (
    "piano", "bells", "organ", "guitar", "bass", "strings", "ensemble", "brass",
    "reed", "pipe", "synth lead", "synth pad", "synth effects", "folk", "percussion", "sound effects",
)  # fmt: skip
MAJOR = ("C♭", "G♭", "D♭", "A♭", "E♭", "B♭", "F", "C", "G", "D", "A", "E", "B", "F♯", "C♯")
MINOR = ("A♭", "E♭", "B♭", "F", "C", "G", "D", "A", "E", "B", "F♯", "C♯", "G♯", "D♯", "A♯")


@dataclass
class Song:
    """The music of a file."""

    title: str = ""
    key: str = ""
    metre: str = ""
    notes: dict[str, int] = field(default_factory=dict)  # by family of instruments
    lyrics: str = ""
    seconds: float = 0.0
    beats_per_minute: int = 120


class Reader:
    """Bytes from front to back; the end comes as an error, never as nonsense."""

    def __init__(self, data: bytes) -> None:
        self._data, self.place = data, 0

    def take(self, count: int) -> bytes:
        """The next bytes."""
        taken = self._data[self.place : self.place + count]
        if len(taken) < count:
            raise ValueError("it ends too early")
        self.place += count
        return taken

    def number(self) -> int:
        """A number of up to four bytes, seven bits in each."""
        value = 0
        for _ in range(4):
            [byte] = self.take(1)
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value
        raise ValueError("a number has no end")

    def more(self) -> bool:
        """Is anything left?"""
        return self.place < len(self._data)


def read_song(data: bytes) -> Song:
    """Everything that can be said of the file."""
    reader = Reader(data)
    if reader.take(4) != b"MThd" or int.from_bytes(reader.take(4)) != 6:
        raise ValueError("it has no MIDI header")
    _form, tracks, division = (int.from_bytes(reader.take(2)) for _ in range(3))
    song, tempos, last = Song(), [(0, 500_000)], 0
    left = MOST_EVENTS
    for _ in range(tracks):
        name, length = reader.take(4), int.from_bytes(reader.take(4))
        chunk = reader.take(length)
        if name == b"MTrk":
            ticks, events = _read_track(Reader(chunk), song, tempos, left)
            last, left = max(last, ticks), left - events
    song.seconds = _seconds(last, division, sorted(tempos))
    song.beats_per_minute = round(60_000_000 / max(1, sorted(tempos)[-1][1]))
    song.lyrics = song.lyrics.strip()
    return song


def _read_track(reader: Reader, song: Song, tempos: list[tuple[int, int]], most: int) -> tuple[int, int]:
    """Its length in ticks, and how many events it had."""
    ticks = status = events = 0
    programs = dict.fromkeys(range(16), 0)
    while reader.more():
        events += 1
        if events > most:
            raise ValueError("it has too many events")
        ticks += reader.number()
        [byte] = reader.take(1)
        if byte == 0xFF:
            [kind] = reader.take(1)
            _read_meta(kind, reader.take(reader.number()), ticks, song, tempos)
            continue
        if byte in (0xF0, 0xF7):
            reader.take(reader.number())
            continue
        if byte >= 0x80:
            status, first = byte, reader.take(1)[0]
        else:
            first = byte  # the status of the event before goes on
        if not 0x80 <= status < 0xF0:
            raise ValueError("an event is of no known sort")
        sort, channel = status & 0xF0, status & 0x0F
        if sort == 0xC0:
            programs[channel] = first & 0x7F
        elif sort != 0xD0:
            [second] = reader.take(1)
            if sort == 0x90 and second > 0:
                player = "drums" if channel == DRUMS else FAMILIES[programs[channel] // 8]
                song.notes[player] = song.notes.get(player, 0) + 1
    return ticks, events


def _read_meta(kind: int, data: bytes, ticks: int, song: Song, tempos: list[tuple[int, int]]) -> None:
    match kind, len(data):
        case 0x03, _ if not song.title:
            song.title = _text(data).strip()
        case 0x05, _:
            song.lyrics += _text(data).replace("\r", "\n").replace("/", "\n").replace("\\", "\n\n")
        case 0x51, 3:
            tempos.append((ticks, int.from_bytes(data)))
        case 0x58, 4 if not song.metre and data[1] < 8:
            song.metre = f"{data[0]}/{2 ** data[1]}"
        case 0x59, 2 if not song.key:
            sharps = int.from_bytes(data[:1], signed=True)
            if -7 <= sharps <= 7:
                song.key = f"{MINOR[sharps + 7]} minor" if data[1] else f"{MAJOR[sharps + 7]} major"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\0", "")


def _seconds(last: int, division: int, tempos: list[tuple[int, int]]) -> float:
    """Ticks as time: by beats and their tempos, or by the frames of a film."""
    if division & 0x8000:
        return last / max(1, (256 - (division >> 8)) * (division & 0xFF))
    seconds = 0.0
    for (start, tempo), (end, _) in zip(tempos, [*tempos[1:], (last, 0)], strict=True):
        seconds += max(0, min(end, last) - start) * tempo / 1_000_000 / max(1, division)
    return seconds

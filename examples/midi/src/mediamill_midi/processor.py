"""The processor: a file in, words out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mediamill.media.errors import DamagedMediaError
from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.result import ProcessingResult
from mediamill_midi.song import Song, read_song

MOST_BYTES = 8_000_000


class MidiProcessor(BaseMediaProcessor):
    """What is played, how long, and the words that are sung."""

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        with file_path.open("rb") as file:
            data = file.read(MOST_BYTES)
        try:
            song = read_song(data)
        except ValueError as error:
            raise DamagedMediaError(f"the MIDI file is damaged: {error}") from error
        files = {}
        if song.lyrics:
            (self.given.folder / "lyrics.txt").write_text(song.lyrics)
            files["lyrics.txt"] = "lyrics.txt"
        facts = {name: value for name, value in asdict(song).items() if name != "lyrics"}
        return ProcessingResult(in_words(song), facts=facts, files=files)


def in_words(song: Song) -> str:
    """One sentence about the music, one about who plays, then what is sung."""
    minutes, seconds = divmod(round(song.seconds), 60)
    music = [f"{minutes}:{seconds:02} of music at {song.beats_per_minute} beats a minute"]
    music += [f"in {song.key}"] if song.key else []
    music += [f"{song.metre} time"] if song.metre else []
    players = sorted(song.notes.items(), key=lambda player: -player[1])
    lines = [f"{song.title or 'A song without a title'}: {', '.join(music)}."]
    lines += (
        ["Played by " + ", ".join(f"{name} ({count} notes)" for name, count in players) + "."]
        if players
        else []
    )
    lines += [f"Sung:\n{song.lyrics}"] if song.lyrics else []
    return "\n".join(lines)

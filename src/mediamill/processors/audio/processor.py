"""Sound to transcript: what a conversation reads, captions, and facts for search."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mediamill.media.probe import probe
from mediamill.media.sound import Heard
from mediamill.processors.audio.captions import CAPTIONS_FILE, write_captions
from mediamill.processors.audio.transcribe import Progress, transcribe_file
from mediamill.processors.audio.wording import SHORT_SECONDS, word_transcript
from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.models.contract import Segment, Transcript
from mediamill.processors.result import ProcessingResult

SEGMENTS_FILE = "segments.json"
SEGMENTS_CHARACTERS = 200_000  # of segments in a result; all of them are then in a file


class AudioTranscriptionProcessor(BaseMediaProcessor):
    """Derivatives: `captions.vtt` for what is longer than a minute, or when the payload asks for `previews`;
    `segments.json` when the segments are too many for a result."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        super().__init__(mime_types, timeout_seconds)
        self.network = self.settings.speech == "openai"

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """The transcript, continued from where an earlier attempt was interrupted."""
        del caption, media_metadata
        media = probe(file_path, mime_type)
        heard: list[Heard] = []

        def on_progress(progress: Progress) -> None:
            heard[:] = [progress.heard] if progress.heard else []
            self.given.report("transcribing", progress.percent, checkpoint=progress.checkpoint)

        transcript = transcribe_file(file_path, checkpoint=self.given.checkpoint, on_progress=on_progress)
        segments, files = self._write_files(transcript)
        facts = {
            "duration_seconds": round(transcript.duration_seconds, 2),
            "speech_seconds": round(transcript.speech_seconds, 2),
            "language": transcript.language,
            "language_score": transcript.language_score,
            "segments": segments,
            "container": media.container,
            "bit_rate": media.bit_rate,
            "tags": dict(media.tags),
            **(_sound_facts(heard[0]) if heard else {}),
        }
        return ProcessingResult(
            word_transcript(transcript), models=[transcript.model], facts=facts, files=files
        )

    def _write_files(self, transcript: Transcript) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """The segments that fit into the result, and the files."""
        told, files = _as_json(transcript.segments), dict[str, str]()
        asked = bool(self.given.payload.get("previews", False))
        if told and (asked or transcript.duration_seconds > SHORT_SECONDS):
            self._write(CAPTIONS_FILE, write_captions(transcript.segments, transcript.language), files)
        if sum(len(segment["text"]) + 40 for segment in told) > SEGMENTS_CHARACTERS:
            self._write(SEGMENTS_FILE, json.dumps(told, ensure_ascii=False), files)
            told = []
        return told, files

    def _write(self, name: str, text: str, files: dict[str, str]) -> None:
        (self.given.folder / name).write_text(text, encoding="utf-8", errors="replace")
        files[name] = name


def _as_json(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    return [{"start": one.start_seconds, "end": one.end_seconds, "text": one.text} for one in segments]


def _sound_facts(heard: Heard) -> dict[str, Any]:
    return {
        "codec": heard.codec,
        "sample_rate": heard.sample_rate,
        "channels": heard.channels,
        "peak_db": heard.peak_db,
        "loudness_db": heard.loudness_db,
        "skipped_packets": heard.skipped_packets,
        "cut_short": heard.cut_short,
    }

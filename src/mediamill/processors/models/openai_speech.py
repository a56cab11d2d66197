"""Speech to text by any OpenAI-compatible endpoint.

A small sound file in a container that every server reads goes as it is, streamed from the disk. Anything else (long,
exotic, a video) is cut where nobody speaks, and only the speech leaves, as FLAC: lossless, half of WAV, read by all.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from mediamill.media.sniff import sniff
from mediamill.media.sound import RATE, Samples, SoundReader
from mediamill.processors.audio.pieces import Piece, find_pieces
from mediamill.processors.models.contract import OnSegment, Segment, Transcript
from mediamill.processors.models.endpoint import Answer, NonsenseError, RefusedError
from mediamill.processors.models.openai_chat import openai_endpoint
from mediamill.processors.models.spoken_languages import language_code

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "whisper-1"
WHOLE_FILE_BYTES = 24_000_000  # the API takes 25 MB, form included
SENT_AS_IT_IS = {
    "audio/flac": "flac",
    "audio/x-flac": "flac",
    "audio/mp4": "m4a",
    "audio/x-m4a": "m4a",
    "audio/mpeg": "mp3",
    "audio/ogg": "ogg",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/webm": "webm",
}
BUNDLE_SECONDS = 300.0
GAP_SECONDS = 10.0  # a longer silence between two pieces is not sent
WITHOUT_TIMES_SECONDS = 60.0  # longest file to be sent whole to a server that tells no times
NO_SUCH_FORMAT = (400, 422)


class OpenAiSpeech:
    """Asks for times first; a server that has none is remembered and gets shorter pieces."""

    network = True

    def __init__(self, settings: Settings) -> None:
        self._endpoint = openai_endpoint(settings, "MEDIAMILL_SPEECH_MODEL")
        self._asked = settings.speech_model or DEFAULT_MODEL
        self.model = self._endpoint.model_id(self._asked)
        self._tells_times = True

    def transcribe(self, path: Path, *, language: str | None, on_segment: OnSegment) -> Transcript:
        """The whole file in one request if it is small, else its speech in pieces."""
        suffix = self._suffix_if_sent_whole(path)
        if suffix is not None:
            return self._transcribe_whole(path, suffix, language, on_segment)
        return self._transcribe_pieces(path, language, on_segment)

    def _suffix_if_sent_whole(self, path: Path) -> str | None:
        if path.stat().st_size > WHOLE_FILE_BYTES:
            return None
        suffix = SENT_AS_IT_IS.get(sniff(path).mime_type)
        if suffix is not None and not self._tells_times:
            seconds = _claimed_seconds(path)
            return suffix if seconds is not None and seconds <= WITHOUT_TIMES_SECONDS else None
        return suffix

    def _transcribe_whole(
        self, path: Path, suffix: str, language: str | None, on_segment: OnSegment
    ) -> Transcript:
        with path.open("rb") as file:
            told = self._ask(file, suffix, language)
        seconds = _time(told.get("duration")) or _claimed_seconds(path)
        segments = read_segments(told, seconds or 0.0)
        for segment in segments:
            on_segment(segment)
        duration = max([seconds or 0.0, *(segment.end_seconds for segment in segments)])
        return self._transcript(segments, language, told, duration, _length(segments))

    def _transcribe_pieces(self, path: Path, language: str | None, on_segment: OnSegment) -> Transcript:
        segments: list[Segment] = []
        told: dict[str, Any] = {}
        speech_seconds = 0.0
        with SoundReader(path) as reader:
            longest = BUNDLE_SECONDS if self._tells_times else 0.0
            for part in bundle(find_pieces(reader.blocks()), longest):
                answer = self._ask(io.BytesIO(as_flac(part.samples)), "flac", language)
                told = told or answer
                speech_seconds += part.speech_seconds
                for segment in read_segments(answer, len(part.samples) / RATE, part.start_seconds):
                    segments.append(segment)
                    on_segment(segment)
            duration = reader.heard.seconds
        return self._transcript(tuple(segments), language, told, duration, speech_seconds)

    def _transcript(
        self,
        segments: tuple[Segment, ...],
        asked: str | None,
        told: dict[str, Any],
        duration: float,
        speech: float,
    ) -> Transcript:
        self.model = self._endpoint.stated_id(told, self._asked)
        language = language_code(told.get("language")) or asked
        return Transcript(segments, language, None, duration, speech, self.model)

    def _ask(self, file: BinaryIO, suffix: str, language: str | None) -> dict[str, Any]:
        if self._tells_times:
            try:
                return self._send(file, suffix, language, "verbose_json")
            except RefusedError as error:
                if error.status not in NO_SUCH_FORMAT:
                    raise
            told = self._send(file, suffix, language, "json")  # if this fails too, it was not the format
            self._tells_times = False
            return told
        return self._send(file, suffix, language, "json")

    def _send(self, file: BinaryIO, suffix: str, language: str | None, form: str) -> dict[str, Any]:
        fields = {"model": self._asked, "response_format": form}
        if language:
            fields["language"] = language

        def read(answer: Answer) -> dict[str, Any]:
            told = answer.json()
            if not isinstance(told.get("text"), str) and not isinstance(told.get("segments"), list):
                raise NonsenseError("the answer has no transcript")
            return told

        files = {"file": (f"sound.{suffix}", file, f"audio/{suffix}")}  # rewound for each try by httpx
        return self._endpoint.ask("POST", "/audio/transcriptions", read, data=fields, files=files)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Neighbouring pieces in one, with the silence between them, so that times inside stay right."""

    start_seconds: float
    speech_seconds: float
    samples: Samples


def bundle(pieces: Iterable[Piece], longest_seconds: float) -> Iterator[Bundle]:
    """As few requests as may be; a piece is never cut."""
    held: list[Piece] = []
    for piece in pieces:
        if held:
            gap = piece.start_seconds - held[-1].end_seconds
            if gap > GAP_SECONDS or piece.end_seconds - held[0].start_seconds > longest_seconds:
                yield _join(held)
                held = []
        held.append(piece)
    if held:
        yield _join(held)


def _join(pieces: list[Piece]) -> Bundle:
    start = pieces[0].start_seconds
    samples = np.zeros(round((pieces[-1].end_seconds - start) * RATE), np.float32)
    for piece in pieces:
        begin = round((piece.start_seconds - start) * RATE)
        room = samples[begin : begin + len(piece.samples)]
        room[:] = piece.samples[: len(room)]
    return Bundle(start, sum(piece.speech_seconds for piece in pieces), samples)


def as_flac(samples: Samples) -> bytes:
    """One channel, 16 bits, 16 kHz."""
    import av

    target = io.BytesIO()
    with av.open(target, "w", format="flac") as container:
        stream = container.add_stream("flac", rate=RATE, layout="mono")
        stream.format = "s16"
        whole = (np.clip(samples, -1, 1) * 32767).astype(np.int16)
        for begin in range(0, len(whole), RATE):
            frame = av.AudioFrame.from_ndarray(whole[None, begin : begin + RATE], format="s16", layout="mono")
            frame.sample_rate, frame.pts = RATE, begin
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return target.getvalue()


def read_segments(told: dict[str, Any], seconds: float, start: float = 0.0) -> tuple[Segment, ...]:
    """The segments of an answer in times of the file; without any, its text as one."""
    listed = told.get("segments")
    found = []
    for each in listed if isinstance(listed, list) else []:
        begin, end = (
            (_time(each.get(key)) for key in ("start", "end")) if isinstance(each, dict) else (None, None)
        )
        if begin is None or end is None:
            raise NonsenseError("the answer has segments without times")
        if text := str(each.get("text") or "").strip():
            found.append(Segment(start + begin, start + max(begin, end), text))
    text = str(told.get("text") or "").strip()
    if not found and text:
        found = [Segment(start, start + seconds, text)]
    return tuple(found)


def _length(segments: tuple[Segment, ...]) -> float:
    return sum(each.end_seconds - each.start_seconds for each in segments)


def _time(value: object) -> float | None:
    known = isinstance(value, int | float) and math.isfinite(value) and 0 <= value < 1e7
    return float(value) if known else None  # type: ignore[arg-type]


def _claimed_seconds(path: Path) -> float | None:
    with SoundReader(path) as reader:
        return reader.heard.claimed_seconds

"""How we listen with Whisper: piece by piece in constant memory, times of the file, doubtful words left out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mediamill.errors import GiveUpError
from mediamill.media.sound import RATE, Heard, Samples, SoundReader
from mediamill.processors.audio.doubts import collapse_repeats, is_doubtful
from mediamill.processors.audio.pieces import Piece, find_pieces
from mediamill.processors.models.contract import OnSegment, Segment, Transcript
from mediamill.processors.models.resumable import Listened, OnListened

if TYPE_CHECKING:
    from faster_whisper import WhisperModel
    from faster_whisper.transcribe import Segment as WhisperSegment

BEAM = 5
LANGUAGE_SECONDS = 30  # of speech are heard before the language is settled
TEMPERATURES = (0.0, 0.4, 0.8)  # a piece that comes out as nonsense is tried again, more freely each time
TELL_SECONDS = 60.0  # of sound without speech between two words on progress


class UnknownLanguageError(GiveUpError):
    """The speech model does not know the language."""

    code = "language_unknown"


def load_whisper(folder: Path, threads: int, device: str = "cpu", compute_type: str = "int8") -> WhisperModel:
    """A model from files on this machine; nobody is asked for anything."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from faster_whisper import WhisperModel

    whisper = WhisperModel(
        str(folder), device=device, compute_type=compute_type, cpu_threads=threads, local_files_only=True
    )
    whisper.encode = _once(whisper.encode)
    return whisper


def _once(encode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The last thing that was encoded is not encoded again: half of the work on a short voice note."""
    last: list[Any] = [None, None]

    def encode_once(features: Any) -> Any:
        if last[0] is None or not np.array_equal(last[0], features):
            last[:] = features, encode(features)
        return last[1]

    return encode_once


class WhisperSpeech:
    """A speech model that can go on where an earlier attempt ended (`transcribe_from`)."""

    network = False

    def __init__(self, model: str, whisper: WhisperModel) -> None:
        self.model = model
        self.beam = BEAM
        self._whisper = whisper

    def transcribe(self, path: Path, *, language: str | None, on_segment: OnSegment) -> Transcript:
        """Read the file as a stream, however long it is; segments are told as they are found."""
        return self.transcribe_from(
            path, 0.0, language=language, on_segment=on_segment, on_listened=lambda _: None
        )

    def transcribe_from(
        self,
        path: Path,
        start_seconds: float,
        *,
        language: str | None,
        on_segment: OnSegment,
        on_listened: OnListened,
    ) -> Transcript:
        """Only what is said after `start_seconds`, a `done_seconds` that was told before.

        The file is read from its start all the same, so that it is cut into the same pieces.
        """
        if language is not None and language not in self._whisper.supported_languages:
            raise UnknownLanguageError(
                f"the speech model {self.model} does not know the language {language!r}"
            )
        listening = _Listening(self._whisper, self.beam, language, start_seconds, on_segment, on_listened)
        with SoundReader(path) as reader:
            listening.listen(reader)
        return Transcript(
            segments=tuple(listening.segments),
            language=listening.language,
            language_score=listening.language_score,
            duration_seconds=reader.heard.seconds,
            speech_seconds=listening.speech_seconds,
            model=self.model,
        )


@dataclass
class _Listening:
    """One file that is listened to."""

    whisper: WhisperModel
    beam: int
    language: str | None
    done_seconds: float
    on_segment: OnSegment
    on_listened: OnListened
    language_score: float | None = None
    speech_seconds: float = 0.0
    segments: list[Segment] = field(default_factory=list)

    def listen(self, reader: SoundReader) -> None:
        for piece in self._settle_language(find_pieces(self._told(reader))):
            self.speech_seconds += piece.speech_seconds
            if piece.end_seconds <= self.done_seconds:
                continue
            for segment in self._transcribe(piece):
                self.segments.append(segment)
                self.on_segment(segment)
            self.done_seconds = piece.end_seconds
            self._tell(reader.heard, self.done_seconds)
        self._tell(reader.heard, reader.heard.seconds)

    def _tell(self, heard: Heard, done_seconds: float) -> None:
        self.on_listened(Listened(done_seconds, heard, self.language, self.language_score))

    def _told(self, reader: SoundReader) -> Iterator[Samples]:
        """The blocks; long stretches without speech are told, too."""
        told = 0.0
        for block in reader.blocks():
            yield block
            if reader.heard.seconds - max(told, self.done_seconds) >= TELL_SECONDS:
                told = reader.heard.seconds
                self._tell(reader.heard, self.done_seconds)

    def _settle_language(self, pieces: Iterator[Piece]) -> Iterable[Piece]:
        """The same pieces; the first of them are heard ahead to find the language."""
        if self.language is not None:
            return pieces
        if not self.whisper.model.is_multilingual:
            self.language = "en"
            return pieces
        first: list[Piece] = []
        for piece in pieces:
            first.append(piece)
            if sum(len(one.samples) for one in first) >= LANGUAGE_SECONDS * RATE:
                break
        if first:
            heard = np.concatenate([piece.samples for piece in first])[: LANGUAGE_SECONDS * RATE]
            self.language, self.language_score = _find_language(self.whisper, heard)
        return chain(first, pieces)

    def _transcribe(self, piece: Piece) -> Iterator[Segment]:
        """What is said in a piece, in the time of the file. Pieces know nothing of each other."""
        import ctranslate2

        ctranslate2.set_random_seed(0)  # the same piece gives the same words, whoever asks
        found, _ = self.whisper.transcribe(
            piece.samples,
            language=self.language,
            beam_size=self.beam,
            temperature=TEMPERATURES,
            condition_on_previous_text=False,
        )
        earliest = piece.start_seconds
        for one in found:
            segment = _believed(one, piece, earliest)
            if segment is not None:
                earliest = segment.end_seconds
                yield segment


def _find_language(whisper: WhisperModel, samples: Samples) -> tuple[str, float]:
    """The likeliest language. The features are cut as in a transcription, so that they are encoded once for both."""
    from faster_whisper.audio import pad_or_trim

    features = whisper.feature_extractor(samples)[:, :-1]
    encoded = whisper.encode(pad_or_trim(features))
    token, score = whisper.model.detect_language(encoded)[0][0]
    return token.strip("<|>"), round(score, 3)


def _believed(one: WhisperSegment, piece: Piece, earliest: float) -> Segment | None:
    text = collapse_repeats(one.text.strip())
    start = min(max(piece.start_seconds + one.start, earliest), piece.end_seconds)
    end = min(max(piece.start_seconds + one.end, start), piece.end_seconds)
    doubtful = is_doubtful(
        text,
        no_speech=one.no_speech_prob,
        log_probability=one.avg_logprob,
        compression=one.compression_ratio,
        speech_seconds=piece.speech_seconds,
    )
    if not text or doubtful:
        return None
    return Segment(round(start, 2), round(end, 2), text)

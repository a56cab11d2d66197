"""Speech in a stream of sound, cut at silences into pieces that a speech model takes at once.

A voice detector (Silero) gives each frame of 32 ms a probability; soft sound is amplified for it, or it would
miss those who speak far from the microphone. A piece opens with the first frame of speech
and a little of what came before, and closes when nobody has spoken for a while. Pauses inside a piece stay, so
times inside a piece are times of the file. One that grows too long is cut at its longest pause. Never more
than one piece is held in memory.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mediamill.media.sound import RATE, Samples

FRAME = 512  # samples the detector looks at
CONTEXT = 64  # samples before them that it sees too
FRAME_SECONDS = FRAME / RATE
BEGINS = 0.5  # probability at which speech begins …
GOES_ON = 0.35  # … and down to which it goes on
LEVEL = 0.1  # of speech, as the detector likes it
MOST_GAIN = 8.0
FADE = 0.5  # per block: how fast a loud sound is forgotten


def _frames(seconds: float) -> int:
    return round(seconds / FRAME_SECONDS)


LONGEST = _frames(29.0)  # speech models look at 30 seconds
EARLIEST_CUT = _frames(12.0)
PAUSE = _frames(2.0)  # a longer one ends the piece
PADDING = _frames(0.35)  # kept before and after speech: soft beginnings and ends
LEAST_SPEECH = _frames(0.2)  # a shorter sound is a click, not a word


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the file in which somebody speaks."""

    start_seconds: float
    speech_seconds: float
    samples: Samples

    @property
    def end_seconds(self) -> float:
        """Where it ends in the file."""
        return self.start_seconds + len(self.samples) / RATE


@dataclass(frozen=True, slots=True)
class _Frame:
    samples: Samples
    speech: bool
    probability: float


def find_pieces(blocks: Iterable[Samples]) -> Iterator[Piece]:
    """Pieces of speech in the order of the file. Silence, noise and music make none."""
    held: list[_Frame] = []  # the open piece
    before: deque[_Frame] = deque(maxlen=PADDING)  # what came just before it
    quiet = 0
    for number, frame in enumerate(_listen(blocks)):
        if not held:
            before.append(frame)
            if frame.speech:
                held, quiet = list(before), 0
                before.clear()
            continue
        held.append(frame)
        quiet = 0 if frame.speech else quiet + 1
        if quiet >= PAUSE:
            yield from _close(held, number + 1)
            before.extend(held[-PADDING:])
            held = []
        elif len(held) >= LONGEST:
            cut = _best_cut(held)
            yield from _close(held[:cut], number + 1 - len(held) + cut)
            held = held[cut:]
            if not any(one.speech for one in held):
                before.extend(held)
                held = []
    yield from _close(held, number + 1 if held else 0)


def _close(held: list[_Frame], end: int) -> Iterator[Piece]:
    """The piece that ends before frame `end`, without its silent tail; nothing if hardly anybody spoke."""
    spoken = [index for index, frame in enumerate(held) if frame.speech]
    if len(spoken) < LEAST_SPEECH:
        return
    kept = held[: spoken[-1] + 1 + PADDING]
    yield Piece(
        start_seconds=(end - len(held)) * FRAME_SECONDS,
        speech_seconds=len(spoken) * FRAME_SECONDS,
        samples=np.concatenate([frame.samples for frame in kept]),
    )


def _best_cut(held: list[_Frame]) -> int:
    """The middle of the longest pause, the later of two; without any pause, where speech is least likely."""
    best, cut, run = 0, 0, 0
    for index in range(EARLIEST_CUT, len(held)):
        run = 0 if held[index].speech else run + 1
        if run and run >= best:
            best, cut = run, index + 1 - run // 2
    if cut:
        return cut
    return min(range(EARLIEST_CUT, len(held)), key=lambda index: held[index].probability)


def _listen(blocks: Iterable[Samples]) -> Iterator[_Frame]:
    """Frame by frame, with the detector's word on each. A last frame that is not whole is filled with silence."""
    detector = _Detector()
    rest = np.zeros(0, np.float32)
    speech = False
    for block in _then_fill(blocks):
        joined = np.concatenate([rest, block])
        whole = len(joined) - len(joined) % FRAME
        frames, rest = joined[:whole].reshape(-1, FRAME), joined[whole:]
        for samples, probability in zip(frames, detector.probabilities(frames), strict=True):
            speech = probability >= (GOES_ON if speech else BEGINS)
            yield _Frame(samples, speech, float(probability))


def _then_fill(blocks: Iterable[Samples]) -> Iterator[Samples]:
    total = 0
    for block in blocks:
        total += len(block)
        yield block
    yield np.zeros(-total % FRAME, np.float32)


class _Detector:
    """The voice detector, with its memory of what it heard."""

    def __init__(self) -> None:
        self._session = _session()
        self._hidden = np.zeros((1, 1, 128), np.float32)
        self._cell = np.zeros((1, 1, 128), np.float32)
        self._context = np.zeros((1, CONTEXT), np.float32)
        self._level = 0.0

    def probabilities(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        """How likely each frame is speech; frames follow those of the call before."""
        if not len(frames):
            return np.zeros(0, np.float32)
        frames = self._amplified(frames)
        context = np.concatenate([self._context, frames[:-1, -CONTEXT:]])
        self._context = frames[-1:, -CONTEXT:].copy()
        heard, self._hidden, self._cell = self._session.run(
            None, {"input": np.concatenate([context, frames], 1), "h": self._hidden, "c": self._cell}
        )
        found: NDArray[np.float32] = np.asarray(heard, np.float32).reshape(-1)
        return found

    def _amplified(self, frames: NDArray[np.float32]) -> NDArray[np.float32]:
        loud = float(np.quantile(np.sqrt(np.mean(np.square(frames), 1)), 0.9))
        self._level = max(loud, self._level * FADE)
        gain = min(MOST_GAIN, max(1.0, LEVEL / max(self._level, 1e-6)))
        amplified: NDArray[np.float32] = np.clip(frames * np.float32(gain), -1.0, 1.0)
        return amplified


@functools.cache
def _session() -> Any:
    """The network that comes with faster-whisper, loaded once per process."""
    from faster_whisper.vad import get_vad_model

    return get_vad_model().session

"""The head clip: the first ten seconds as a small MP4 that plays at once, made of frames as they are decoded."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.video.frame import PictureType, VideoFrame
from av.video.stream import VideoStream

from mediamill.processors.transcode.chain import Chain
from mediamill.processors.transcode.ladder import Rung
from mediamill.processors.transcode.source_facts import SourceFacts

SECONDS = 10.0
WAIT_SECONDS = 2.0  # for sound that lies behind its pictures in the file
SHORT_SIDE, LONG_SIDE = 720, 1280
OPTIONS = {"preset": "veryfast", "crf": "26", "maxrate": "3000000", "bufsize": "6000000"}
TIME_BASE = Fraction(1, 90_000)
RATE, LAYOUT, FRAME = 48_000, "stereo", 1024
SOUND_BIT_RATE = 96_000
USUAL_RATE, MOST_RATE = 25, 120


class HeadClip:
    """Fed with pictures and sound in the order of the file; `is_done` when nothing more is wanted."""

    def __init__(self, path: Path, facts: SourceFacts, origin: float, threads: int) -> None:
        self._origin, self.is_done = origin, False
        rung = clip_size(facts.width, facts.height)
        self._chain = Chain(facts, (rung,), threads, path.parent)
        self._out = av.open(str(path), "w", format="mp4", options={"movflags": "+faststart"})
        self._video = self._add_video(rung, facts, threads)
        self._audio = self._add_audio() if facts.has_sound else None
        self._resampler = av.AudioResampler("fltp", LAYOUT, RATE, frame_size=FRAME)
        self._last_ticks = -1
        self._heard_samples = 0  # where the sound ends so far

    def see(self, at: float, frame: VideoFrame) -> None:
        """One more picture."""
        if at < SECONDS:
            self._encode(at, frame)
        elif self._audio is None or self._heard_samples >= SECONDS * RATE or at >= SECONDS + WAIT_SECONDS:
            self.is_done = True

    def hear(self, frame: AudioFrame) -> None:
        """One more piece of sound."""
        if self._audio is None or self.is_done:
            return
        if frame.pts is not None and frame.time_base is not None:
            frame.pts = round((float(frame.pts * frame.time_base) - self._origin) * RATE)
            frame.time_base = Fraction(1, RATE)
        for piece in self._resampler.resample(frame):
            self._encode_sound(piece)

    def close(self, *, whole: bool = True) -> None:
        """Write what is left; the file is complete then. Not `whole`: it is given up."""
        self.is_done = True
        try:
            if whole:
                if self._audio is not None:
                    self._end_sound(self._audio)
                self._out.mux(self._video.encode(None))
        finally:
            self._out.close()

    def _encode(self, at: float, frame: VideoFrame) -> None:
        ticks = round(at / TIME_BASE)
        if ticks <= self._last_ticks:
            return
        for _, picture in self._chain.pictures(frame, (True,)):
            picture.pts, picture.time_base, self._last_ticks = ticks, TIME_BASE, ticks
            picture.pict_type = PictureType.NONE  # that of the source is not for our encoder
            self._out.mux(self._video.encode(picture))

    def _encode_sound(self, piece: AudioFrame) -> None:
        """Gaps stay gaps; what goes back in time is put behind what is there."""
        at = max(piece.pts if piece.pts is not None else self._heard_samples, self._heard_samples)
        if self._audio is None or (piece.pts or 0) < 0 or at >= SECONDS * RATE:
            self._heard_samples = max(self._heard_samples, at)
            return
        piece.pts, piece.time_base = at, Fraction(1, RATE)
        self._heard_samples = at + piece.samples
        self._out.mux(self._audio.encode(piece))

    def _end_sound(self, audio: AudioStream) -> None:
        if self._heard_samples == 0:  # a track that is announced must not be empty
            silence = AudioFrame.from_ndarray(np.zeros((2, FRAME), np.float32), "fltp", LAYOUT)
            silence.sample_rate = RATE
            silence.pts = 0
            self._encode_sound(silence)
        self._out.mux(audio.encode(None))

    def _add_video(self, rung: Rung, facts: SourceFacts, threads: int) -> VideoStream:
        told = facts.media.video.fps if facts.media.video else None
        rate = Fraction(min(told or USUAL_RATE, MOST_RATE)).limit_denominator(1001)
        stream = self._out.add_stream("libx264", rate=rate, options=OPTIONS)
        stream.width, stream.height, stream.pix_fmt = rung.width, rung.height, "yuv420p"
        context = stream.codec_context
        context.time_base, context.thread_count = TIME_BASE, threads
        context.color_primaries, context.color_trc, context.colorspace = facts.colours
        return stream

    def _add_audio(self) -> AudioStream:
        stream = self._out.add_stream("aac", rate=RATE, layout=LAYOUT)
        stream.codec_context.bit_rate = SOUND_BIT_RATE
        return stream


def clip_size(width: int, height: int) -> Rung:
    """720p at most, upright, never enlarged; 4:2:0 wants even sides."""
    scale = min(1.0, SHORT_SIDE / min(width, height), LONG_SIDE / max(width, height))
    even = [max(2, round(side * scale / 2) * 2) for side in (width, height)]
    return Rung("clip", even[0], even[1], 26, 3_000_000)

"""One attempt at one video: probe, thumbnail, transcode, master_playlist, finalize.

Every finished file is given away at once (`keep`), the master playlist last. What earlier attempts gave away is not
made again: the finished segment is the checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import av

from mediamill.errors import RetryLaterError
from mediamill.media.errors import EmptyMediaError, MediaError, MissingMediaError
from mediamill.media.hls import AUDIO, MASTER, check_output, playlist_name
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.transcode.chain import Chain
from mediamill.processors.transcode.decode import PictureSource
from mediamill.processors.transcode.encode import Walk
from mediamill.processors.transcode.encoders import Setup, choose_encoder, is_large
from mediamill.processors.transcode.kept import find_kept
from mediamill.processors.transcode.ladder import Rung
from mediamill.processors.transcode.line_up import LineUp, line_up
from mediamill.processors.transcode.pictures import make_pictures
from mediamill.processors.transcode.playlists import master_text, playlist_text
from mediamill.processors.transcode.progress import Progress
from mediamill.processors.transcode.quality import OpenEncoder, Quality, QualityEncoder
from mediamill.processors.transcode.request import Request
from mediamill.processors.transcode.sound import SoundEncoder
from mediamill.processors.transcode.sound_source import SoundSource
from mediamill.processors.transcode.source_facts import SourceFacts, find_source_facts
from mediamill.processors.transcode.timeline import Borders, one_of

MOST_WARNINGS = 20
WARNING_CHARACTERS = 300
PICTURES = {"poster.jpg", "thumbnail.jpg"}  # the last ones that are made
MOST_THREADS = 8  # of one encoder: each holds pictures of its own
FEW_THREADS = 2  # of the lower ones, where the highest takes much memory already


class QualityFailedError(RetryLaterError):
    """A quality that matters could not be made."""

    code = "quality_failed"


class BadOutputError(RetryLaterError):
    """What was made does not hold together."""

    code = "bad_output"


class Attempt:
    """The steps, in order; `run` reads as a list of them."""

    def __init__(self, given: ProcessorInput, open_encoder: OpenEncoder) -> None:
        self._given, self._open_encoder = given, open_encoder
        self._request = Request.read(given.payload)
        self._kept = dict(self._request.usable(given.kept))
        self._progress = Progress(given.report)
        self._cores = len(os.sched_getaffinity(0))
        self._files = {name: int(facts.get("bytes") or 0) for name, facts in self._kept.items()}
        self._texts: dict[str, str] = {}
        self._warnings: list[str] = []

    def run(self) -> ProcessorOutput:
        """From the file to the result."""
        path = self._check_file()
        self._progress.tell("probe")
        facts = find_source_facts(path)
        self._make_pictures(path, facts)
        lined_up = line_up(facts, self._request, self._kept)
        self._warnings += lined_up.warnings
        sound = self._kept_sound()
        threads = self._share(len(lined_up.rungs))
        with PictureSource(path, facts.media.mime_type, threads, facts.sound_starts) as source:
            expected = facts.duration_seconds / float(self._request.segment_seconds)
            self._progress.expect(lined_up.qualities, sound if facts.has_sound else None, expected)
            self._progress.tell_segment()
            if facts.has_sound:
                self._encode_sound(path, facts, sound, source)
            self._encode_pictures(source, facts, lined_up)
        self._check_failures(lined_up)
        self._finish(lined_up, sound, facts)
        return ProcessorOutput(self._result(facts, lined_up, sound))

    def _share(self, rungs: int) -> int:
        """Threads for the decoder and for each encoder. They run side by side: more than the cores cost more in all."""
        return max(1, self._cores // rungs)

    def _check_file(self) -> Path:
        path = self._given.file
        if path is None or not path.is_file():
            raise MissingMediaError("the video is not there (any more)")
        if path.stat().st_size == 0:
            raise EmptyMediaError("the video is empty (0 bytes)")
        return path

    def _make_pictures(self, path: Path, facts: SourceFacts) -> None:
        self._progress.tell("thumbnail")
        if self._kept.keys() >= PICTURES:
            return
        folder = self._given.folder
        for name in make_pictures(path, folder, facts.media, self._warn):
            if name.endswith(".vtt"):
                self._texts[name] = (folder / name).read_text("utf-8")
            if name not in self._kept:
                self._keep(name, (folder / name).stat().st_size, {})

    def _kept_sound(self) -> Quality:
        kept = find_kept(self._kept, AUDIO)
        sound = Quality(AUDIO, segments=dict(kept.segments))
        if kept.is_complete and kept.init is not None:
            sound.state, sound.codecs = "completed", str(kept.init.get("codecs") or "")
        return sound

    def _encode_sound(self, path: Path, facts: SourceFacts, sound: Quality, source: PictureSource) -> None:
        """Sound that cannot be read costs the sound only."""
        if sound.state == "completed":
            return
        kept = find_kept(self._kept, AUDIO)
        try:
            with SoundSource(path, facts.media.mime_type, source.clockwork.origin) as heard:
                encoder = SoundEncoder(
                    sound, heard, self._request.segment_seconds, self._store, self._progress.tell_segment
                )
                encoder.run(kept.init, kept.can_seek)
        except (MediaError, av.FFmpegError, ValueError) as error:
            sound.fail(error)
            self._warn(f"the sound is left out: {getattr(error, 'message', error)}")
            return
        if heard.trouble.bad_packets:
            self._warn(f"{heard.trouble.bad_packets} packets of sound are damaged and left out")
        if sound.segments:
            self._store_playlist(sound)

    def _encode_pictures(self, source: PictureSource, facts: SourceFacts, lined_up: LineUp) -> None:
        clock = source.clockwork
        borders = Borders(clock.timescale, self._request.segment_seconds, clock.frame_seconds)
        encoders = [
            self._encoder(rung, lined_up.of(rung.name), source, facts, self._share(len(lined_up.rungs)))
            for rung in lined_up.rungs
        ]
        kept = [find_kept(self._kept, rung.name) for rung in lined_up.rungs]
        for encoder, had in zip(encoders, kept, strict=True):
            if encoder.quality.is_open:
                encoder.prepare(had.init)
        chain = Chain(facts, lined_up.rungs, self._cores, self._given.folder)
        walk = Walk(source, borders, chain, encoders, self._progress.tell_segment)
        walk.run(interlaced=facts.interlaced, can_seek=all(one.can_seek for one in kept))
        for encoder in encoders:
            if encoder.quality.state == "completed" and encoder.quality.name not in self._texts:
                self._store_playlist(encoder.quality)
        self._warn_of_damage(source, walk, facts)

    def _encoder(
        self, rung: Rung, quality: Quality, source: PictureSource, facts: SourceFacts, threads: int
    ) -> QualityEncoder:
        before = find_kept(self._kept, rung.name).init or {}
        clock = source.clockwork
        few = is_large(facts.width, facts.height) and not is_large(rung.width, rung.height)
        setup = Setup(
            encoder=choose_encoder(self._request.encoder, before.get("encoder")),
            preset=self._request.preset,
            width=rung.width,
            height=rung.height,
            crf=rung.crf,
            max_rate=rung.max_rate,
            timescale=clock.timescale,
            frame_rate=1 / clock.frame_seconds / one_of(float(1 / clock.frame_seconds)),
            threads=min(threads, FEW_THREADS if few else MOST_THREADS),
            colours=facts.colours,
        )
        return QualityEncoder(quality, setup, self._open_encoder, self._store)

    def _warn_of_damage(self, source: PictureSource, walk: Walk, facts: SourceFacts) -> None:
        trouble, end = source.trouble, walk.end_ticks / source.clockwork.timescale
        if trouble.bad_packets:
            self._warn(f"{trouble.bad_packets} packets of pictures are damaged and left out")
        if not walk.end_ticks:
            return
        if trouble.torn is not None:
            self._warn(f"the video is torn at {end:.1f} s ({trouble.torn}): what comes before is kept")
        elif end < facts.claimed_seconds - max(1.0, facts.claimed_seconds / 100):
            self._warn(f"the video should last {facts.claimed_seconds:.1f} s, but it ends at {end:.1f} s")

    def _check_failures(self, lined_up: LineUp) -> None:
        """The attempt fails if all qualities do, or one that is critical."""
        failed = {one.name: one.error for one in lined_up.qualities if one.state == "failed"}
        done = [one for one in lined_up.qualities if one.state == "completed"]
        if lined_up.critical in failed or not done:
            told = "; ".join(f"{name}: {error}" for name, error in failed.items())
            raise QualityFailedError(f"a quality that matters could not be made: {told}")

    def _finish(self, lined_up: LineUp, sound: Quality, facts: SourceFacts) -> None:
        self._progress.tell("master_playlist")
        done = [one for one in lined_up.qualities if one.state == "completed"]
        heard = sound if sound.state == "completed" and sound.segments else None
        for quality in [*done, *([heard] if heard else [])]:
            name = playlist_name(quality.name)
            self._texts.setdefault(name, playlist_text(quality, self._request.segment_seconds))
        language = facts.media.audio.language if facts.media.audio else None
        self._texts[MASTER] = master_text(done, heard, self._request.segment_seconds, language)
        self._progress.tell("finalize")
        self._check_output()
        self._store(MASTER, self._texts[MASTER].encode(), {})
        self._progress.tell("finalize", 1.0)

    def _check_output(self) -> None:
        texts = {name: len(text.encode()) for name, text in self._texts.items()}
        # Sheets for seeking that an earlier attempt made were checked by it: their track is not here any more.
        files = {name: size for name, size in self._files.items() if not name.endswith((".vtt", ".m3u8"))}
        faults = check_output({**files, **texts}, self._texts.__getitem__)
        if faults:
            raise BadOutputError(f"the output does not hold together: {'; '.join(faults)}"[:2000])

    def _store_playlist(self, quality: Quality) -> None:
        """A quality is complete when its playlist is kept."""
        name = playlist_name(quality.name)
        if name not in self._kept or name not in self._files:
            self._texts[name] = playlist_text(quality, self._request.segment_seconds)
            self._store(name, self._texts[name].encode(), {"quality": quality.name})

    def _store(self, name: str, content: bytes, facts: Mapping[str, Any]) -> None:
        (self._given.folder / name).write_bytes(content)
        self._keep(name, len(content), facts)

    def _keep(self, name: str, size: int, facts: Mapping[str, Any]) -> None:
        self._given.keep(name, name, dict(facts))
        self._files[name] = size

    def _warn(self, text: str) -> None:
        if len(self._warnings) < MOST_WARNINGS:
            self._warnings.append(text[:WARNING_CHARACTERS])

    def _result(self, facts: SourceFacts, lined_up: LineUp, sound: Quality) -> Mapping[str, Any]:
        done = [one for one in lined_up.qualities if one.state == "completed"]
        return {
            "duration_seconds": round(done[0].seconds, 3),
            "width": facts.width,
            "height": facts.height,
            "frame_rate": facts.media.video.fps if facts.media.video else None,
            "hdr": facts.hdr,
            "has_audio": sound.state == "completed" and bool(sound.segments),
            "qualities": [_told(one) for one in lined_up.qualities],
            "warnings": self._warnings,
        }


def _told(quality: Quality) -> Mapping[str, Any]:
    size = sum(segment.bytes for segment in quality.segments.values())
    seconds = quality.seconds
    return {
        "name": quality.name,
        "state": quality.state,
        "width": quality.width,
        "height": quality.height,
        "bytes": size,
        "bitrate": round(size * 8 / seconds) if seconds else 0,
        "codecs": quality.codecs or None,
        "segments": len(quality.segments),
        "error": quality.error,
    }

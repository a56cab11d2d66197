"""One attempt at one video of a library: everything comes from one decode of the source, which is opened once.

The frames go by once: the first is the poster, those of the first ten seconds are encoded as the head clip, all are
glanced at for scenes, and the best frame of each scene is saved when the scene has ended. Why there is no temporary
file in between: docs/decisions/one-decode.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from av.video.frame import VideoFrame

from mediamill.media.errors import DamagedMediaError
from mediamill.media.frames import Footage
from mediamill.media.images import encode_jpeg
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.image.proxies import PREVIEW_SIDE
from mediamill.processors.library.opening import Opening
from mediamill.processors.library.resume import Earlier
from mediamill.processors.library.scene_index import KeepPicture, SceneIndex, TellScene
from mediamill.processors.library.source import SourceFile
from mediamill.processors.library.video_facts import facts_of
from mediamill.processors.transcode.pictures import seen
from mediamill.processors.transcode.source_facts import SourceFacts, find_source_facts
from mediamill.processors.video.scenes import SceneRules
from mediamill.processors.video.window_sampler import Sample, sample_frames

MOST_THREADS = 4
MOST_WINDOWS = 10_000
USUAL_WINDOWS = 100
JPEG_QUALITY = 80
TELL_SECONDS = 2.0  # from one report of the percentage to the next


class VideoAttempt:
    """`run` reads as a list of steps."""

    def __init__(self, given: ProcessorInput, file: SourceFile) -> None:
        self._given, self._file = given, file
        self._limit = min(MOST_WINDOWS, max(1, int(given.payload.get("sampling_limit") or USUAL_WINDOWS)))
        self._threads = min(MOST_THREADS, len(os.sched_getaffinity(0)))
        self._warnings: list[str] = []
        self._told_at = time.monotonic()

    def run(self) -> ProcessorOutput:
        """From the file to the result."""
        self._given.report("probe", 0.0)
        facts = find_source_facts(self._file.descriptor, self._file.mime_type)
        self._earlier = Earlier.read(self._given, self._file.stamp, self._limit, facts.duration_seconds)
        self._end_seconds = self._earlier.until
        opening = Opening(self._given.folder, facts, self._threads, self._earlier.kept, self._keep)
        frames: list[dict[str, Any]] = []
        scenes = self._given.payload.get("mode") != "windows"
        descriptor, mime_type = self._file.descriptor, self._file.mime_type
        with Footage(descriptor, mime_type, self._threads, on_sound=opening.hear) as footage:
            opening.begin(footage, self._warnings.append)
            try:
                if scenes:
                    self._find_scenes(footage, opening, facts)
                else:
                    frames = self._sample(footage, opening, facts)
            finally:
                opening.close()
            self._warn_of_damage(footage, facts)
            torn = footage.damage.torn is not None
        seconds = self._end_seconds if torn else max(self._end_seconds, facts.duration_seconds)
        return ProcessorOutput(self._result(facts, opening, frames, seconds, scenes=scenes))

    def _find_scenes(self, footage: Footage, opening: Opening, facts: SourceFacts) -> None:
        index = SceneIndex(footage, self._earlier, self._keep_picture(footage), self._tell_scene(facts))
        if self._earlier.done and opening.is_done:
            return
        for at, frame in index.frames(from_start=not opening.is_done):
            self._look(footage, opening, at, frame)
            if not self._earlier.done:
                index.feed(at, frame)
            elif opening.is_done:
                return
            self._tell(at, facts)
        self._check_seen(footage)
        opening.finish(self._warnings.append)
        if not self._earlier.done:
            index.finish(self._end_seconds)

    def _sample(self, footage: Footage, opening: Opening, facts: SourceFacts) -> list[dict[str, Any]]:
        """A frame a window. Those of earlier attempts are known by their files."""
        if not opening.is_done:
            for at, frame in footage.frames():
                self._look(footage, opening, at, frame)
                if opening.is_done:
                    break
            self._check_seen(footage)
            opening.finish(self._warnings.append)
        footage.stop_sound()
        kept = [facts for name, facts in self._earlier.kept.items() if name.startswith("frame-")]
        found = {one["timestamp_ms"]: one for one in map(_frame_of, kept)}
        done = {int(one["window"]) for one in kept}
        length = facts.duration_seconds or self._end_seconds
        keep = self._keep_picture(footage)
        for window, sample, at_hand in sample_frames(footage, length, self._limit, done):
            told = _frame_as_json(sample)
            if told["timestamp_ms"] in found:
                continue
            picture = at_hand or _keyframe_at(footage, sample)
            if picture is not None:
                keep(told["file"], picture, {**told, "window": window})
                found[told["timestamp_ms"]] = told
            self._tell(length * (window + 1) / self._limit, facts)
        return [found[at] for at in sorted(found)]

    def _look(self, footage: Footage, opening: Opening, at: float, frame: VideoFrame) -> None:
        self._end_seconds = max(self._end_seconds, at + footage.frame_seconds)
        if not opening.is_done:
            opening.see(at, frame, self._warnings.append)
            if opening.is_done:
                footage.stop_sound()

    def _keep_picture(self, footage: Footage) -> KeepPicture:
        def keep(name: str, frame: VideoFrame, facts: Mapping[str, Any]) -> None:
            before = self._earlier.kept.get(name)
            if before is not None and all(before.get(key) == value for key, value in facts.items()):
                return
            pixels = seen(frame, PREVIEW_SIDE, footage.pixel_shape)
            (self._given.folder / name).write_bytes(encode_jpeg(pixels, JPEG_QUALITY))
            self._keep(name, facts)

        return keep

    def _keep(self, name: str, facts: Mapping[str, Any]) -> None:
        self._given.keep(name, name, {**facts, "stamp": self._file.stamp})

    def _tell_scene(self, facts: SourceFacts) -> TellScene:
        def tell(scene: dict[str, Any], is_last: bool) -> None:
            """The state goes with the last of the scenes that ended at one frame: only then is it that frame's."""
            self._given.report(
                "finding scenes",
                self._percent(scene["end_seconds"], facts),
                parts={"scene": scene},
                checkpoint=self._earlier.save(self._file.stamp) if is_last else None,
            )

        return tell

    def _tell(self, at: float, facts: SourceFacts) -> None:
        now = time.monotonic()
        if now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            self._given.report(percent=self._percent(at, facts))

    def _percent(self, at: float, facts: SourceFacts) -> float:
        return round(min(99.0, 100 * at / max(at, facts.duration_seconds or 2 * at, 0.001)), 1)

    def _check_seen(self, footage: Footage) -> None:
        if self._end_seconds <= 0:
            reason = footage.damage.torn or "none of its frames can be decoded"
            raise DamagedMediaError(f"the video is damaged: {reason}")

    def _warn_of_damage(self, footage: Footage, facts: SourceFacts) -> None:
        damage, claimed = footage.damage, facts.claimed_seconds
        if damage.bad_packets:
            self._warnings.append(f"{damage.bad_packets} packets of pictures are damaged and left out")
        if damage.torn is not None:
            self._warnings.append(
                f"the video is torn at {self._end_seconds:.1f} s ({damage.torn}): what comes before is kept"
            )
        elif self._earlier.done and self._end_seconds < claimed - max(1.0, claimed / 100):
            self._warnings.append(
                f"the video should last {claimed:.1f} s, but it ends at {self._end_seconds:.1f} s"
            )
        if damage.cut_short:
            self._warnings.append("the video has more frames than are looked at")

    def _result(
        self,
        facts: SourceFacts,
        opening: Opening,
        frames: list[dict[str, Any]],
        seconds: float,
        *,
        scenes: bool,
    ) -> dict[str, Any]:
        told = facts_of(facts)
        return {
            "width": facts.width,
            "height": facts.height,
            "duration_seconds": round(seconds, 3),
            "frame_rate": facts.media.video.fps if facts.media.video else None,
            "mime_type": self._file.mime_type,
            "taken_at": told.get("taken_at"),
            "facts": told,
            "segmentation_version": SceneRules().segmentation_version if scenes else None,
            "scene_count": self._earlier.scenes if scenes else 0,
            "frames": frames,
            "digest": opening.digest,
            "warnings": self._warnings,
        }


def _keyframe_at(footage: Footage, sample: Sample) -> VideoFrame | None:
    found = footage.keyframe_at(sample.timestamp_ms / 1000)
    return None if found is None else found[1]


def _frame_as_json(sample: Sample) -> dict[str, Any]:
    name = f"frame-{sample.timestamp_ms:09}.jpg"
    return {"timestamp_ms": sample.timestamp_ms, "is_keyframe": sample.is_keyframe, "file": name}


def _frame_of(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in ("timestamp_ms", "is_keyframe", "file")}

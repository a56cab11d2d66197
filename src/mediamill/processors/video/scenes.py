"""Where scenes begin and end, and which frame shows each best. Pure: frames in, scenes out, one at a time.

Each frame has a perceptual hash: the signs of the 8 × 8 lowest frequencies of its 32 × 32 grey pixels. The first
frame of a scene is its anchor. A scene ends at a frame

1. that jumps (phash): against the frame before it, many bits of the hash and the brightness differ: a cut;
2. that drifted away (phash): many bits differ from the anchor's, and the scene has its least length (debounce);
3. that comes when the scene has its greatest length (temporal);

and the last scene ends with the video (forced). How many bits change from frame to frame as a rule (flicker: noise,
confetti, water) counts for nothing in 1 and 2. A cut is sharper evidence than drift, so

- a cut soon after a boundary by drift moves that boundary to itself;
- a cut very soon after a cut makes no scene: either it leads back to what was there before (a flash, which is
  undone), or the new picture belongs to the scene that has just begun.

A scene is told once nothing can move its end any more. The best frame is the sharpest, its first two frames left out:
they are often a mix of two pictures. State can be saved after any frame as JSON; frames that were seen before it was
saved may be fed again and are ignored, so that a reader may start anywhere before them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mediamill.media.frames import TINY, Glance, Gray

KeepReason = Literal["phash", "temporal", "forced"]

HASH_SIDE = 8
FLAT = 64.0  # a frequency weaker than a quarter of a grey level is noise, not a picture
FLICKER_WEIGHT = 0.1  # of the newest frame
SKIPPED_FRAMES = 2


@dataclass(frozen=True, slots=True)
class SceneRules:
    """The parameters. Their text form is the segmentation version: other rules find other scenes."""

    drift_bits: int = 26  # of 64, against the anchor
    jump_bits: int = 12  # of 64, against the frame before
    jump_levels: float = 8.0  # of 255, mean difference of brightness against the frame before
    debounce_seconds: float = 3.0
    jump_debounce_seconds: float = 0.5
    ceiling_seconds: float = 30.0

    def __str__(self) -> str:
        return "scenes-1 " + " ".join(f"{rule.name}={getattr(self, rule.name)}" for rule in fields(self))

    @property
    def segmentation_version(self) -> str:
        """What a stored scene names as its origin."""
        return str(self)


@dataclass(frozen=True, slots=True)
class Scene:
    """A closed scene."""

    start_seconds: float
    end_seconds: float
    keep_reason: KeepReason
    best_seconds: float  # the time of its best frame
    sharpness: float
    anchor_hash: str  # 16 hexadecimal digits


@dataclass(slots=True)
class OpenScene:
    """The scene at hand, or one that is closed but may still be moved."""

    start: float
    anchor: int
    best: float
    sharpness: float = -1.0
    frames: int = 0

    def see(self, glance: Glance) -> None:
        """Count a frame, and keep it if it is the best so far."""
        self.frames += 1
        if self.frames > SKIPPED_FRAMES and glance.sharpness > self.sharpness:
            self.best, self.sharpness = glance.time_seconds, glance.sharpness

    def absorb(self, later: OpenScene) -> None:
        """The scene behind it turned out to be part of it."""
        self.frames += later.frames
        if later.sharpness > self.sharpness:
            self.best, self.sharpness = later.best, later.sharpness

    def close(self, end: float, reason: KeepReason) -> Scene:
        """As it is told."""
        return Scene(self.start, end, reason, self.best, max(0.0, self.sharpness), f"{self.anchor:016x}")


@dataclass(slots=True)
class Waiting:
    """A scene that has ended, but whose end may still move."""

    scene: OpenScene
    by_jump: bool
    last_hash: int  # of its last frame


def _cosines() -> NDArray[np.float32]:
    at, frequency = np.arange(TINY), np.arange(HASH_SIDE)[:, None]
    return np.cos((2 * at + 1) * frequency * np.pi / (2 * TINY)).astype(np.float32)


COSINES = _cosines()


def perceptual_hash(tiny: Gray) -> int:
    """64 bits that stay nearly the same when a picture is scaled, recompressed or brightened."""
    strengths = (COSINES @ tiny.astype(np.float32) @ COSINES.T).ravel()
    middle = np.partition(strengths[1:], 31)[31]  # without the mean brightness
    return int.from_bytes(np.packbits(strengths > middle + FLAT).tobytes(), "big")


def distance(one: int, other: int) -> int:
    """Bits that differ."""
    return (one ^ other).bit_count()


class SceneFinder:
    """Fed with frames in order of time; yields scenes as soon as they are certain."""

    def __init__(self, rules: SceneRules | None = None) -> None:
        self.rules = rules or SceneRules()
        self._open: OpenScene | None = None
        self._waiting: Waiting | None = None
        self._flicker = 0.0
        self._last_time = -1.0
        self._last_hash = 0
        self._last_tiny: Gray = np.zeros((TINY, TINY), np.uint8)

    def feed(self, glance: Glance) -> Iterator[Scene]:
        """One more frame. The iterator must be read to its end before the next."""
        if glance.time_seconds <= self._last_time:
            return
        seen = perceptual_hash(glance.tiny)
        if self._open is None:
            self._begin(glance, seen)
        else:
            yield from self._judge(self._open, glance, seen)
        assert self._open is not None
        self._open.see(glance)
        self._last_time, self._last_hash, self._last_tiny = glance.time_seconds, seen, glance.tiny

    def finish(self, end_seconds: float | None = None) -> Iterator[Scene]:
        """The video ends: tell what is left. `end_seconds`: when its last frame stops being shown."""
        if self._open is None:
            return
        yield from self._settle()
        yield self._open.close(max(self._last_time, end_seconds or 0.0), "forced")
        self._open = None

    def _judge(self, scene: OpenScene, glance: Glance, seen: int) -> Iterator[Scene]:
        """Does a scene begin at this frame?"""
        rules, now = self.rules, glance.time_seconds
        length = now - scene.start
        if self._jumps(glance, seen):
            yield from self._cut(scene, glance, seen)
            return
        if self._waiting is not None and length >= rules.debounce_seconds:
            yield from self._settle()
        if length >= rules.ceiling_seconds:
            yield from self._settle()
            yield scene.close(now, "temporal")
            self._begin(glance, seen)
        elif length >= rules.debounce_seconds and self._drifted(scene, seen):
            self._wait(scene, by_jump=False)
            self._begin(glance, seen)

    def _cut(self, scene: OpenScene, glance: Glance, seen: int) -> Iterator[Scene]:
        """A jump: it closes the scene, moves the boundary before it, undoes it, or belongs to it."""
        length, waiting = glance.time_seconds - scene.start, self._waiting
        if waiting is not None and not waiting.by_jump and length < self.rules.debounce_seconds:
            waiting.scene.absorb(scene)
            self._wait(waiting.scene, by_jump=True)
            self._begin(glance, seen)
        elif length >= self.rules.jump_debounce_seconds:
            yield from self._settle()
            self._wait(scene, by_jump=True)
            self._begin(glance, seen)
        elif waiting is not None and distance(waiting.last_hash, seen) < self.rules.jump_bits:
            waiting.scene.absorb(scene)
            self._open, self._waiting = waiting.scene, None
        else:
            scene.anchor = seen

    def _jumps(self, glance: Glance, seen: int) -> bool:
        bits = distance(self._last_hash, seen)
        usual, self._flicker = self._flicker, self._flicker + FLICKER_WEIGHT * (bits - self._flicker)
        if bits - usual < self.rules.jump_bits:
            return False
        levels = np.abs(glance.tiny.astype(np.int16) - self._last_tiny).mean()
        return bool(levels >= self.rules.jump_levels)

    def _drifted(self, scene: OpenScene, seen: int) -> bool:
        return distance(scene.anchor, seen) - self._flicker > self.rules.drift_bits

    def _begin(self, glance: Glance, seen: int) -> None:
        self._open = OpenScene(glance.time_seconds, seen, best=glance.time_seconds)

    def _wait(self, scene: OpenScene, *, by_jump: bool) -> None:
        self._waiting = Waiting(scene, by_jump, self._last_hash)

    def _settle(self) -> Iterator[Scene]:
        """Tell the scene whose end was not certain; it ended where the open one begins."""
        if self._waiting is not None and self._open is not None:
            yield self._waiting.scene.close(self._open.start, "phash")
        self._waiting = None

    @property
    def best_times(self) -> set[float]:
        """The times of the frames that may still be told as the best of a scene."""
        scenes = (self._open, self._waiting.scene if self._waiting is not None else None)
        return {scene.best for scene in scenes if scene is not None}

    @property
    def last_time(self) -> float:
        """Of the newest frame that it was fed with; -1 before the first."""
        return self._last_time

    @property
    def open_scene(self) -> OpenScene | None:
        """The scene at hand."""
        return self._open

    def save(self) -> dict[str, Any]:
        """Everything that the next frame is compared with, as JSON."""
        return {
            "rules": str(self.rules),
            "open": None if self._open is None else asdict(self._open),
            "waiting": None if self._waiting is None else asdict(self._waiting),
            "flicker": self._flicker,
            "last_time": self._last_time,
            "last_hash": self._last_hash,
            "last_tiny": base64.b64encode(self._last_tiny.tobytes()).decode(),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Any], rules: SceneRules | None = None) -> SceneFinder:
        """Go on where `save` was called. Refuses a state that other rules made."""
        finder = cls(rules)
        if state["rules"] != str(finder.rules):
            raise ValueError(f"the state is of other rules: {state['rules']}")
        finder._open = None if state["open"] is None else OpenScene(**state["open"])
        if (waiting := state["waiting"]) is not None:
            finder._waiting = Waiting(**{**waiting, "scene": OpenScene(**waiting["scene"])})
        finder._flicker, finder._last_time = state["flicker"], state["last_time"]
        finder._last_hash = state["last_hash"]
        tiny = np.frombuffer(base64.b64decode(state["last_tiny"]), np.uint8)
        finder._last_tiny = tiny.reshape(TINY, TINY)
        return finder

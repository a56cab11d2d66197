"""Scenes as a library keeps and pays for them: none shorter than the debounce, and never more than a limit.

A cut after a second is a cut, but each scene is a frame that a model looks at, perhaps for money. So a scene that ends
too soon is joined with what follows, and the frame of its longest part stands for the whole. How long a scene must be
follows from the length of the video: so many scenes of that length and no more fit into it. Where the container
understates the length, the last scene that the limit allows lasts to the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from mediamill.media.frames import Glance
from mediamill.processors.video.scenes import Scene, SceneFinder, SceneRules

ROUNDING = 1e-6  # of times, in seconds


@dataclass(slots=True)
class Part:
    """Scenes that are joined so far, and the length of the one whose frame stands for them."""

    scene: Scene
    longest_seconds: float


class JoinedScenes:
    """Fed and read like the finder of scenes, whose scenes it joins."""

    def __init__(
        self, limit: int, duration_seconds: float, finder: SceneFinder | None = None, told: int = 0
    ) -> None:
        self.finder = finder or SceneFinder()
        self._limit, self._told = max(1, limit), told
        self._least = max(self.finder.rules.debounce_seconds, duration_seconds / self._limit)
        self._part: Part | None = None

    def feed(self, glance: Glance) -> Iterator[Scene]:
        """One more frame. The iterator must be read to its end before the next."""
        for scene in self.finder.feed(glance):
            self._join(scene)
            yield from self._tell_if_long()

    def finish(self, end_seconds: float | None = None) -> Iterator[Scene]:
        """The video ends."""
        for scene in self.finder.finish(end_seconds):
            self._join(scene)
            if scene.keep_reason != "forced":
                yield from self._tell_if_long()
        yield from self._tell()

    def _join(self, scene: Scene) -> None:
        length = scene.end_seconds - scene.start_seconds
        if self._part is None:
            self._part = Part(scene, length)
            return
        first, longest = self._part.scene, self._part.longest_seconds
        shows = scene if length > longest else first
        self._part = Part(
            replace(
                first,
                end_seconds=scene.end_seconds,
                keep_reason=scene.keep_reason,
                best_seconds=shows.best_seconds,
                sharpness=shows.sharpness,
            ),
            max(length, longest),
        )

    def _tell_if_long(self) -> Iterator[Scene]:
        if self._part is None or self._told + 1 >= self._limit:
            return
        scene = self._part.scene
        if scene.end_seconds - scene.start_seconds >= self._least - ROUNDING:
            yield from self._tell()

    def _tell(self) -> Iterator[Scene]:
        if self._part is not None:
            scene, self._part = self._part.scene, None
            self._told += 1
            yield scene

    @property
    def rules(self) -> SceneRules:
        """Those of the finder."""
        return self.finder.rules

    @property
    def best_times(self) -> set[float]:
        """The times of the frames that may still be told as the best of a scene."""
        waiting = set() if self._part is None else {self._part.scene.best_seconds}
        return waiting | self.finder.best_times

    @property
    def last_time(self) -> float:
        """Of the newest frame that it was fed with; -1 before the first."""
        return self.finder.last_time

    def save(self) -> dict[str, Any]:
        """Everything that is needed to go on, as JSON."""
        part = None if self._part is None else asdict(self._part)
        return {"limit": self._limit, "least": self._least, "part": part, "finder": self.finder.save()}

    @classmethod
    def restore(
        cls, state: Mapping[str, Any], limit: int, duration_seconds: float, told: int
    ) -> JoinedScenes:
        """Go on where `save` was called. Refuses a state that other rules or another limit made."""
        joined = cls(limit, duration_seconds, SceneFinder.restore(state["finder"]), told)
        if (state["limit"], state["least"]) != (joined._limit, joined._least):
            raise ValueError("the state is of another limit")
        if (part := state["part"]) is not None:
            joined._part = Part(Scene(**part["scene"]), part["longest_seconds"])
        return joined

"""What an earlier attempt at a video left: files that are kept, and where its scene index stood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.video.joined_scenes import JoinedScenes
from mediamill.processors.video.scenes import SceneRules

Facts = Mapping[str, Any]


def scene_file(number: int) -> str:
    """The name of a scene's frame; the first is 1."""
    return f"scene-{number:05}.jpg"


@dataclass(slots=True)
class Earlier:
    """`kept`: the facts of files of this very source. The rest is where to go on; nothing: at the start."""

    kept: Mapping[str, Facts]
    finder: JoinedScenes
    scenes: int = 0
    until: float = 0.0  # where the last closed scene ends
    exact: bool = True  # no time of the source had to be mended: a seek leads to the same times
    done: bool = False

    @classmethod
    def read(cls, given: ProcessorInput, stamp: str, limit: int, duration_seconds: float) -> Earlier:
        """Both sides of the word must agree: a scene whose picture is not kept is found again."""
        begun = JoinedScenes(limit, duration_seconds)
        kept = {name: facts for name, facts in given.kept.items() if facts.get("stamp") == stamp}
        saved = given.checkpoint if isinstance(given.checkpoint, Mapping) else {}
        version = SceneRules().segmentation_version
        try:
            if (saved["stamp"], saved["version"]) != (stamp, version):
                return cls(kept, begun)
            scenes = int(saved["scenes"])
            if any(scene_file(number) not in kept for number in range(1, scenes + 1)):
                return cls(kept, begun)
            finder, until = (
                JoinedScenes.restore(saved["state"], limit, duration_seconds, scenes),
                float(saved["until"]),
            )
            return cls(kept, finder, scenes, until, bool(saved["exact"]), bool(saved["done"]))
        except (KeyError, TypeError, ValueError):
            return cls(kept, begun)

    def save(self, stamp: str) -> dict[str, Any]:
        """As the checkpoint of the next attempt."""
        return {
            "stamp": stamp,
            "version": self.finder.rules.segmentation_version,
            "scenes": self.scenes,
            "until": self.until,
            "exact": self.exact,
            "done": self.done,
            "state": self.finder.save(),
        }

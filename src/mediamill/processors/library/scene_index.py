"""The scene index of a video, scene by scene as frames go by: the picture of each is kept, then the scene is told.

An earlier attempt may have come some way (resume.py). Then decoding begins two seconds before the end of its last
scene; frames up to there only warm the decoder up. Frames behind it that the finder knows already are not judged
again, but the best ones so far are among them, and their pictures are taken now. A source whose times had to be
mended, or whose reader does not seek exactly, is decoded from its start instead, and what is known is not judged again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from av.video.frame import VideoFrame

from mediamill.media.frames import Footage
from mediamill.processors.library.resume import Earlier, scene_file
from mediamill.processors.video.scenes import Scene

BACK_SECONDS = 2.0

Timed = Iterator[tuple[float, VideoFrame]]
KeepPicture = Callable[[str, VideoFrame, dict[str, Any]], None]
TellScene = Callable[[dict[str, Any], bool], None]  # and whether the state may be saved with it


class SceneIndex:
    """Holds at most four decoded frames: the best of the open scene, of the two before it, and the newest."""

    def __init__(self, footage: Footage, earlier: Earlier, keep: KeepPicture, tell: TellScene) -> None:
        self._footage, self._at, self._keep, self._tell = footage, earlier, keep, tell
        self._held: dict[float, VideoFrame] = {}
        self._newest: VideoFrame | None = None

    def frames(self, *, from_start: bool) -> Timed:
        """The frames that are to be fed. `from_start`: somebody else needs the first ones."""
        if from_start or self._at.until <= 0 or not self._at.exact:
            return self._footage.frames()
        frames = self._footage.frames(max(0.0, self._at.until - BACK_SECONDS))
        first = next(frames, None)
        if first is not None and first[0] <= self._at.until:
            return chain([first], frames)
        return self._footage.frames(0.0)  # the seek went astray

    def feed(self, at: float, frame: VideoFrame) -> None:
        """One more frame."""
        finder, self._newest = self._at.finder, frame
        closed: list[Scene] = []
        if at > finder.last_time:
            closed = list(finder.feed(self._footage.glance_at(frame, at)))
        best = finder.best_times
        if at in best:
            self._held[at] = frame
        self._close(closed)
        if len(self._held) > len(best):
            self._held = {time: held for time, held in self._held.items() if time in best}

    def finish(self, end_seconds: float) -> None:
        """The video ends."""
        closed = list(self._at.finder.finish(end_seconds))
        self._at.done = True
        self._close(closed)

    def _close(self, scenes: list[Scene]) -> None:
        self._at.exact = self._at.exact and self._footage.seeks_exactly
        for left, scene in zip(range(len(scenes) - 1, -1, -1), scenes, strict=True):
            self._at.scenes, self._at.until = self._at.scenes + 1, scene.end_seconds
            told = _as_json(self._at.scenes, scene)
            picture = self._held.get(scene.best_seconds, self._newest)
            assert picture is not None  # a scene has frames
            self._keep(told["file"], picture, told)
            self._tell(told, left == 0)


def _as_json(number: int, scene: Scene) -> dict[str, Any]:
    return {
        "number": number,
        "start_seconds": scene.start_seconds,
        "end_seconds": scene.end_seconds,
        "best_seconds": scene.best_seconds,
        "sharpness": scene.sharpness,
        "keep_reason": scene.keep_reason,
        "file": scene_file(number),
    }

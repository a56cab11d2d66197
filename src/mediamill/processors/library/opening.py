"""What a video's first seconds give: poster (preview.webp), thumbnail, head clip, each kept as soon as it is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import av
import cv2
import pyvips
from av.audio.frame import AudioFrame
from av.video.frame import VideoFrame

from mediamill.media.frames import Footage
from mediamill.processors.image.proxies import PREVIEW_FILE, PREVIEW_SIDE, THUMBNAIL_FILE, write_files
from mediamill.processors.library.head_clip import HeadClip
from mediamill.processors.transcode.pictures import seen
from mediamill.processors.transcode.source_facts import SourceFacts

CLIP_FILE = "clip.mp4"
TROUBLE = (av.FFmpegError, pyvips.Error, cv2.error, ValueError)

Warn = Callable[[str], None]


class Opening:
    """Fed with the first frames. What an earlier attempt kept is not made again."""

    def __init__(
        self,
        folder: Path,
        facts: SourceFacts,
        threads: int,
        kept: Mapping[str, Mapping[str, Any]],
        keep: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        self._folder, self._facts, self._threads, self._keep = folder, facts, threads, keep
        self._has_thumbnail = THUMBNAIL_FILE in kept  # it is kept before the preview
        self.digest: str | None = kept[PREVIEW_FILE].get("digest") if PREVIEW_FILE in kept else None
        self._wants_clip = CLIP_FILE not in kept
        self._clip: HeadClip | None = None
        self._pixel_shape = 1.0

    @property
    def is_done(self) -> bool:
        """Is nothing more wanted?"""
        return self.digest is not None and not self._wants_clip

    def begin(self, footage: Footage, warn: Warn) -> None:
        """These frames will come; and sound, perhaps before the first of them."""
        self._pixel_shape = footage.pixel_shape
        if self._wants_clip:
            path = self._folder / CLIP_FILE
            try:
                self._clip = HeadClip(path, self._facts, footage.origin, self._threads)
            except TROUBLE as error:
                self._give_up(f"there is no head clip: {error}", warn)
        if not self._wants_clip:
            footage.stop_sound()

    def see(self, at: float, frame: VideoFrame, warn: Warn) -> None:
        """One more picture."""
        if self.digest is None:
            self._make_poster(frame)
        if self._clip is not None:
            try:
                self._film(self._clip, at, frame)
            except TROUBLE as error:
                self._give_up(f"there is no head clip: {error}", warn)

    def hear(self, frame: AudioFrame) -> None:
        """One more piece of sound."""
        if self._clip is not None:
            self._clip.hear(frame)

    def finish(self, warn: Warn) -> None:
        """There are no more frames."""
        if self._clip is not None:
            try:
                self._keep_clip(self._clip)
            except TROUBLE as error:
                self._give_up(f"there is no head clip: {error}", warn)
        if self.digest is None:
            warn("there is no poster: not one frame could be drawn")

    def close(self) -> None:
        """Whatever happened, nothing stays open."""
        if self._clip is not None:
            self._clip.close(whole=False)
            self._clip = None

    def _make_poster(self, frame: VideoFrame) -> None:
        """The first frame that can be drawn."""
        try:
            pixels = seen(frame, PREVIEW_SIDE, self._pixel_shape)
            image = pyvips.Image.new_from_array(pixels).copy(interpretation="srgb")
            digest = sha256(write_files(image, self._folder)).hexdigest()
        except TROUBLE:
            return
        if not self._has_thumbnail:
            self._keep(THUMBNAIL_FILE, {})
        self._keep(PREVIEW_FILE, {"digest": digest})
        self.digest = digest

    def _film(self, clip: HeadClip, at: float, frame: VideoFrame) -> None:
        clip.see(at, frame)
        if clip.is_done:
            self._keep_clip(clip)

    def _keep_clip(self, clip: HeadClip) -> None:
        self._clip, self._wants_clip = None, False
        clip.close()
        self._keep(CLIP_FILE, {})

    def _give_up(self, reason: str, warn: Warn) -> None:
        self.close()
        self._wants_clip = False
        warn(reason)

"""Processors that only pretend: they open the file and take their time. For tests of the plumbing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.result import ProcessingResult


class StubProcessor(BaseMediaProcessor):
    """A subclass says what it pretends to read, and how long."""

    kind: str

    def seconds(self) -> float:
        """How long the work seems to take."""
        raise NotImplementedError

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """Open the file, wait, and tell its guid."""
        del mime_type, caption, media_metadata
        with file_path.open("rb") as file:
            file.read(1)
        time.sleep(self.seconds())
        guid = self.given.payload.get("guid") or file_path.name
        return ProcessingResult(f"[Transcripted {self.kind} multimedia message with guid='{guid}']")


class StubImageProcessor(StubProcessor):
    """Pretends to look at an image."""

    kind = "image"

    def seconds(self) -> float:
        """By setting."""
        return self.settings.stub_image_seconds


class StubAudioProcessor(StubProcessor):
    """Pretends to listen."""

    kind = "audio"

    def seconds(self) -> float:
        """By setting."""
        return self.settings.stub_audio_seconds


class StubVideoProcessor(StubProcessor):
    """Pretends to watch a video."""

    kind = "video"

    def seconds(self) -> float:
        """By setting."""
        return self.settings.stub_video_seconds

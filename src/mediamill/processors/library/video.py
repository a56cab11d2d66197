"""The processor of `library.video`: poster, thumbnail, head clip, and scenes or sampled frames of one video."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.media.image_loaders import set_up_vips
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.library.source import open_file
from mediamill.processors.library.video_attempt import VideoAttempt


class LibraryVideoProcessor:
    """One video at a time. All files go by `keep`, none with the result."""

    network = False

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        self.mime_types, self.timeout_seconds = tuple(mime_types), timeout_seconds
        set_up_vips()

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One attempt at one video."""
        with open_file(given.file) as file:
            return VideoAttempt(given, file).run()

"""The processor of `library.video`: poster, thumbnail, head clip, and scenes or sampled frames of one video."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.media.errors import EmptyMediaError
from mediamill.media.image_loaders import set_up_vips
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.library.source import open_file
from mediamill.processors.library.video_attempt import VideoAttempt

CODE_OR_VIDEO = (
    ".ts",
    ".mts",
)  # streams of cameras and television, or programs in TypeScript: the bytes tell
NO_VIDEO = ProcessorOutput({"is_video": False})


class LibraryVideoProcessor:
    """One video at a time. All files go by `keep`, none with the result."""

    network = False

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        self.mime_types, self.timeout_seconds = tuple(mime_types), timeout_seconds
        set_up_vips()

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One attempt at one video; or that it is none, where the name alone cannot tell."""
        may_be_code = str(given.payload.get("file", {}).get("inside", "")).lower().endswith(CODE_OR_VIDEO)
        try:
            with open_file(given.file) as file:
                if may_be_code and not file.mime_type.startswith("video/"):
                    return NO_VIDEO
                return VideoAttempt(given, file).run()
        except EmptyMediaError:
            if may_be_code:
                return NO_VIDEO
            raise

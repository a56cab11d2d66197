"""The processor of `video.transcode`: a video in, an adaptive stream (HLS) out, file by file."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.transcode.attempt import Attempt
from mediamill.processors.transcode.encoders import open_encoder
from mediamill.processors.transcode.quality import OpenEncoder


class TranscodeProcessor:
    """One job at a time. All files go by `keep`, none with the result. `open_encoder`: for tests of failing ones."""

    network = False

    def __init__(
        self,
        mime_types: Sequence[str],
        timeout_seconds: float,
        *,
        open_encoder: OpenEncoder = open_encoder,
    ) -> None:
        self.mime_types = tuple(mime_types)
        self.timeout_seconds = timeout_seconds
        self._open_encoder = open_encoder

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One attempt at one video."""
        return Attempt(given, self._open_encoder).run()

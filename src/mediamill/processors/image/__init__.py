"""Images to text: what is to be seen, what is written there, colours, and what the camera noted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mediamill.processors.image.examine import Examined, Eyes, examine
from mediamill.processors.image.proxies import write_proxies
from mediamill.processors.image.wording import Seen, describe, look_sentence
from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.models.contract import TextReader, VisionModel
from mediamill.processors.result import ProcessingResult


class ImageVisionProcessor(BaseMediaProcessor):
    """Any image to a description. The payload's `previews` asks for the small stand-ins too."""

    def __init__(
        self,
        mime_types: Sequence[str],
        timeout_seconds: float,
        *,
        vision: VisionModel | None = None,
        reader: TextReader | None = None,
    ) -> None:
        super().__init__(mime_types, timeout_seconds)
        self.eyes = Eyes(vision, reader)
        self.network = vision.network if vision else self.settings.vision != "local"

    def process_media(
        self,
        file_path: Path,
        mime_type: str,
        caption: str,
        media_metadata: Mapping[str, Any],  # noqa: ARG002 - the contract's
    ) -> ProcessingResult:
        """Examine the image and tell it."""
        self.given.report(step="looking at the image", percent=0)
        examined = examine(file_path, mime_type, caption, self.eyes)
        return self.result(examined, describe_image(examined))

    def result(self, examined: Examined, content: str) -> ProcessingResult:
        """The text with everything that was found out, and the stand-ins if they are wanted."""
        files: dict[str, str] = {}
        if self.given.payload.get("previews", False):
            proxies = write_proxies(examined.picture, self.given.folder)
            files = {name: name for name in (proxies.preview, proxies.thumbnail)}
        return ProcessingResult(
            content,
            tags=examined.sight.tags,
            models=examined.models,
            facts=examined.facts(),
            files=files,
        )


def describe_image(examined: Examined) -> str:
    """What a conversation is told of an image."""
    source = examined.picture.facts
    exif = source.exif.facts()
    return describe(
        Seen(
            tags=examined.sight.tags,
            description=examined.sight.description,
            lines=examined.lines,
            look=look_sentence(
                source.width,
                source.height,
                [colour.name for colour in examined.colours],
                exif.get("taken_at"),
                exif.get("camera"),
            ),
            frames=examined.frames,
            truncated=source.truncated,
        )
    )

"""The processor of `library.image`: preview, thumbnail and facts of one image. It uses no models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mediamill.media.errors import UnsupportedMediaError
from mediamill.media.image_loaders import set_up_vips
from mediamill.media.images import ImageFacts
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.image.proxies import make_proxies
from mediamill.processors.library.source import open_file


class LibraryImageProcessor:
    """One image at a time."""

    network = False

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        self.mime_types, self.timeout_seconds = tuple(mime_types), timeout_seconds
        set_up_vips()

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """From the file to its stand-ins."""
        with open_file(given.file) as file:
            if not file.mime_type.startswith("image/"):
                raise UnsupportedMediaError(f"the file is no image: it is {file.mime_type}")
            ignore = bool(given.payload.get("ignore_previews"))
            made = make_proxies(file.descriptor, file.mime_type, given.folder, ignore_previews=ignore)
        facts = made.source
        told = _facts(facts, file.mime_type)
        result = {
            "width": facts.width,
            "height": facts.height,
            "format": facts.format,
            "mime_type": file.mime_type,
            "taken_at": told.get("taken_at"),
            "facts": told,
            "digest": made.digest,
            "truncated": facts.truncated,
        }
        return ProcessorOutput(result, {made.preview: made.preview, made.thumbnail: made.thumbnail})


def _facts(facts: ImageFacts, mime_type: str) -> dict[str, Any]:
    """Small, and only what says something."""
    found: dict[str, Any] = {"format": facts.format, "mime_type": mime_type, "bits": facts.bits}
    said = {
        "orientation": facts.orientation if facts.orientation != 1 else None,
        "pages": facts.pages if facts.pages > 1 else None,
        "has_alpha": facts.has_alpha or None,
        "has_profile": facts.has_profile or None,
        "truncated": facts.truncated or None,
        **facts.exif.facts(),
    }
    return found | {name: value for name, value in said.items() if value is not None}

"""Which models of packages the settings ask for, so that what is missing is said before a job fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mediamill.errors import NotFoundError
from mediamill.processors.models.catalogue import Model, find_model

if TYPE_CHECKING:
    from mediamill.settings import Settings

SPEECH = "whisper-base"
VISION = ("efficientnet-lite0", "ssd-mobilenet-v3")
READING = "pp-ocr-v6-small"
VECTORS = "minilm-l6-v2"


def models_in_use(settings: Settings) -> list[Model]:
    """The models that the processors would load; a name that is none of ours is told by whoever loads it."""
    names = [READING]
    if settings.speech == "local":
        names.insert(0, settings.speech_model or SPEECH)
    if (
        settings.vision == "local" or settings.embedding != "hub"
    ):  # images are embedded by what is seen in them
        names.extend(VISION)
    names.append(VECTORS)  # of texts; or of the words for what is seen in images
    found = []
    for name in names:
        try:
            found.append(find_model(name))
        except NotFoundError:
            continue
    return found

"""Images to sentences by any OpenAI-compatible endpoint whose model sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mediamill.processors.models.contract import Pixels, Sight
from mediamill.processors.models.data_url import jpeg_data_url
from mediamill.processors.models.instructions import IMAGE, hint
from mediamill.processors.models.openai_chat import chat, openai_endpoint

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "gpt-4o-mini"


class OpenAiVision:
    """Sends one JPEG at a time, as part of a chat."""

    network = True

    def __init__(self, settings: Settings) -> None:
        self._endpoint = openai_endpoint(settings, "MEDIAMILL_VISION_MODEL")
        self._asked = settings.vision_model or DEFAULT_MODEL
        self.model = self._endpoint.model_id(self._asked)

    def look(self, pixels: Pixels, caption: str = "") -> Sight:
        """What is to be seen, in one to three sentences, and the text in the image."""
        parts = [
            {"type": "text", "text": hint(caption, "image")},
            {"type": "image_url", "image_url": {"url": jpeg_data_url(pixels)}},
        ]
        text, self.model = chat(self._endpoint, self._asked, IMAGE, parts)
        return Sight(description=text, models=(self.model,))

"""Text to text by any OpenAI-compatible endpoint."""

from __future__ import annotations

from mediamill.processors.models.openai_chat import chat, openai_endpoint
from mediamill.settings import Settings

DEFAULT_MODEL = "gpt-4o-mini"


class OpenAiText:
    """Our instructions are the system's message, the stranger's text is the user's."""

    network = True

    def __init__(self, settings: Settings) -> None:
        self._endpoint = openai_endpoint(settings, "MEDIAMILL_TEXT_MODEL")
        self._asked = settings.text_model or DEFAULT_MODEL
        self.model = self._endpoint.model_id(self._asked)

    def complete(self, instructions: str, text: str) -> str:
        """What the model writes."""
        written, self.model = chat(self._endpoint, self._asked, instructions, text)
        return written

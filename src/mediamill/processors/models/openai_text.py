"""Text to text, or to fields, by any OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mediamill.processors.models.endpoint import RefusedError
from mediamill.processors.models.openai_chat import (
    AS_JSON,
    UNKNOWN_FORMAT,
    chat,
    chat_object,
    openai_endpoint,
)

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "gpt-4o-mini"


class OpenAiText:
    """Our instructions are the system's message, the stranger's text is the user's."""

    network = True

    def __init__(self, settings: Settings) -> None:
        self._endpoint = openai_endpoint(settings, "MEDIAMILL_TEXT_MODEL")
        self._asked = settings.text_model or DEFAULT_MODEL
        self.model = self._endpoint.model_id(self._asked)
        self._knows_schemas = True

    def complete(self, instructions: str, text: str) -> str:
        """What the model writes."""
        written, self.model = chat(self._endpoint, self._asked, instructions, text)
        return written

    def fill(self, instructions: str, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
        """An object that should be of this JSON schema; a server that knows none is asked in words."""
        if self._knows_schemas:
            try:
                told, self.model = chat_object(self._endpoint, self._asked, instructions, text, schema)
            except RefusedError as error:
                if error.status not in UNKNOWN_FORMAT:
                    raise
            else:
                return told
        worded = f"{instructions}{AS_JSON}{json.dumps(schema, ensure_ascii=False)}"
        told, self.model = chat_object(self._endpoint, self._asked, worded, text, None)
        self._knows_schemas = False  # it was that, and not the text, which it refused
        return told

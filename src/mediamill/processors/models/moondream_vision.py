"""Images to sentences by a Moondream endpoint: its cloud, or its server on a machine of yours. Plain HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mediamill.processors.models.contract import Pixels, Sight
from mediamill.processors.models.data_url import jpeg_data_url
from mediamill.processors.models.endpoint import Answer, Endpoint, NonsenseError
from mediamill.processors.models.servers import moondream_door

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "moondream"


class MoondreamVision:
    """Asks for a caption. Moondream takes no hints: the sender's caption stays here."""

    network = True

    def __init__(self, settings: Settings) -> None:
        self._endpoint = Endpoint(moondream_door(settings), settings.model_timeout_seconds)
        # Both spellings of the address are in use: with and without the version.
        self._path = "/caption" if self._endpoint.url.path.strip("/") else "/v1/caption"
        self._asked = settings.vision_model or DEFAULT_MODEL
        self.model = self._endpoint.model_id(self._asked)

    def look(self, pixels: Pixels, caption: str = "") -> Sight:  # noqa: ARG002 - see above
        """What is to be seen, in a sentence or two."""

        def read(answer: Answer) -> tuple[str, str]:
            told = answer.json()
            said = told.get("caption")
            if not isinstance(said, str) or not said.strip():
                raise NonsenseError("the answer has no caption")
            return said.strip(), self._endpoint.stated_id(told, self._asked)

        asked = {"image_url": jpeg_data_url(pixels), "length": "normal", "stream": False}
        text, self.model = self._endpoint.ask("POST", self._path, read, json=asked)
        return Sight(description=text, models=(self.model,))

"""Texts, and searches, to vectors: by the models of the settings, in a child process like everything with models."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.errors import GiveUpError
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.library.tag import OtherModelError
from mediamill.processors.models import choose
from mediamill.processors.models.names import look_name, text_name
from mediamill.processors.models.packed import pack_vectors
from mediamill.settings import Settings

MOST_TEXTS = 64
TEXT_CHARACTERS = 10_000


class BadEmbedRequestError(GiveUpError):
    """The payload is neither {"texts": […]} nor {"query": …, "look": true or false}."""

    code = "bad_embed_request"


class Embedder:
    """The models are loaded when the first text comes."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        del mime_types, timeout_seconds
        self.settings = Settings()
        self.network = self.settings.embedding == "openai"
        if self.settings.embedding == "hub":
            choose.image_embedder()  # fetched now: later there is no network

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One vector a text, in the same order."""
        match given.payload:
            case {"query": str(query), "look": True}:
                name, vectors = look_name(self.settings), choose.image_embedder().embed_query(_cut(query))
            case {"query": str(query)}:
                name, vectors = text_name(self.settings), choose.text_embedder().embed_texts([_cut(query)])
            case {"texts": list(texts)} if 0 < len(texts) <= MOST_TEXTS and all(
                isinstance(text, str) for text in texts
            ):
                name, asked = text_name(self.settings), given.payload.get("model")
                if asked not in (None, name.name):
                    raise OtherModelError(f"the job asks for {asked!r:.200}; this worker has {name.name}")
                vectors = choose.text_embedder().embed_texts([_cut(text) for text in texts])
            case _:
                raise BadEmbedRequestError
        return ProcessorOutput({"model": name.name, "vectors": pack_vectors(vectors)})


def _cut(text: str) -> str:
    return text[:TEXT_CHARACTERS]

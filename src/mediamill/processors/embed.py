"""Texts, and searches, to vectors: by the models of the settings, in a child process like everything with models."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.errors import GiveUpError
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.processors.library.tag import OtherModelError
from mediamill.processors.models import choose
from mediamill.processors.models.contract import ImageEmbedder, TextEmbedder, Vectors
from mediamill.processors.models.names import ModelName, embedding_settings, look_name, text_name
from mediamill.processors.models.packed import pack_vectors
from mediamill.processors.settings import read_settings

MOST_TEXTS = 64
TEXT_CHARACTERS = 10_000


class BadEmbedRequestError(GiveUpError):
    """The payload is neither {"texts": […]} nor {"query": …, "look": true or false}."""

    code = "bad_embed_request"


class Embedder:
    """The models are loaded when the first text comes."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        del mime_types, timeout_seconds
        self.settings = read_settings()
        self.network = self.settings.embedding == "openai"
        self._older: dict[str, TextEmbedder] = {}
        self._older_eyes: dict[str, ImageEmbedder] = {}

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One vector a text, in the same order."""
        match given.payload:
            case {"query": str(query), "look": True}:
                name, vectors = self._see(_cut(query), given.payload.get("model"))
            case {"query": str(query)}:
                name, vectors = self._mean(_cut(query), given.payload.get("model"))
            case {"texts": list(texts)} if 0 < len(texts) <= MOST_TEXTS and all(
                isinstance(text, str) for text in texts
            ):
                name = text_name(self.settings)
                _expect(str(given.payload.get("model") or name.name), name)
                vectors = choose.text_embedder().embed_texts([_cut(text) for text in texts])
            case _:
                raise BadEmbedRequestError
        return ProcessorOutput({"model": name.name, "vectors": pack_vectors(vectors)})

    def _mean(self, query: str, asked: str | None) -> tuple[ModelName, Vectors]:
        """What the search means; `asked`: by a model that was used before, and that some vectors are still of."""
        name = text_name(self.settings)
        if asked in (None, name.name):
            return name, choose.text_embedder().embed_texts([query])
        settings = embedding_settings(self.settings, str(asked))
        _expect(str(asked), text_name(settings))
        embedder = self._older.get(str(asked)) or choose.make_text_embedder(settings)
        self._older[str(asked)] = embedder
        return text_name(settings), embedder.embed_texts([query])

    def _see(self, query: str, asked: str | None) -> tuple[ModelName, Vectors]:
        """What it would look like."""
        name = look_name(self.settings)
        if asked in (None, name.name):
            return name, choose.image_embedder().embed_query(query)
        settings = embedding_settings(self.settings, str(asked))
        _expect(str(asked), look_name(settings))
        embedder = self._older_eyes.get(str(asked)) or choose.make_image_embedder(settings)
        self._older_eyes[str(asked)] = embedder
        return look_name(settings), embedder.embed_query(query)


def _cut(text: str) -> str:
    return text[:TEXT_CHARACTERS]


def _expect(asked: str, own: ModelName) -> None:
    if asked != own.name:
        raise OtherModelError(f"the job asks for {asked[:200]}; this worker has {own.name}")

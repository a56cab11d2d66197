"""Texts to vectors by any OpenAI-compatible endpoint."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from mediamill.processors.models.contract import Vectors
from mediamill.processors.models.endpoint import Answer, NonsenseError
from mediamill.processors.models.openai_chat import openai_endpoint

if TYPE_CHECKING:
    from mediamill.settings import Settings

DEFAULT_MODEL = "text-embedding-3-small"
BATCH_TEXTS = 64
TEXT_CHARACTERS = 8_000  # what models of 8,000 tokens take in any language


class OpenAiEmbedder:
    """Many texts a request."""

    network = True

    def __init__(self, settings: Settings) -> None:
        self._endpoint = openai_endpoint(settings, "MEDIAMILL_EMBEDDING_MODEL")
        self._asked = settings.embedding_model or DEFAULT_MODEL
        self.model = self._endpoint.model_id(self._asked)
        self._dimensions: int | None = None

    @property
    def dimensions(self) -> int:
        """The server's choice, so it is asked."""
        if self._dimensions is None:
            self._dimensions = int(self._ask(["size"]).shape[1])
        return self._dimensions

    @dimensions.setter
    def dimensions(self, dimensions: int) -> None:
        self._dimensions = dimensions

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One vector a text."""
        rest = iter(texts)
        rows = [self._ask(batch) for batch in iter(lambda: list(islice(rest, BATCH_TEXTS)), [])]
        if not rows:
            return np.empty((0, self.dimensions), np.float32)
        self.dimensions = rows[0].shape[1]
        if any(each.shape[1] != self.dimensions for each in rows):
            raise NonsenseError("the vectors differ in length")
        return np.concatenate(rows)

    def _ask(self, texts: list[str]) -> Vectors:
        def read(answer: Answer) -> Vectors:
            told = answer.json()
            vectors = read_vectors(told, len(texts))
            self.model = self._endpoint.stated_id(told, self._asked)
            return vectors

        cut = [text[:TEXT_CHARACTERS].strip() or "-" for text in texts]  # an empty text is refused
        asked = {"model": self._asked, "input": cut, "encoding_format": "float"}
        return self._endpoint.ask("POST", "/embeddings", read, json=asked)


def read_vectors(told: dict[str, Any], count: int) -> Vectors:
    """The vectors in the order of the texts, each of length 1."""
    try:
        rows = sorted(told["data"], key=lambda row: row["index"])
        vectors = np.array([row["embedding"] for row in rows], np.float32)
        in_order = [row["index"] for row in rows] == list(range(count))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise NonsenseError("the answer has no vectors") from error
    if vectors.ndim != 2 or not in_order or not np.isfinite(vectors).all():
        raise NonsenseError(f"the answer has not one vector for each of the {count} texts")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (lengths > 0).all():
        raise NonsenseError("the answer has a vector of length 0")
    normalised: Vectors = vectors / lengths
    return normalised

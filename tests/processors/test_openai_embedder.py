"""Vectors by an OpenAI-compatible endpoint: batches, order, length, and answers that cannot be right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mediamill.errors import GiveUpError
from mediamill.processors.models.openai_embedder import OpenAiEmbedder
from mediamill.testing.model_server import Reply, reply
from mediamill.testing.openai_server import DIMENSIONS, OpenAiServer
from tests.processors.remote_models import KEY, settings_for

pytestmark = pytest.mark.spec("C26")


@pytest.fixture
def server() -> Iterator[OpenAiServer]:
    with OpenAiServer() as server:
        yield server


def rows(*vectors: Any) -> Reply:
    return Reply.json({"data": [{"index": at, "embedding": each} for at, each in enumerate(vectors)]})


def test_texts_go_in_batches_and_come_back_in_their_order(server: OpenAiServer) -> None:
    embedder = OpenAiEmbedder(settings_for(server.url, embedding_model="nomic"))
    vectors = embedder.embed_texts(["x" * (1 + at % 50) for at in range(150)])
    assert [len(seen.json()["input"]) for seen in server.seen] == [64, 64, 22]
    assert {seen.json()["model"] for seen in server.seen} == {"nomic"}
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert vectors.shape == (150, DIMENSIONS)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    shares = vectors[:50, 0] / vectors[:50, 1]  # the server puts the length of the text there
    assert np.allclose(shares, np.arange(1, 51), rtol=1e-4)


def test_the_dimensions_are_those_of_the_first_answer(server: OpenAiServer) -> None:
    embedder = OpenAiEmbedder(settings_for(server.url))
    embedder.embed_texts(["one"])
    assert embedder.dimensions == DIMENSIONS
    assert len(server.seen) == 1


def test_the_dimensions_can_be_asked_for_before_any_text(server: OpenAiServer) -> None:
    embedder = OpenAiEmbedder(settings_for(server.url))
    assert embedder.embed_texts([]).shape == (0, DIMENSIONS)
    assert embedder.dimensions == DIMENSIONS
    assert len(server.seen) == 1


def test_an_empty_text_and_a_very_long_one_are_sent_in_a_form_that_is_taken(server: OpenAiServer) -> None:
    OpenAiEmbedder(settings_for(server.url)).embed_texts(["", "  ", "x" * 100_000])
    sent = server.seen[0].json()["input"]
    assert all(sent)
    assert len(sent[2]) == 8_000


@pytest.mark.parametrize(
    "answer",
    [
        rows([1.0, 2.0]),
        rows([1.0, 2.0], [1.0]),
        rows([1.0, 2.0], ["a", "b"]),
        rows([0.0, 0.0], [1.0, 0.0]),
        rows([1.0, float("nan")], [1.0, 0.0]),
        Reply.json({"data": [{"embedding": [1.0]}, {"embedding": [1.0]}]}),
    ],
    ids=["too-few", "ragged", "words", "zero", "nan", "without-index"],
)
def test_vectors_that_cannot_be_right_are_nonsense(server: OpenAiServer, answer: Reply) -> None:
    server.always(reply(answer))
    with pytest.raises(GiveUpError, match="vector"):
        OpenAiEmbedder(settings_for(server.url)).embed_texts(["one", "two"])
    assert len(server.seen) == 2

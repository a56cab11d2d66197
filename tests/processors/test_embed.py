"""Texts and searches to vectors."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.embed import MOST_TEXTS, BadEmbedRequestError, Embedder
from mediamill.processors.library.tag import OtherModelError
from mediamill.processors.models.names import look_name, text_name
from mediamill.settings import Settings

pytestmark = pytest.mark.spec("L12")


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder((), 60)


def run(embedder: Embedder, payload: Any) -> tuple[str, Any]:
    given = ProcessorInput(payload, None, None, Path(), None, 1, lambda *_a, **_n: None)
    result = embedder.process(given).result
    vectors = [
        np.frombuffer(base64.b64decode(packed), "<f2").astype(np.float32) for packed in result["vectors"]
    ]
    return str(result["model"]), np.array(vectors)


def test_texts_that_mean_the_same_are_near(embedder: Embedder) -> None:
    texts = ["a kitten sleeps", "the invoice of the power company", "a young cat is asleep"]
    model, vectors = run(embedder, {"texts": texts, "model": text_name(Settings()).name})
    assert model == text_name(Settings()).name
    assert vectors.shape == (3, 384)
    near = vectors @ vectors[0]
    assert near[2] > near[1] + 0.3


def test_a_search_by_look_is_in_the_space_of_images_and_one_by_meaning_in_that_of_texts(
    embedder: Embedder,
) -> None:
    by_look, look = run(embedder, {"query": "cat", "look": True})
    by_text, text = run(embedder, {"query": "cat", "look": False})
    assert (by_look, by_text) == (look_name(Settings()).name, text_name(Settings()).name)
    assert look.shape == text.shape == (1, 384)
    assert not np.allclose(look, text)


def test_another_model_is_not_pretended(embedder: Embedder) -> None:
    with pytest.raises(OtherModelError):
        run(embedder, {"texts": ["x"], "model": "other@1"})


@pytest.mark.parametrize(
    "payload", [{}, {"texts": []}, {"texts": ["x"] * (MOST_TEXTS + 1)}, {"texts": [1]}, {"query": 1}]
)
def test_a_payload_that_makes_no_sense_is_refused(embedder: Embedder, payload: Any) -> None:
    with pytest.raises(BadEmbedRequestError):
        run(embedder, payload)


def test_only_an_endpoint_needs_the_network(embedder: Embedder, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not embedder.network
    monkeypatch.setenv("MEDIAMILL_EMBEDDING", "openai")
    assert Embedder((), 60).network

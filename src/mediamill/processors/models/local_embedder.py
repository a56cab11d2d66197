"""Texts and images as vectors of one space, by MiniLM of this machine.

An image's vector is made of the vectors of the words for what is in it, weighed by how likely each is.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.contract import Pixels, Vectors
from mediamill.processors.models.in_use import VISION
from mediamill.processors.models.installed import model_folder
from mediamill.processors.models.local_eyes import LocalEyes, Seen, local_eyes
from mediamill.processors.models.sessions import open_session

if TYPE_CHECKING:
    from mediamill.settings import Settings

NAME = "minilm-l6-v2"
DIMENSIONS = 384
MOST_TOKENS = 256
MOST_CHARACTERS = 10_000  # far more than the tokens that count
CLASSES = 8  # the likeliest, of which an image's vector is made
EVENING = 0.7  # exponent that lets the less likely classes speak up
OBJECTS_SHARE = 0.4
PROMPT = "a photo of "
METHOD = "labels-1"  # how vectors of images are made; part of their model's name


class LocalTextEmbedder:
    """Meaning of texts; English above all."""

    network = False
    dimensions = DIMENSIONS

    def __init__(self, threads: int) -> None:
        from tokenizers import Tokenizer

        model = find_model(NAME)
        folder = model_folder(NAME)
        weights, tokenizer = (folder / file.name for file in model.files)
        self.model = model.id
        self._session = open_session(weights, threads)
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.enable_truncation(MOST_TOKENS)
        self._tokenizer.no_padding()

    def embed_texts(self, texts: Sequence[str]) -> Vectors:
        """One vector a text. Each goes alone: with int8 activations, the neighbours in a batch would change it."""
        made = [self._embed(text[:MOST_CHARACTERS]) for text in texts]
        return unit(np.array(made, dtype=np.float32).reshape(len(made), DIMENSIONS))

    def _embed(self, text: str) -> Vectors:
        tokens = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        states = self._session.run(None, inputs)[0][0]
        return np.asarray(states.mean(axis=0), dtype=np.float32)


class LocalImageEmbedder:
    """Look of images, as far as the words of the two local vision models tell it."""

    network = False
    dimensions = DIMENSIONS

    def __init__(self, settings: Settings) -> None:
        self._threads = settings.processor_threads
        self._texts = local_texts(settings.processor_threads)
        models = [find_model(name).id for name in VISION]
        self.model = "+".join([METHOD, self._texts.model, *models])

    def embed_images(self, images: Sequence[Pixels]) -> Vectors:
        """One vector an image."""
        made = [self._mix(self._eyes.see(each)) for each in images]
        return unit(np.array(made, dtype=np.float32).reshape(len(made), DIMENSIONS))

    def embed_query(self, text: str) -> Vectors:
        """The vector of a search for images, one row."""
        return self._texts.embed_texts([PROMPT + text])

    # Searches need neither the eyes nor the words, which take seconds to load.

    @functools.cached_property
    def _eyes(self) -> LocalEyes:
        return local_eyes(self._threads)

    @functools.cached_property
    def _class_vectors(self) -> Vectors:
        words = [
            word.label if word.label == word.group else f"{word.label}, {word.group}"
            for word in self._eyes.classes.words
        ]
        return self._texts.embed_texts([PROMPT + word for word in words])

    @functools.cached_property
    def _object_vectors(self) -> dict[str, Vectors]:
        labels = [label for label in self._eyes.objects.labels if label]
        vectors = self._texts.embed_texts([PROMPT + label for label in labels])
        return dict(zip(labels, vectors, strict=True))

    def _mix(self, seen: Seen) -> Vectors:
        likeliest = np.argsort(seen.shares)[::-1][:CLASSES]
        weights = seen.shares[likeliest] ** EVENING
        scene = (weights[:, None] * self._class_vectors[likeliest]).sum(axis=0) / weights.sum()
        best = {
            each.label: each.score for each in reversed(seen.objects)
        }  # the surest comes first, so it is set last
        if not best:
            return np.asarray(scene, dtype=np.float32)
        things = sum(score * self._object_vectors[label] for label, score in best.items()) / sum(
            best.values()
        )
        return np.asarray((1 - OBJECTS_SHARE) * scene + OBJECTS_SHARE * things, dtype=np.float32)


@functools.cache
def local_texts(threads: int) -> LocalTextEmbedder:
    """Once per process, whoever asks."""
    return LocalTextEmbedder(threads)


def unit(vectors: Vectors) -> Vectors:
    """The same directions, of length 1."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float32)

"""Which adapter serves, by setting; each is imported and made on first use, once per process."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from mediamill.processors.models.contract import (
    ImageEmbedder,
    SpeechModel,
    TextEmbedder,
    TextModel,
    TextReader,
    VideoModel,
    VisionModel,
)
from mediamill.processors.settings import read_settings

if TYPE_CHECKING:
    from mediamill.settings import Settings


@functools.cache
def speech_model() -> SpeechModel:
    """Speech to text."""
    settings = read_settings()
    match settings.speech:
        case "openai":
            from mediamill.processors.models.openai_speech import OpenAiSpeech

            return OpenAiSpeech(settings)
        case "hub":
            from mediamill.processors.models.hub_speech import HubSpeech

            return HubSpeech(settings)
        case "local":
            from mediamill.processors.models.local_speech import LocalSpeech

            return LocalSpeech(settings)


@functools.cache
def vision_model() -> VisionModel:
    """What is in an image."""
    return make_vision(read_settings())


def make_vision(settings: Settings) -> VisionModel:
    """The same by these settings, which need not be those of the process."""
    match settings.vision:
        case "openai":
            from mediamill.processors.models.openai_vision import OpenAiVision

            return OpenAiVision(settings)
        case "moondream":
            from mediamill.processors.models.moondream_vision import MoondreamVision

            return MoondreamVision(settings)
        case "local":
            from mediamill.processors.models.local_vision import LocalVision

            return LocalVision(settings)


@functools.cache
def text_reader(*, quick: bool = False) -> TextReader:
    """Text in images. `quick`: for very many of them, where small print does not matter."""
    from mediamill.processors.models.local_reader import LocalReader

    return LocalReader(read_settings(), quick=quick)


@functools.cache
def video_model() -> VideoModel | None:
    """Whole videos; None when they are described from their frames and speech."""
    settings = read_settings()
    if settings.video == "local":
        return None
    from mediamill.processors.models.gemini_video import GeminiVideo

    return GeminiVideo(settings)


@functools.cache
def text_model() -> TextModel | None:
    """Text to text; None when there is nobody to ask."""
    settings = read_settings()
    if settings.text == "none":
        return None
    from mediamill.processors.models.openai_text import OpenAiText

    return OpenAiText(settings)


@functools.cache
def text_embedder() -> TextEmbedder:
    """Texts to vectors."""
    return make_text_embedder(read_settings())


def make_text_embedder(settings: Settings) -> TextEmbedder:
    """The same by these settings, which need not be those of the process."""
    match settings.embedding:
        case "openai":
            from mediamill.processors.models.openai_embedder import OpenAiEmbedder

            return OpenAiEmbedder(settings)
        case (
            "hub" | "local"
        ):  # the hub's models embed images and queries for them; texts keep their own space
            from mediamill.processors.models.local_embedder import local_texts

            return local_texts(settings.processor_threads)


@functools.cache
def image_embedder() -> ImageEmbedder:
    """Images and searches for them to vectors."""
    return make_image_embedder(read_settings())


def make_image_embedder(settings: Settings) -> ImageEmbedder:
    """The same by these settings, which need not be those of the process."""
    if settings.embedding == "hub":
        from mediamill.processors.models.hub_embedder import HubEmbedder

        return HubEmbedder(settings)
    from mediamill.processors.models.local_embedder import LocalImageEmbedder

    return LocalImageEmbedder(settings)

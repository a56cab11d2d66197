"""Models have the same names in the database and in the adapters that are them."""

from __future__ import annotations

import pytest

from mediamill.processors.models.hub_embedder import DEFAULT_MODEL, KNOWN
from mediamill.processors.models.local_embedder import DIMENSIONS, LocalImageEmbedder
from mediamill.processors.models.moondream_vision import MoondreamVision
from mediamill.processors.models.names import (
    DEFAULTS,
    LOCAL_DIMENSIONS,
    TEXT_DEFAULT,
    UnknownTaggerError,
    look_name,
    text_name,
    vision_name,
    vision_settings,
)
from mediamill.processors.models.openai_embedder import DEFAULT_MODEL as OPENAI_TEXTS
from mediamill.processors.models.openai_vision import DEFAULT_MODEL as OPENAI_VISION
from mediamill.processors.models.openai_vision import OpenAiVision
from mediamill.settings import Settings
from tests.processors.remote_models import settings_for

pytestmark = pytest.mark.spec("L11")


def test_the_local_models_are_called_as_they_call_themselves() -> None:
    embedder = LocalImageEmbedder(Settings())
    assert look_name(Settings()).name == embedder.model
    assert text_name(Settings()).name == embedder._texts.model
    assert LOCAL_DIMENSIONS == DIMENSIONS == look_name(Settings()).dimensions
    for part in vision_name(Settings()).name.split("+"):
        assert part in embedder.model


def test_defaults_are_those_of_the_adapters() -> None:
    assert DEFAULTS["openai"] == OPENAI_VISION
    assert TEXT_DEFAULT == OPENAI_TEXTS
    hub = next(model for model in KNOWN if model.name == DEFAULT_MODEL)
    assert look_name(Settings(embedding="hub")).name == f"hub:{hub.id}"


def test_the_name_of_a_tagger_leads_back_to_it() -> None:
    settings = settings_for("http://127.0.0.1:9")
    for engine, model, kind in (("openai", "gpt-x", OpenAiVision), ("moondream", None, MoondreamVision)):
        name = vision_name(settings, engine, model)
        made = vision_settings(settings, name)
        assert (made.vision, made.vision_model) == (engine, model or DEFAULTS[engine])
        assert kind(made).model.startswith(made.vision_model or "")
    assert vision_settings(settings, vision_name(settings, "local")).vision_model is None


def test_the_model_of_the_settings_is_only_for_the_engine_of_the_settings() -> None:
    settings = Settings(vision="openai", vision_model="gpt-x")
    assert vision_name(settings).name == "openai:gpt-x"
    assert vision_name(settings, "moondream").name == "moondream:moondream"
    assert text_name(Settings(embedding="openai", embedding_model="e")).name == "openai:e"


@pytest.mark.parametrize(
    ("engine", "model"), [("clip", None), ("local", "other"), ("openai", "a\nb"), ("openai", "x" * 201)]
)
def test_taggers_that_are_none_are_refused(engine: str, model: str | None) -> None:
    with pytest.raises(UnknownTaggerError):
        vision_name(Settings(), engine, model)

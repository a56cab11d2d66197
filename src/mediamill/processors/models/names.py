"""What models are called in the database, known without loading them: whoever tags and embeds says the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from mediamill.errors import InvalidError
from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.in_use import READING, VECTORS, VISION

if TYPE_CHECKING:
    from mediamill.settings import Settings

Task = Literal["vision", "text", "look", "read"]
ENGINES = ("local", "openai", "moondream")
NAME_CHARACTERS = 200
# As the adapters have them; they are not imported here, since some bring much with them.
DEFAULTS = {"openai": "gpt-4o-mini", "moondream": "moondream"}
TEXT_DEFAULT = "text-embedding-3-small"
LOCAL_LOOK = "labels-1"
LOCAL_DIMENSIONS = 384


class UnknownTaggerError(InvalidError):
    """There is no such tagger."""

    code = "unknown_tagger"


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model for one task. `dimensions`: of its vectors, if that is known before it has made one."""

    task: Task
    engine: str
    name: str
    dimensions: int | None = None


def vision_name(settings: Settings, engine: str | None = None, model: str | None = None) -> ModelName:
    """Who looks at images, by the settings or as asked."""
    engine = engine or settings.vision
    if engine not in ENGINES:
        raise UnknownTaggerError(f"nobody called {engine[:50]!r} tags", fix=f"one of: {', '.join(ENGINES)}")
    if engine == "local":
        if model is not None:
            raise UnknownTaggerError("the local tagger has no other models", fix="leave the model out")
        return ModelName("vision", engine, "+".join(find_model(name).id for name in VISION))
    asked = model or (settings.vision_model if engine == settings.vision else None) or DEFAULTS[engine]
    if len(asked) > NAME_CHARACTERS or not asked.isprintable():
        raise UnknownTaggerError(
            f"the name of a model has at most {NAME_CHARACTERS} characters, all of them printable"
        )
    return ModelName("vision", engine, f"{engine}:{asked}")


def vision_settings(settings: Settings, tagger: ModelName) -> Settings:
    """The settings with which `choose.make_vision` makes this one."""
    model = None if tagger.engine == "local" else tagger.name.removeprefix(f"{tagger.engine}:")
    return settings.model_copy(update={"vision": tagger.engine, "vision_model": model})


def text_name(settings: Settings) -> ModelName:
    """Who turns texts into vectors."""
    if settings.embedding == "openai":
        return ModelName("text", "openai", f"openai:{settings.embedding_model or TEXT_DEFAULT}")
    return ModelName("text", "local", find_model(VECTORS).id, LOCAL_DIMENSIONS)


def reader_name(settings: Settings) -> ModelName | None:
    """Who reads text in the pictures of libraries; None if nobody shall."""
    return ModelName("read", "local", find_model(READING).id) if settings.library_read_text else None


def look_name(settings: Settings) -> ModelName:
    """Who turns images, and searches for images, into vectors."""
    if settings.embedding == "hub":
        from mediamill.processors.models.hub_embedder import chosen_model

        return ModelName("look", "hub", f"hub:{chosen_model(settings).id}")
    parts = [find_model(name).id for name in (VECTORS, *VISION)]
    return ModelName("look", "local", "+".join([LOCAL_LOOK, *parts]), LOCAL_DIMENSIONS)


def embedding_settings(settings: Settings, name: str) -> Settings:
    """The settings with which a model of that name makes vectors, if there are such settings."""
    engine, _, model = name.partition(":")
    if engine == "openai":
        return settings.model_copy(update={"embedding": engine, "embedding_model": model})
    if engine == "hub":
        return settings.model_copy(update={"embedding": engine, "embedding_model": model.partition("@")[0]})
    return settings.model_copy(update={"embedding": "local", "embedding_model": None})

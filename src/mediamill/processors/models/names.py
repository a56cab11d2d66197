"""What models are called in the database, known without loading them: whoever tags and embeds says the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mediamill.processors.models.catalogue import find_model
from mediamill.processors.models.in_use import VECTORS, VISION
from mediamill.settings import Settings

Task = Literal["vision", "text", "look"]
ENGINES = ("local", "openai", "moondream")
# As the adapters have them; they are not imported here, since some bring much with them.
DEFAULTS = {"openai": "gpt-4o-mini", "moondream": "moondream"}
TEXT_DEFAULT = "text-embedding-3-small"
LOOK_DEFAULT = "ViT-B-32__laion2b-s34b-b79k"
LOCAL_LOOK = "labels-1"
LOCAL_DIMENSIONS = 384


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
    if engine == "local":
        return ModelName("vision", engine, "+".join(find_model(name).id for name in VISION))
    asked = model or (settings.vision_model if engine == settings.vision else None) or DEFAULTS[engine]
    return ModelName("vision", engine, f"{engine}:{asked}")


def text_name(settings: Settings) -> ModelName:
    """Who turns texts into vectors."""
    if settings.embedding == "openai":
        return ModelName("text", "openai", f"openai:{settings.embedding_model or TEXT_DEFAULT}")
    return ModelName("text", "local", find_model(VECTORS).id, LOCAL_DIMENSIONS)


def look_name(settings: Settings) -> ModelName:
    """Who turns images, and searches for images, into vectors."""
    if settings.embedding == "hub":
        return ModelName("look", "hub", f"hub:{settings.embedding_model or LOOK_DEFAULT}")
    parts = [find_model(name).id for name in (VECTORS, *VISION)]
    return ModelName("look", "local", "+".join([LOCAL_LOOK, *parts]), LOCAL_DIMENSIONS)

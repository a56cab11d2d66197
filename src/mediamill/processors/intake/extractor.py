"""Who extracts fields, by name: the same file with the same fields and the same extractor is analysed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mediamill.processors.models.names import DEFAULTS

if TYPE_CHECKING:
    from mediamill.settings import Settings

REVISION = 1  # of our rules and of what we ask a model; another one makes older analyses outdated
RULES = f"rules@{REVISION}"


def extractor_name(settings: Settings) -> str:
    """`rules@1`, or `openai:<model>@1` where a text model is set."""
    if settings.text == "none":
        return RULES
    return f"{settings.text}:{settings.text_model or DEFAULTS[settings.text]}@{REVISION}"

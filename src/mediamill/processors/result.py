"""What becomes of a file: text for a conversation, tags and facts for search, and who said so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Tag:
    """One thing that a model sees, and how sure it is (0 to 1)."""

    label: str
    score: float
    model: str


@dataclass(frozen=True, slots=True)
class ProcessingResult:
    """`failed_reason`: the job goes to the dead letter with it, and `content` is told all the same."""

    content: str
    failed_reason: str | None = None
    tags: Sequence[Tag] = ()
    models: Sequence[str] = ()  # every model that had a part in it, as name@revision
    facts: Mapping[str, Any] = field(default_factory=dict)  # JSON: sizes, times, language, pages …
    files: Mapping[str, str] = field(default_factory=dict)  # derivative name -> path relative to the folder

"""The text by whose vector an image is found: known without a model, so that another one can embed it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

LEAST_SCORE = 0.15  # of a tag that counts for the meaning
MOST_CHARACTERS = 3_000  # no model of ours reads further, and fifty of them fit into a job


def meaning_of(description: str | None, tags: Iterable[Mapping[str, Any]], words: str | None) -> str:
    """What is said of it, what is in it, what it says."""
    labels = [str(tag["label"]) for tag in tags if (tag.get("score") or 0) >= LEAST_SCORE]
    parts = (description, ", ".join(labels), words)
    return ". ".join(part for part in parts if part)[:MOST_CHARACTERS]

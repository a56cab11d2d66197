"""What is kept between attempts: scanned pages, what a model saw and answered. Nothing dear is done twice."""

from __future__ import annotations

import json
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.models.contract import Pixels, Sight, VisionModel

SCANNED, SEEN, ANSWERED = "scanned_pages", "sight", "answer"
ANSWERS_BYTES = 150_000  # of JSON; scanned pages have the rest of what a checkpoint may have
SIGHT_CHARACTERS = 10_000


class Kept:
    """The checkpoint of one attempt. What an earlier one left is checked: it may have been another version of us."""

    def __init__(self, given: ProcessorInput) -> None:
        self._given = given
        told = given.checkpoint if isinstance(given.checkpoint, dict) else {}
        self._state: dict[str, dict[str, Any]] = {
            name: told[name] for name in (SCANNED, SEEN, ANSWERED) if isinstance(told.get(name), dict)
        }

    def get(self, name: str) -> dict[str, Any]:
        """One part of it."""
        return self._state.get(name, {})

    def save(self, name: str, told: dict[str, Any]) -> None:
        """Tell it to whoever started the attempt."""
        self._state[name] = told
        self._given.report(checkpoint=dict(self._state))

    def save_answer(self, key: str, answer: dict[str, Any]) -> None:
        """One more answer, if there is room for it."""
        told = {**self.get(ANSWERED), key: answer}
        if len(json.dumps(told)) <= ANSWERS_BYTES:
            self.save(ANSWERED, told)


class KeptVision:
    """A vision model whose sentence is kept; tags are made here and cost little."""

    def __init__(self, model: VisionModel, kept: Kept) -> None:
        self._model, self._kept = model, kept
        self.model, self.network = model.model, model.network

    def look(self, pixels: Pixels, caption: str = "") -> Sight:
        """As before, if it has been seen."""
        known = self._kept.get(SEEN)
        if isinstance(known.get("description"), str) and isinstance(known.get("model"), str):
            return Sight(description=known["description"], models=(known["model"],))
        sight = self._model.look(pixels, caption)
        if sight.description and sight.models:
            self._kept.save(
                SEEN, {"description": sight.description[:SIGHT_CHARACTERS], "model": sight.models[0]}
            )
        return sight

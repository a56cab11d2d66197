"""What is kept between attempts: scanned pages, what a model saw and answered. Nothing dear is done twice."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.models.contract import Pixels, Sight, VisionModel

SEEN, ANSWERED, BEGUN = "sight", "answer", "begun_pages"
ANSWERS_BYTES = 150_000  # of JSON
MOST_TRIES = 2  # of a page: what ends the attempt twice is left out
FACTS_BYTES, PAGE_BYTES = 4_000, 1_000_000  # of a kept page, packed and as it is
SIGHT_CHARACTERS = 10_000


class Kept:
    """The checkpoint of one attempt. What an earlier one left is checked: it may have been another version of us."""

    def __init__(self, given: ProcessorInput) -> None:
        self._given = given
        told = given.checkpoint if isinstance(given.checkpoint, dict) else {}
        self._state: dict[str, dict[str, Any]] = {
            name: told[name] for name in (SEEN, ANSWERED, BEGUN) if isinstance(told.get(name), dict)
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


class KeptPages:
    """Scanned pages, each a kept file as soon as it is read: a document of any length is read once."""

    def __init__(self, given: ProcessorInput, kept: Kept) -> None:
        self._given, self._kept = given, kept
        self._begun = {key: tries for key, tries in kept.get(BEGUN).items() if isinstance(tries, int)}

    def known(self, key: str) -> Any:
        return unpack(self._given.kept.get(_file_of(key), {}).get("page"))

    def begin(self, key: str) -> bool:
        tries = self._begun.get(key, 0)
        if tries < MOST_TRIES:
            self._tell_begun({**self._begun, key: tries + 1})
        return tries < MOST_TRIES

    def save(self, key: str, told: Any) -> None:
        packed = pack(told)
        if len(packed) > FACTS_BYTES and isinstance(told, dict):  # without its places
            packed = pack("\n".join(str(piece[0]) for piece in told["pieces"]))
        if len(packed) <= FACTS_BYTES:
            name = _file_of(key)
            (self._given.folder / name).write_text(packed)
            self._given.keep(name, name, {"page": packed, "attempt": self._given.attempt})
        self._tell_begun({other: tries for other, tries in self._begun.items() if other != key})

    def _tell_begun(self, begun: dict[str, int]) -> None:
        self._begun = begun
        self._kept.save(BEGUN, dict(begun))


def _file_of(key: str) -> str:
    return f"scan-{key.replace(' ', '-')}.txt"


def pack(told: Any) -> str:
    """A page in letters that any header takes."""
    return base64.b64encode(zlib.compress(json.dumps(told, ensure_ascii=False).encode())).decode()


def unpack(packed: Any) -> Any:
    """What was packed; None for what makes no sense."""
    try:
        text = zlib.decompressobj().decompress(base64.b64decode(str(packed)), PAGE_BYTES)
        return json.loads(text) if packed else None
    except (ValueError, zlib.error, RecursionError):
        return None


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

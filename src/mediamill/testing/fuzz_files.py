"""The fuzz corpus: files that harm, and mutations of good ones. The same seed makes the same files."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from mediamill.testing.fuzz_mutations import MUTATIONS
from mediamill.testing.fuzz_seeds import make_seeds
from mediamill.testing.fuzz_specials import NAMES, SPECIALS

INDEX = "index.json"
NAME_BYTES = 255
WRONG_NAMES = 0.1  # share of mutated files whose extension says something else


@dataclass(frozen=True, slots=True)
class FuzzFile:
    """One file of the corpus. `original_name`: what its sender calls it; `origin`: what it was made from."""

    path: str  # relative to the corpus; bytes that are not UTF-8 as Python escapes them
    original_name: str
    origin: str


def write_corpus(folder: Path, count: int, seed: int) -> list[FuzzFile]:
    """At least the files that were built to harm, then mutations up to the count; and an index."""
    folder.mkdir(parents=True, exist_ok=True)
    files: list[FuzzFile] = []
    for file, data in _files(seed):
        if len(files) >= count and not file.origin.startswith(("special", "name")):
            break
        path = folder / file.path
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
        files.append(file)
    index = {"seed": seed, "files": [asdict(file) for file in files]}
    (folder / INDEX).write_text(json.dumps(index, indent=1))
    return files


def _files(seed: int) -> Iterator[tuple[FuzzFile, bytes]]:
    for name, make in SPECIALS.items():
        yield FuzzFile(f"special/{name}", name, f"special: {name}"), make()
    yield from _named()
    dice = random.Random(seed)  # noqa: S311 - not for secrets
    number = 0
    while True:
        number += 1
        yield _mutated(number, dice)


def _named() -> Iterator[tuple[FuzzFile, bytes]]:
    data = make_seeds()["image.jpg"]
    for number, name in enumerate(NAMES):
        fits = "/" not in name and name != ".." and len(os.fsencode(name)) <= NAME_BYTES
        kept = name if fits else "image.jpg"
        yield FuzzFile(f"name-{number}/{kept}", name, f"name: {name!r}"), data


def _mutated(number: int, dice: random.Random) -> tuple[FuzzFile, bytes]:
    seeds = make_seeds()
    name, other = dice.choice(list(seeds)), dice.choice(list(seeds))
    data, steps = seeds[name], []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        mutate = dice.choice(MUTATIONS)
        data = mutate(data, seeds[other], dice) or b"\0"
        steps.append(mutate.__name__)
    called = other if dice.random() < WRONG_NAMES or steps == ["keep"] else name
    path = f"mutated-{number // 1000}/{number:05}-{called}"
    return FuzzFile(path, called, f"{name}: {', '.join(steps)}"), data

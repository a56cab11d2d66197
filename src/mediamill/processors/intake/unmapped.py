"""What a document says that no field asks for: labels with their values, as offers to make fields of."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from mediamill.processors.intake.candidate import Candidate
from mediamill.processors.intake.catalog import FieldSpec, FieldType
from mediamill.processors.intake.label_words import label_key
from mediamill.processors.intake.labels import LabelIndex
from mediamill.processors.intake.rules import extract_by_rules
from mediamill.processors.intake.source_page import Row, SourcePage

MOST_LABELS, MOST_PAGES, MOST_ROWS = 30, 50, 5_000
MOST_BYTES = 50_000  # as JSON: the result of a job has a limit
LEAST = 0.6  # sure that it is the value of its label
MOST_WORDS = 5
LABEL = re.compile(r"([^\W\d_][\w .,/()'’&-]{1,38}?)\s*:(?=\s|$)")
TYPES: tuple[FieldType, ...] = ("date", "amount", "number", "text")  # the first that fits


def find_unmapped(pages: Sequence[SourcePage], asked: Sequence[FieldSpec]) -> list[dict[str, Any]]:
    """As JSON, in the order of the document. `asked`: every field of the project, also those for other files."""
    looked = pages[:MOST_PAGES]
    labels = _labels(looked, LabelIndex.of(asked))
    specs = [
        FieldSpec(f"{kind}_{number}", kind, label) for number, label in enumerate(labels) for kind in TYPES
    ]
    ranked, _ = extract_by_rules(looked, specs)
    told, room = [], MOST_BYTES
    for number, label in enumerate(labels):
        found = ranked[number * len(TYPES) : (number + 1) * len(TYPES)]
        best = next(
            (each[0] for kind, each in zip(TYPES, found, strict=True) if _fits(kind, each, label)), None
        )
        if best is not None:
            one = {**best.told(), "name": label, "type": best.field.partition("_")[0]}
            room -= len(json.dumps(one))
            if room > 0:
                told.append(one)
    return told


def _fits(kind: FieldType, found: Sequence[Candidate], label: str) -> bool:
    """A number without a unit may as well be the number of something, which is a text."""
    if not found or found[0].confidence < LEAST or label_key(label) not in label_key(found[0].quote):
        return False
    if kind == "text":
        return LABEL.match(found[0].value) is None  # the next label with its value
    return kind == "date" or bool(found[0].unit)


def _labels(pages: Sequence[SourcePage], index: LabelIndex) -> list[str]:
    """Each once, as the document writes it first."""
    found: dict[str, str] = {}
    for row in [row for page in pages for row in page.rows][:MOST_ROWS]:
        for label in _labels_of(row, index):
            if len(found) < MOST_LABELS:
                found.setdefault(label_key(label), label)
    return list(found.values())


def _labels_of(row: Row, index: LabelIndex) -> Iterator[str]:
    for cell in row:
        hits = index.hits(cell.text)
        first = hits[0] if hits and hits[0].start == 0 else None
        if first is not None and first.meant:
            continue
        marked = LABEL.match(cell.text)
        if marked and len(marked[1].split()) <= MOST_WORDS:
            yield marked[1].strip()
        elif first is not None and len(row) > 1 and first.end >= len(cell.text.rstrip(" .:")):
            yield cell.text[: first.end]

"""Fields by rules: labels and what stands beside them, then values whose shape alone tells what they are."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from mediamill.processors.intake.around import Near, Spot, spots_of, values_near
from mediamill.processors.intake.candidate import Candidate, best_candidates, quote_of
from mediamill.processors.intake.catalog import FieldSpec
from mediamill.processors.intake.hints import hints_of
from mediamill.processors.intake.labels import LabelIndex
from mediamill.processors.intake.source_page import SourcePage
from mediamill.processors.intake.unlabelled import Unlabelled

SCANNED = 0.94  # letters read by OCR may be wrong
MOST_ROWS = 50_000  # of a document
MOST_FOUND = 200  # of a field
LEAST = 0.2  # what is less likely is not proposed
ENOUGH = 0.5  # a field that has a value so sure is not looked for by shape


def extract_by_rules(
    pages: Sequence[SourcePage], specs: Sequence[FieldSpec], deadline: float = float("inf")
) -> tuple[list[list[Candidate]], int]:
    """The candidates of each field, in the order of the fields; and how many pages were looked at."""
    hints = hints_of(pages)
    index = LabelIndex.of(specs)
    found: dict[int, list[Candidate]] = defaultdict(list)
    rows = looked = 0
    for page in pages:
        if time.monotonic() > deadline or rows > MOST_ROWS:
            break
        rows += len(page.rows)
        looked += 1
        for spot in spots_of(page.rows, index, scanned=page.scanned):
            for number, weight in spot.hit.meant:
                if len(found[number]) < MOST_FOUND:
                    near = values_near(spot, index.fields[number], hints)
                    found[number] += [_candidate(page, spot, each, specs[number], weight) for each in near]
    shapes = Unlabelled(pages, hints, index)
    ranked = []
    for number, meaning in enumerate(index.fields):
        sure = [each for each in found[number] if each.confidence >= LEAST]
        if not any(each.confidence >= ENOUGH for each in sure):
            sure += [each for each in shapes.find(meaning) if each.confidence >= LEAST]
        ranked.append(best_candidates(sure, prefer_last=meaning.means("total")))
    return ranked, looked


def _candidate(page: SourcePage, spot: Spot, near: Near, spec: FieldSpec, weight: float) -> Candidate:
    found = near.found
    confidence = weight * near.sureness * (SCANNED if page.scanned else 1.0)
    row = page.rows[near.row]
    quote = quote_of(row) if near.row == spot.row else quote_of((spot.cell, near.cell))
    return Candidate(
        spec.name,
        found.value,
        near.cell.text[found.start : found.end],
        found.unit,
        confidence,
        page.number,
        near.cell.part(found.start, found.end),
        quote,
        (page.number, near.row, near.column),
    )

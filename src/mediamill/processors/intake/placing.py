"""Where the values of a model stand: looked for in the rows of the pages, never taken from what the model claims.

A value that is nowhere in the text may be invented: it gets less confidence and no place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mediamill.processors.intake.asking import ModelAnswer, Told
from mediamill.processors.intake.candidate import Candidate, best_candidates, quote_of
from mediamill.processors.intake.catalog import FieldSpec
from mediamill.processors.intake.found import Found
from mediamill.processors.intake.hints import Hints, hints_of
from mediamill.processors.intake.source import Source
from mediamill.processors.intake.source_page import Box, Cell, Row, SourcePage
from mediamill.processors.intake.values import find_values

MOST_SURE = 0.95
UNSEEN, UNSEEN_MOST = 0.5, 0.4  # a value that is not in the text
SEEN_ONLY, SEEN_MOST = 0.8, 0.6  # a value that only the vision model told
SCANNED = 0.97
MOST_ROWS = 50_000


def place_answers(
    source: Source, specs: Sequence[FieldSpec], answers: Sequence[ModelAnswer]
) -> list[list[Candidate]]:
    """The candidates of each field, with real places."""
    hints = hints_of(source.pages)
    ranked = []
    for spec in specs:
        told = [answer.fields[spec.name] for answer in answers if spec.name in answer.fields]
        pairs = [(each, _read(each, spec, hints)) for each in told]
        ranked.append(
            best_candidates(_candidate(source, spec, each, found, hints) for each, found in pairs if found)
        )
    return ranked


def _read(told: Told, spec: FieldSpec, hints: Hints) -> Found | None:
    """The value in the form of its type; None if it has no such value."""
    if spec.type == "text":
        return Found(told.value, 0, len(told.value))
    found = find_values(told.value, spec, hints, "")
    return max(found, key=lambda each: each.sureness, default=None)


def _candidate(source: Source, spec: FieldSpec, told: Told, found: Found, hints: Hints) -> Candidate:
    sure = min(told.confidence, MOST_SURE) * found.sureness
    place = _place(source.pages, spec, told, found, hints)
    if place is None:
        if source.seen and _squeezed(told.value) in _squeezed(source.seen):
            return Candidate(
                spec.name, found.value, told.value, found.unit, min(sure * SEEN_ONLY, SEEN_MOST), 1
            )
        return Candidate(spec.name, found.value, told.value, found.unit, min(sure * UNSEEN, UNSEEN_MOST))
    page, row, raw, box = place
    sure *= SCANNED if page.scanned else 1.0
    number = page.rows.index(row)
    return Candidate(
        spec.name,
        found.value,
        raw,
        found.unit,
        sure,
        page.number,
        box,
        quote_of(row),
        (page.number, number, 0),
    )


Place = tuple[SourcePage, Row, str, Box | None]


def _place(
    pages: Sequence[SourcePage], spec: FieldSpec, told: Told, found: Found, hints: Hints
) -> Place | None:
    """The row that the model quotes, if the value is there; else the first that has the value; else the quote."""
    quote = _squeezed(told.quote)
    first: Place | None = None
    quoted: Place | None = None
    for page, row in _rows(pages):
        squeezed = _squeezed(" ".join(cell.text for cell in row))
        is_quoted = bool(quote) and (quote in squeezed or (len(squeezed) >= 6 and squeezed in quote))
        if first is not None and not is_quoted:
            continue
        place = _in_row(page, row, spec, told, found, hints)
        if place and is_quoted:
            return place
        first = first or place
        if is_quoted and quote in squeezed:
            quoted = quoted or (page, row, told.value, _union(row))
    return first or (quoted if spec.type in ("boolean", "text") else None)


def _rows(pages: Sequence[SourcePage]) -> Iterator[tuple[SourcePage, Row]]:
    rows = 0
    for page in pages:
        for row in page.rows:
            rows += 1
            if rows > MOST_ROWS:
                return
            yield page, row


def _in_row(
    page: SourcePage, row: Row, spec: FieldSpec, told: Told, found: Found, hints: Hints
) -> Place | None:
    """The characters of a cell that are the value, or that mean the same."""
    for cell in row:
        if span := _span(cell, told.value):
            return page, row, cell.text[span[0] : span[1]], cell.part(*span)
    if spec.type == "text":
        wanted = _squeezed(told.value)
        joined = _squeezed(" ".join(cell.text for cell in row))
        return (page, row, told.value, _union(row)) if len(wanted) > 3 and wanted in joined else None
    if spec.type == "boolean":
        return None
    for cell in row:
        for each in find_values(cell.text, spec, hints, ""):
            if each.value == found.value:
                return page, row, cell.text[each.start : each.end], cell.part(each.start, each.end)
    return None


def _span(cell: Cell, value: str) -> tuple[int, int] | None:
    """Where the value is in a cell, whatever its case and spaces; not in the middle of a word or number."""
    wanted = _squeezed(value)
    places = [place for place, char in enumerate(cell.text) if not char.isspace()]
    squeezed = "".join(cell.text[place].casefold()[:1] for place in places)
    start = squeezed.find(wanted) if wanted else -1
    while start >= 0:
        first, last = places[start], places[start + len(wanted) - 1]
        if not (_is_letter(cell.text, first - 1) or _is_letter(cell.text, last + 1)):
            return first, last + 1
        start = squeezed.find(wanted, start + 1)
    return None


def _is_letter(text: str, place: int) -> bool:
    return 0 <= place < len(text) and text[place].isalnum()


def _squeezed(text: str) -> str:
    return "".join(char.casefold()[:1] for char in text if not char.isspace())


def _union(row: Row) -> Box | None:
    boxes = [cell.box for cell in row if cell.box is not None]
    if not boxes:
        return None
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)

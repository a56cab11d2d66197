"""Values without a label: what only their shape, their unit or their place tells. Never very sure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from mediamill.processors.intake.candidate import Candidate, quote_of
from mediamill.processors.intake.catalog import FieldSpec
from mediamill.processors.intake.found import Found
from mediamill.processors.intake.hints import Hints
from mediamill.processors.intake.labels import FieldMeaning, LabelIndex
from mediamill.processors.intake.shapes import find_shapes, has_shape
from mediamill.processors.intake.source_page import Cell, Row, SourcePage
from mediamill.processors.intake.units import unit_named
from mediamill.processors.intake.values import find_values

SHAPE_ALONE, ONE_OF_MANY = 0.85, 0.5
UNIT_ALONE, DIGITS_ALONE, PLACE_AND_DATE, ONLY_DATE, FIRST_DATE = 0.6, 0.45, 0.8, 0.5, 0.3
LARGEST_SUM, COMPANY, MONEY = 0.3, 0.5, 0.7
NOT_A_LETTER = 0.6  # the date of a letter, for a field that is about something else
SCANNED = 0.94
MOST_ROWS = 2_000
LETTER_DATE = re.compile(r"^[A-ZÄÖÜ][\w .äöüß-]{1,30},\s+(?:den\s+|the\s+|le\s+)?(?=\d)")
DIGITS = re.compile(r"^\W{0,2}(\d[\d ]{2,9}\d(?:[.,]\d{1,3})?)\W{0,2}$")
FIRM = re.compile(
    r"\b(?:GmbH|AG|KG|OHG|UG|e\.K\.|SE|Ltd\.?|Limited|Inc\.?|LLC|PLC|Corp\.?|S\.A\.|SARL|B\.V\.|GbR|Co\.)(?=\W|$)"
)
Find = Callable[[str], list[Found]]


class Unlabelled:
    """The rows of a document, looked through for one field after the other."""

    def __init__(self, pages: Sequence[SourcePage], hints: Hints, index: LabelIndex) -> None:
        self._pages, self._hints, self._index = pages, hints, index
        self._known: dict[tuple[str, ...], list[Candidate]] = {}  # many fields look for the same

    def find(self, meaning: FieldMeaning) -> list[Candidate]:
        """What may be the value of a field that has no label."""
        concept = meaning.concept.name if meaning.concept else ""
        key = (meaning.spec.type, meaning.spec.unit, concept)
        if key not in self._known:
            self._known[key] = self._look(meaning)
        return [replace(each, field=meaning.spec.name) for each in self._known[key]]

    def _look(self, meaning: FieldMeaning) -> list[Candidate]:
        spec = meaning.spec
        if spec.type == "text" and has_shape(meaning.kind):
            return self._alone(spec, lambda text: find_shapes(text, meaning.kind), SHAPE_ALONE)
        if meaning.means("currency") and spec.type == "text" and self._hints.currency:
            return [Candidate(spec.name, self._hints.currency, self._hints.currency, "", MONEY)]
        if meaning.means("supplier") and spec.type == "text":
            return self._firm(spec)
        if spec.type == "number":
            return self._by_unit(meaning)
        if spec.type == "date" and (
            meaning.means("date", "invoice_date", "reading_date") or not meaning.concept
        ):
            return self._dates(spec, 1.0 if meaning.means("date") else NOT_A_LETTER)
        return self._largest(spec) if spec.type == "amount" and meaning.means("total") else []

    def _cells(self) -> Iterator[tuple[SourcePage, int, int, Cell]]:
        rows = 0
        for page in self._pages:
            for number, row in enumerate(page.rows):
                rows += 1
                if rows > MOST_ROWS:
                    return
                yield from ((page, number, column, cell) for column, cell in enumerate(row))

    def _all(self, spec: FieldSpec, find: Find) -> list[Candidate]:
        """Every value that is found in some cell, with the sureness of its reading."""
        return [
            _candidate(spec, page, row, column, cell, each)
            for page, row, column, cell in self._cells()
            for each in find(cell.text)
            if not self._is_labelled(page.rows[row], column, each)
        ]

    def _is_labelled(self, row: Row, column: int, found: Found) -> bool:
        """What has a label is the value of that, and of nothing else."""
        before = row[column].text[: found.start]
        return bool(self._index.hits(before) or (column and self._index.hits(row[column - 1].text)))

    def _alone(self, spec: FieldSpec, find: Find, sureness: float) -> list[Candidate]:
        """One value is likely meant, one of several perhaps."""
        found = self._all(spec, find)
        several = len({each.value for each in found}) > 1
        return [_surer(each, ONE_OF_MANY if several else sureness) for each in found]

    def _by_unit(self, meaning: FieldMeaning) -> list[Candidate]:
        spec = meaning.spec
        wanted = unit_named(spec.unit)
        if wanted:
            found = self._all(spec, lambda text: self._with_unit(text, spec, wanted))
            if found:
                several = len({each.value for each in found}) > 1
                return [_surer(each, UNIT_ALONE * (0.5 if several else 1.0)) for each in found]
        if meaning.means("meter_reading") and self._pages and self._pages[0].scanned:
            return self._alone(spec, lambda text: self._digits(text, spec), DIGITS_ALONE)
        return []

    def _with_unit(self, text: str, spec: FieldSpec, wanted: str) -> list[Found]:
        found = find_values(text, spec, self._hints, "")
        return [
            each for each in found if each.unit == wanted and not text[each.start : each.end][-1:].isdigit()
        ]

    def _digits(self, text: str, spec: FieldSpec) -> list[Found]:
        """Digits that have a line for themselves, as on the dial of a meter."""
        match = DIGITS.match(text)
        if match is None:
            return []
        value = match[1].replace(" ", "").replace(",", ".").lstrip("0") or "0"
        return [Found(value, match.start(1), match.end(1), 1.0, spec.unit)]

    def _dates(self, spec: FieldSpec, factor: float) -> list[Candidate]:
        found = self._all(spec, lambda text: find_values(text, spec, self._hints, ""))
        written = [each for each in found if LETTER_DATE.match(each.quote)]
        if written:
            return [_surer(each, PLACE_AND_DATE * factor) for each in written[:2]]
        several = len({each.place for each in found}) > 1
        return [_surer(each, (FIRST_DATE if several else ONLY_DATE) * factor) for each in found[:2]]

    def _largest(self, spec: FieldSpec) -> list[Candidate]:
        found = self._all(spec, lambda text: find_values(text, spec, self._hints, ""))
        money = [each for each in found if each.confidence > 0.8 and each.unit]
        best = max(money, key=lambda each: float(each.value), default=None)
        return [_surer(best, LARGEST_SUM)] if best else []

    def _firm(self, spec: FieldSpec) -> list[Candidate]:
        """Whoever writes stands on top of the first page."""
        for page, row, column, cell in self._cells():
            if FIRM.search(cell.text) and page.number == 1:
                whole = Found(cell.text[:200], 0, len(cell.text[:200]))
                return [_surer(_candidate(spec, page, row, column, cell, whole), COMPANY)]
        return []


def _candidate(
    spec: FieldSpec, page: SourcePage, row: int, column: int, cell: Cell, found: Found
) -> Candidate:
    raw, box = cell.text[found.start : found.end], cell.part(found.start, found.end)
    sureness = found.sureness * (SCANNED if page.scanned else 1.0)
    place = (page.number, row, column)
    quote = quote_of(page.rows[row])
    return Candidate(spec.name, found.value, raw, found.unit, sureness, page.number, box, quote, place)


def _surer(candidate: Candidate, factor: float) -> Candidate:
    return replace(candidate, confidence=candidate.confidence * factor)

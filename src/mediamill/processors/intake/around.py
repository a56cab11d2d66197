"""The value of a label: behind it in its cell, right of it in its row, or below it.

How sure a value is depends on how it was found, on how sure the label is, and on how sure the reading of its
characters is; the three are multiplied. The numbers were set by the documents of the tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mediamill.processors.intake.found import Found
from mediamill.processors.intake.hints import Hints
from mediamill.processors.intake.labels import FieldMeaning, Hit, LabelIndex
from mediamill.processors.intake.source_page import Cell, Row
from mediamill.processors.intake.units import currency_named, unit_named
from mediamill.processors.intake.values import find_values

COLON, SPACE, RIGHT, BELOW, NEXT_LINE, LISTED, PROSE = 0.97, 0.9, 0.95, 0.88, 0.8, 0.5, 0.65
LONGER_LABEL = 0.5  # the label goes on: `Date of birth` is not `Date`
WORDS_BETWEEN, FAR_BEHIND = 0.8, 0.5
LOOSE_TEXT = 0.55  # words after a label without a colon may be more of the label
SEVERAL = 0.75  # numbers in a row of which one must be meant
ROWS_BELOW, CELLS_RIGHT = 2, 8
NEAR_HEIGHTS = 3.0  # how many heights of a line a value may be below its label
CONNECTOR = re.compile(
    r"\s*(?:(?:\(|\[)(?P<unit>[^)\]]{1,30})[)\]]|\bin (?P<word>[^\s:]{1,6})(?=\s*:|$)"
    r"|/ ?(?P<slash>[^\s:]{1,6})(?=\s*:|$))?"
    r"\.?\s*(?P<colon>:|=|\.{3,}|…+|[-–—>](?=\s))*\s*"
)
RATE = re.compile(r"[(@]?\s*\d{1,2}(?:[.,]\d{1,2})?\s?%\)?[^\w]*|[^\w]*\d?[^\w]*")  # `VAT 19 %`, `Weight¹`
RATE_FIRST = re.compile(r"\(?@?\s*\d{1,2}(?:[.,]\d{1,2})?\s?%\)?\s*:?\s*")
BEFORE_LABEL = re.compile(
    r"(?:\b(?:inkl|incl|zzgl|plus|including|davon|darin|enthaltene|the|your|ihre?)\b|\d{1,2}(?:[.,]\d{1,2})?\s?%|[^\w%])*",
    re.IGNORECASE,
)
QUALIFIER = re.compile(r"[^\d:]{1,40}:\s*")


@dataclass(frozen=True, slots=True)
class Near:
    """A value near a label, and how sure it is that it belongs to it."""

    found: Found
    cell: Cell
    row: int
    column: int
    sureness: float


@dataclass(frozen=True, slots=True)
class Spot:
    """A label at its place among the rows of a page."""

    rows: Sequence[Row]
    hits: Sequence[Sequence[Sequence[Hit]]]  # of each cell of each row
    row: int
    column: int
    hit: Hit
    limit: int  # where the next label of the cell begins

    @property
    def cell(self) -> Cell:
        """The cell of the label."""
        return self.rows[self.row][self.column]

    @property
    def is_first(self) -> bool:
        """Does the cell begin with the label, but for words such as `plus`, or the rate of a tax?"""
        return BEFORE_LABEL.fullmatch(self.cell.text, 0, self.hit.start) is not None

    def is_label(self, row: int, column: int) -> bool:
        """Is that cell nothing but a label?"""
        hits = self.hits[row][column]
        if not hits or hits[0].start > 0:
            return False
        text = self.rows[row][column].text
        return not CONNECTOR.sub("", text[hits[0].end :], count=1).strip() or text.endswith(":")


def values_near(spot: Spot, meaning: FieldMeaning, hints: Hints) -> list[Near]:
    """The best values of the label for one field, from the surest place that has any."""
    rest = spot.cell.text[spot.hit.end : spot.limit]
    joint = CONNECTOR.match(rest)
    assert joint is not None  # it matches nothing too
    unit = _unit_in(joint)
    start = joint.end()
    if meaning.spec.type == "amount" and (rate := RATE_FIRST.match(rest, start)):
        start = rate.end()
    after, offset = rest[start:], spot.hit.end + start
    more = 1.0
    if after.strip():
        colon = ":" in rest[:start] or bool(joint["colon"])
        near = _behind(spot, meaning, hints, (after, offset, colon), unit)
        if near:
            return near
        more = 1.0 if RATE.fullmatch(after) else LONGER_LABEL
    if not spot.is_first and not joint["colon"]:
        return []
    return _right(spot, meaning, hints, unit, more) or _below(spot, meaning, hints, unit, more)


def _unit_in(joint: re.Match[str]) -> str:
    """The unit that a label names: `Power [kW]`, `Total (EUR)`, `Weight in kg`."""
    word = (joint["unit"] or joint["word"] or joint["slash"] or "").strip().removeprefix("in ")
    return unit_named(word) or currency_named(word)


def _behind(
    spot: Spot, meaning: FieldMeaning, hints: Hints, rest: tuple[str, int, bool], unit: str
) -> list[Near]:
    after, offset, colon = rest
    how = COLON if colon else SPACE if spot.is_first else PROSE
    if not colon and (longer := QUALIFIER.match(after)):
        after, offset = after[longer.end() :], offset + longer.end()
        how = COLON * LONGER_LABEL
    elif not colon and meaning.spec.type == "text" and meaning.kind in ("", "text", "none"):
        if not spot.is_first or len(spot.rows[spot.row]) > spot.column + 1:
            return []
        how *= LOOSE_TEXT
    if not colon and meaning.spec.type == "boolean" and not spot.is_first:
        return []
    found = find_values(after, meaning.spec, hints, meaning.kind, unit)
    near = []
    for each in _chosen(found, meaning):
        between = after[: each.start].strip(" :.-–")
        sureness = how * each.sureness
        if between:
            sureness *= WORDS_BETWEEN if len(between) <= 25 else FAR_BEHIND
        moved = Found(each.value, each.start + offset, each.end + offset, each.sureness, each.unit)
        near.append(Near(moved, spot.cell, spot.row, spot.column, sureness))
    return near


def _right(spot: Spot, meaning: FieldMeaning, hints: Hints, unit: str, more: float) -> list[Near]:
    row = spot.rows[spot.row]
    pairs: list[tuple[int, Found]] = []
    last = min(len(row), spot.column + 1 + CELLS_RIGHT)
    for column in range(spot.column + 1, last):
        text = row[column].text
        if not text:
            continue
        if spot.is_label(spot.row, column):
            break
        beside = unit or _unit_beside(row, column)
        found = _chosen(find_values(text, meaning.spec, hints, meaning.kind, beside), meaning)
        pairs += [(column, each) for each in found]
        if found and meaning.spec.type in ("text", "date", "boolean"):
            break
    several = meaning.spec.type == "number" and len({each.value for _, each in pairs}) > 1
    how = RIGHT * more * (SEVERAL if several else 1.0)
    best = _best_pairs(pairs, meaning)
    return [Near(each, row[column], spot.row, column, how * each.sureness) for column, each in best]


def _unit_beside(row: Row, column: int) -> str:
    """A cell that is only a unit, behind the number or before it."""
    for place in (column + 1, column - 1):
        if 0 < place < len(row) and (unit := unit_named(row[place].text) or currency_named(row[place].text)):
            return unit
    return ""


def _best_pairs(pairs: list[tuple[int, Found]], meaning: FieldMeaning) -> list[tuple[int, Found]]:
    """Of several amounts in a row the last is the sum; of several numbers the first is the one."""
    if meaning.spec.type == "amount" and pairs:
        surest = max(each.sureness for _, each in pairs)
        return [pair for pair in pairs if pair[1].sureness >= surest - 0.05][-1:]
    return sorted(pairs, key=lambda pair: -pair[1].sureness)[:2]


def _below(spot: Spot, meaning: FieldMeaning, hints: Hints, unit: str, more: float) -> list[Near]:
    for row in range(spot.row + 1, min(len(spot.rows), spot.row + 1 + ROWS_BELOW)):
        column = _column_below(spot, row)
        if column is None:
            continue
        if spot.is_label(row, column):
            return []
        cell = spot.rows[row][column]
        beside = unit or (_unit_beside(spot.rows[row], column) if meaning.spec.type == "number" else "")
        found = _chosen(find_values(cell.text, meaning.spec, hints, meaning.kind, beside), meaning)
        how = _sure_below(spot, row, column, found) * more
        return [Near(each, cell, row, column, how * each.sureness) for each in found]
    return []


def _column_below(spot: Spot, row: int) -> int | None:
    box = spot.cell.box
    if box is None:
        filled = spot.column < len(spot.rows[row]) and spot.rows[row][spot.column].text
        return spot.column if filled else None
    for column, cell in enumerate(spot.rows[row]):
        if cell.box is None or not cell.text:
            continue
        near = 0 <= cell.box[1] - box[1] <= (1 + NEAR_HEIGHTS) * max(box[3] - box[1], 0.002)
        if near and cell.box[0] < box[2] and cell.box[2] > box[0]:
            return column
    return None


def _sure_below(spot: Spot, row: int, column: int, found: Sequence[Found]) -> float:
    """A column of a list has many values, and nobody knows which one is meant."""
    if len(spot.rows[spot.row]) == 1 and spot.cell.box is None:
        return NEXT_LINE
    further = Spot(spot.rows, spot.hits, row, column, spot.hit, spot.limit)
    after = row + 1
    if found and after < len(spot.rows) and len(spot.rows[row]) > 1:
        place = _column_below(further, after)
        same_shape = place is not None and len(spot.rows[after]) == len(spot.rows[row])
        if same_shape and place is not None and not spot.is_label(after, place):
            return LISTED
    return BELOW


def _chosen(found: Sequence[Found], meaning: FieldMeaning) -> list[Found]:
    """The likeliest value of a text; of a date that can be read in two ways, both."""
    if not found:
        return []
    if meaning.spec.type == "date":
        return [each for each in found if each.start == found[0].start][:2]
    if meaning.spec.type == "amount":
        return [max(reversed(found), key=lambda each: round(each.sureness, 1))]
    return [max(found, key=lambda each: round(each.sureness, 2))]


def spots_of(rows: Sequence[Row], index: LabelIndex, *, scanned: bool) -> Iterator[Spot]:
    """Every label of a page that some field asks for."""
    hits = [[_hits_of(cell, index, scanned=scanned) for cell in row] for row in rows]
    for row, cells in enumerate(hits):
        for column, found in enumerate(cells):
            length = len(rows[row][column].text)
            starts = [hit.start for hit in found if _is_marked(rows[row][column].text, hit)] + [length]
            for hit in found:
                if hit.meant:
                    limit = next((start for start in starts if start > hit.start), length)
                    yield Spot(rows, hits, row, column, hit, limit)


def _hits_of(cell: Cell, index: LabelIndex, *, scanned: bool) -> list[Hit]:
    hits = index.hits(cell.text)
    if hits or not scanned:
        return hits
    misread = index.misread(cell.text)
    return [misread] if misread else []


def _is_marked(text: str, hit: Hit) -> bool:
    """Is it surely a label, since a colon follows?"""
    return text[hit.end : hit.end + 3].lstrip(". ").startswith(":")

"""A value that may be that of a field: how sure, where it stands, and what stands around it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mediamill.processors.intake.source_page import Box, Row

MOST_OF_A_FIELD = 3
QUOTE_CHARACTERS, VALUE_CHARACTERS = 200, 500
MOST_BYTES = 400_000  # of all candidates as JSON: the result of a job has a limit
SURE = 0.98
RIVAL, DOUBT = 0.8, 0.85  # another value that is nearly as likely, and what that costs
MARGIN = 0.004  # of the page around a marked place


@dataclass(frozen=True, slots=True)
class Candidate:
    """`place`: where it is in the document, to tell first from last."""

    field: str
    value: str
    raw: str
    unit: str
    confidence: float
    page: int | None = None
    box: Box | None = None
    quote: str = ""
    place: tuple[int, int, int] = (0, 0, 0)

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "name": self.field,
            "value": self.value[:VALUE_CHARACTERS],
            "raw": self.raw[:VALUE_CHARACTERS],
            "unit": self.unit or None,
            "confidence": round(min(max(self.confidence, 0.0), SURE), 3),
            "page": self.page,
            "box": _wider(self.box) if self.box else None,
            "quote": self.quote,
        }


def quote_of(row: Row) -> str:
    """A row as one line."""
    line = "   ".join(cell.text for cell in row if cell.text)
    return line if len(line) <= QUOTE_CHARACTERS else line[: QUOTE_CHARACTERS - 1] + "…"


def best_candidates(candidates: Iterable[Candidate], *, prefer_last: bool = False) -> list[Candidate]:
    """The candidates of one field, each value once, the best first."""
    merged: dict[tuple[str, str], Candidate] = {}
    for candidate in candidates:
        key = candidate.value, candidate.unit
        merged[key] = _merged(merged[key], candidate) if key in merged else candidate
    sign = -1 if prefer_last else 1
    ranked = sorted(
        merged.values(), key=lambda each: (-round(each.confidence, 2), *(sign * part for part in each.place))
    )
    if len(ranked) > 1 and ranked[1].confidence >= RIVAL * ranked[0].confidence:
        ranked[0] = replace(ranked[0], confidence=ranked[0].confidence * DOUBT)
        ranked[1:] = [
            replace(each, confidence=min(each.confidence, ranked[0].confidence * 0.9)) for each in ranked[1:]
        ]
    return ranked[:MOST_OF_A_FIELD]


def _merged(one: Candidate, other: Candidate) -> Candidate:
    """The same value found twice is a little surer; the better place is shown."""
    best = one if one.confidence >= other.confidence else other
    less = min(one.confidence, other.confidence)
    return replace(best, confidence=min(SURE, best.confidence + (1 - best.confidence) * less * 0.3))


def tell_candidates(ranked: Sequence[Sequence[Candidate]]) -> list[dict[str, Any]]:
    """All fields as JSON, the best of each before the others where there is no room for all."""
    told: list[tuple[int, int, dict[str, Any]]] = []
    room = MOST_BYTES
    for rank in range(MOST_OF_A_FIELD):
        for number, candidates in enumerate(ranked):
            if rank < len(candidates):
                each = candidates[rank].told()
                room -= len(json.dumps(each, ensure_ascii=False).encode("utf-8", "replace"))
                if room >= 0:
                    told.append((number, rank, each))
    return [each for _, _, each in sorted(told, key=lambda item: item[:2])]


def _wider(box: Box) -> list[float]:
    left, top, right, bottom = box
    edges = (left - MARGIN, top - MARGIN, right + MARGIN, bottom + MARGIN)
    return [round(min(max(edge, 0.0), 1.0), 4) for edge in edges]

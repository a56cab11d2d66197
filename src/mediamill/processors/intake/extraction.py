"""Who fills in the fields: the text model if there is one, else the rules. With it, a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mediamill.processors.intake.asking import ask_for_fields
from mediamill.processors.intake.candidate import Candidate
from mediamill.processors.intake.catalog import FieldSpec
from mediamill.processors.intake.extractor import RULES
from mediamill.processors.intake.kept import Kept
from mediamill.processors.intake.placing import place_answers
from mediamill.processors.intake.rules import extract_by_rules
from mediamill.processors.intake.source import Source
from mediamill.processors.intake.summary import summarise
from mediamill.processors.models.contract import TextModel
from mediamill.processors.page_spans import pages_not_read, spans_of

if TYPE_CHECKING:
    from mediamill.settings import Settings


@dataclass(frozen=True, slots=True)
class Extracted:
    """The candidates of each field, and who found them."""

    ranked: Sequence[Sequence[Candidate]]
    summary: str
    models: Sequence[str]
    warnings: Sequence[str] = ()


def extract(
    source: Source,
    specs: Sequence[FieldSpec],
    model: TextModel | None,
    settings: Settings,
    kept: Kept,
    deadline: float,
) -> Extracted:
    """Fields and summary. What has no text and no sight is not asked about."""
    if model is None or not (source.seen or any(page.text.strip() for page in source.pages)):
        summary = f"Image. {source.seen}" if source.seen else summarise(source)
        ranked, last = extract_by_rules(source.pages, specs, deadline)
        return Extracted(ranked, summary, [RULES], _stopped(source, last))
    answers, unasked = ask_for_fields(source, specs, model, settings, kept)
    ranked = place_answers(source, specs, answers)
    summary = next((answer.summary for answer in answers if answer.summary), "") or summarise(source)
    return Extracted(ranked, summary, [answer.model for answer in answers], _left_out(unasked))


def _stopped(source: Source, last: int) -> list[str]:
    beyond = [page.number for page in source.pages[last:]]
    return [f"fields were not looked for: {pages_not_read(spans_of(beyond))}"] if beyond else []


def _left_out(pages: Sequence[int]) -> list[str]:
    return [f"the model was not asked about everything: {pages_not_read(spans_of(pages))}"] if pages else []

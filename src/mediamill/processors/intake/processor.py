"""The processor of project files: read the pages, find the fields, draw the pages.

The time limit of the pool is for each step: a page, a question to a model, the drawing. So a scan of any length is
read whole, and a page that hangs costs one step.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mediamill.media.errors import UnsupportedMediaError
from mediamill.processors.contract import ProcessorOutput
from mediamill.processors.document.document_text import CHARACTERS, Limits
from mediamill.processors.document.formats import MAIL, PDF
from mediamill.processors.image.examine import Eyes
from mediamill.processors.intake.candidate import tell_candidates
from mediamill.processors.intake.catalog import read_catalog
from mediamill.processors.intake.drawing import draw_source
from mediamill.processors.intake.extraction import extract
from mediamill.processors.intake.kept import Kept
from mediamill.processors.intake.source import MOST_PAGES, PIECES, Source, read_source
from mediamill.processors.intake.source_page import SourcePage
from mediamill.processors.intake.summary import document_kind
from mediamill.processors.intake.unmapped import find_unmapped
from mediamill.processors.media_processor import BaseMediaProcessor
from mediamill.processors.models import choose
from mediamill.processors.result import ProcessingResult

STEP_SHARE = 0.85  # of the time limit; then a step that can hand over what it has does so
ALL = 1_000_000  # scanned pages: as many as there are
PAGES_FILE = "pages.json"
PAGED = (PDF, MAIL)  # read page by page, each a step


@dataclass(frozen=True, slots=True)
class FileAnalysis(ProcessingResult):
    """What becomes of a project file."""

    kind: str = "document"
    summary: str = ""
    unsupported: str | None = None
    pages: Sequence[Mapping[str, Any]] = ()
    fields: Sequence[Mapping[str, Any]] = ()
    unmapped: Sequence[Mapping[str, Any]] = ()


class IntakeProcessor(BaseMediaProcessor):
    """Files of a project to text, pages and proposed fields."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        super().__init__(mime_types, timeout_seconds)
        self.network = self.settings.text != "none" or self.settings.vision != "local"
        self._eyes = Eyes()

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """Read it, look for the fields, draw it."""
        del caption, media_metadata
        kept, asked = Kept(self.given), read_catalog(self.given.payload)
        rounds = _rounds(self.given.payload)
        limits = Limits(
            pages=self.settings.document_pages * rounds,
            ocr_pages=ALL,
            characters=CHARACTERS * rounds,
            pieces=PIECES,
            deadline=float("inf") if mime_type in PAGED else self._step_end(),
        )
        try:
            source = read_source(self.given, file_path, mime_type, limits, self._eyes, kept)
        except UnsupportedMediaError as error:
            told = error.message
            return FileAnalysis("", kind="unsupported", summary=f"Not analysed: {told}.", unsupported=told)
        self.given.report(step="looking for the fields", percent=60)
        kind = document_kind(source.pages)
        specs = tuple(replace(spec, categories=()) for spec in asked if spec.is_for(kind))
        extracted = extract(
            source,
            specs,
            choose.text_model(),
            self.settings,
            kept,
            self._step_end(),
        )
        unmapped = find_unmapped(source.pages, asked)
        wanted = [found.page for ranked in extracted.ranked for found in ranked if found.page]
        self.given.report(step="drawing the pages", percent=90)
        files = draw_source(
            source,
            file_path,
            mime_type,
            self.given.folder,
            wanted,
            self._step_end(),
        )
        files |= self._write_pages(source)
        return FileAnalysis(
            source.content,
            tags=source.tags,
            models=[*extracted.models, *source.models],
            facts={
                **source.facts,
                **(
                    {"warnings": warnings}
                    if (warnings := [*source.facts.get("warnings", ()), *extracted.warnings])
                    else {}
                ),
                **({"document_kind": kind} if kind else {}),
            },
            files=files,
            kind=source.kind,
            summary=extracted.summary,
            pages=[_tell_page(page) for page in source.pages],
            fields=tell_candidates(extracted.ranked),
            unmapped=unmapped,
        )

    def _step_end(self) -> float:
        return time.monotonic() + self.timeout_seconds * STEP_SHARE

    def _write_pages(self, source: Source) -> dict[str, str]:
        """The text of each page, for the search and for whoever reads beside the picture."""
        told = [{"number": page.number, "label": page.label, "text": page.text} for page in source.pages]
        text = json.dumps(told, ensure_ascii=False).replace("\\u0000", "")
        (self.given.folder / PAGES_FILE).write_text(text, encoding="utf-8", errors="replace")
        return {PAGES_FILE: PAGES_FILE}

    def _output(self, result: ProcessingResult, mime_type: str, claimed: str | None) -> ProcessorOutput:
        output = super()._output(result, mime_type, claimed)
        assert isinstance(result, FileAnalysis)
        more = {
            "kind": result.kind,
            "summary": result.summary,
            "unsupported": result.unsupported,
            "pages": list(result.pages),
            "fields": list(result.fields),
            "unmapped": list(result.unmapped),
        }
        return replace(output, result={**output.result, **more})


def _rounds(payload: Mapping[str, Any]) -> int:
    """How often as many pages as the settings say: a person may ask for more than the first ones."""
    rounds = payload.get("rounds", 1)
    return rounds if isinstance(rounds, int) and 1 <= rounds <= MOST_PAGES else 1


def _tell_page(page: SourcePage) -> dict[str, Any]:
    return {
        "number": page.number,
        "label": page.label,
        "width": page.width,
        "height": page.height,
        "image": page.image,
    }

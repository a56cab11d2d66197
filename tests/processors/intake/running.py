"""The intake processor run as a worker would, in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.intake.processor import IntakeProcessor
from tests.intake_documents import CATALOG
from tests.processors.document_files import Reports

SECONDS = 300


def field(
    name: str, type_: str = "text", label: str = "", unit: str = "", description: str = ""
) -> dict[str, Any]:
    """A field of a catalog."""
    words = label or name.replace("_", " ").capitalize()
    return {"name": name, "type": type_, "label": words, "description": description, "unit": unit}


@dataclass(frozen=True)
class Analysed:
    """What came of it."""

    result: Mapping[str, Any]
    files: Mapping[str, str]
    folder: Path
    reports: Reports

    def all(self, name: str) -> list[dict[str, Any]]:
        return [found for found in self.result["fields"] if found["name"] == name]

    def best(self, name: str) -> dict[str, Any] | None:
        return next(iter(self.all(name)), None)

    def value(self, name: str) -> str | None:
        found = self.best(name)
        return found["value"] if found else None


def analyse(
    path: Path,
    folder: Path,
    fields: Sequence[Mapping[str, Any]] = CATALOG,
    *,
    checkpoint: Any = None,
    kept: dict[str, dict[str, Any]] | None = None,
    processor: IntakeProcessor | None = None,
    reports: Reports | None = None,
) -> Analysed:
    """One attempt. What it keeps is added to `kept`."""
    there = {} if kept is None else kept

    def keep(name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None:
        assert (folder / path).is_file()
        there[name] = dict(facts or {})

    folder.mkdir(parents=True, exist_ok=True)
    reports = reports or Reports()
    made = processor or IntakeProcessor(("file.analyse",), SECONDS)
    payload = {"fields": list(fields)}
    given = ProcessorInput(payload, None, path, folder, checkpoint, 1, reports, dict(there), keep)
    output = made.process(given)
    return Analysed(output.result, output.files, folder, reports)

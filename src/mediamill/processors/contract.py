"""The contract of a processor: files and a JSON payload in, a JSON result and derivative files out.

Plain, synchronous, no database. `GiveUpError` means "never again", any other exception "try again later".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


class ReportCall(Protocol):
    """Tells how far the work is; whoever reports keeps the claim on the job."""

    def __call__(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class ProcessorInput:
    """What one attempt is given."""

    payload: Mapping[str, Any]  # the JSON object that travelled with the job
    mime_type: str | None
    folder: Path  # a fresh scratch folder for this attempt: derivatives go here, the worker removes it
    checkpoint: Any  # what an earlier attempt saved, or None
    attempt: int
    report: ReportCall


@dataclass(frozen=True, slots=True)
class ProcessorOutput:
    """What one attempt made."""

    result: Mapping[str, Any]  # a JSON object
    files: Mapping[str, str] = field(default_factory=dict)  # derivative name -> path relative to the folder


class Processor(Protocol):
    """Made once per child process (load models in the constructor), then called for job after job."""

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """Do the work of one attempt."""
        ...

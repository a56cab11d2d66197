"""The contract of a processor: files and a JSON payload in, a JSON result and derivative files out.

Plain, synchronous, no database. `GiveUpError` means "never again", any other exception "try again later".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mediamill.errors import GiveUpError

CALLER = "MEDIAMILL_CALLER"  # environment variable: number of the inherited socket to the caller, or
NO_CALLER = "none"  # for a process that has neither the network nor a caller


class ReportCall(Protocol):
    """Tells how far the work is; whoever reports keeps the claim on the job."""

    def __call__(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
    ) -> None: ...


class KeepCall(Protocol):
    """Gives a finished file away before the attempt ends: it is kept for later attempts, whatever becomes of this one.

    `path` is relative to the folder, or absolute inside it; the file is closed, and not touched any more.
    """

    def __call__(self, name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None: ...


def keep_nothing(name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None:
    """For attempts that nobody keeps files of: they stay where they are."""


@dataclass(frozen=True, slots=True)
class ProcessorInput:
    """What one attempt is given."""

    payload: Mapping[str, Any]  # the JSON object that travelled with the job
    mime_type: str | None
    file: Path | None  # the file to read, for jobs that have one; it is never written
    folder: Path  # a fresh scratch folder for this attempt: derivatives go here, the worker removes it
    checkpoint: Any  # what an earlier attempt saved, or None
    attempt: int
    report: ReportCall
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name -> facts, of earlier attempts
    keep: KeepCall = keep_nothing


@dataclass(frozen=True, slots=True)
class ProcessorOutput:
    """What one attempt made."""

    result: Mapping[str, Any]  # a JSON object
    files: Mapping[str, str] = field(default_factory=dict)  # derivative name -> path relative to the folder


class Processor(Protocol):
    """Made once per child process with its pool's mime types and time limit, then called for job after job.

    No processor has the network. One whose attribute `network` is true has a caller: through `Endpoint`
    (models/endpoint.py) it reaches the model servers that the settings name, and nothing else.
    """

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None: ...

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """Do the work of one attempt."""
        ...


class RefusedMediaError(GiveUpError):
    """The media will never become text; its staged file is deleted. `notice`: what its sender gets instead."""

    code = "media_refused"

    def __init__(self, message: str, *, notice: str, code: str | None = None) -> None:
        super().__init__(message)
        self.notice = notice
        if code is not None:
            self.code = code


class WrongTypeError(GiveUpError):
    """The file is not what its sender claimed; the pool of its real type must have it."""

    code = "wrong_type"

    def __init__(self, mime_type: str) -> None:
        super().__init__(f"the file is really {mime_type}")
        self.mime_type = mime_type

"""One attempt at one job as a sandbox is given it, and as it goes to a child."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mediamill.processors.contract import ProcessorOutput
from mediamill.worker.failures import ProcessorGaveUpError
from mediamill.worker.messages import KeptFile, Report, Spent, Work, frame
from mediamill.worker.open_input import OpenInput
from mediamill.worker.scratch import take_files

Keep = Callable[[Path, ProcessorOutput], Awaitable[None]]


class Take:
    """Moves files that a child made to where it cannot reach them; the folder that they are in then."""

    def __init__(self, folder: Path, taken: Path) -> None:
        self._folder, self._taken = folder, taken
        # The attempt has failed, and its folders are being removed: that a file is missing now says nothing about it.
        self.abandoned = False

    def __call__(self, files: Mapping[str, str]) -> Path:
        """`files`: paths in the child's folder by name."""
        take_files(self._folder, files, self._taken)
        return self._taken


@dataclass(frozen=True, slots=True)
class SandboxJob:
    """One attempt at one job, as the processor will see it."""

    payload: Mapping[str, Any] = field(default_factory=dict)
    mime_type: str | None = None
    file: Path | None = None
    checkpoint: Any = None
    attempt: int = 1
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    on_spent: Callable[[Spent], None] | None = None  # whoever traces
    limits_steps: bool = False  # every report begins a new time limit
    owner: str = ""  # a child that worked for one owner works for no other

    @property
    def members(self) -> Sequence[str] | None:
        """If its file is a folder: the files in it that the job is about."""
        match self.payload.get("file"):
            case {"files": list(names)}:
                return names
        return None


def frame_job(given: SandboxJob, opened: OpenInput, number: int, output_bytes: int) -> bytearray:
    """The message that gives the job to a child."""
    work = Work(
        number,
        dict(given.payload),
        given.mime_type,
        None if given.file is None else os.fsencode(given.file),
        given.checkpoint,
        given.attempt,
        output_bytes,
        {name: dict(facts) for name, facts in given.kept.items()},
        given.on_spent is not None,
        opened.members,
        opened.failed,
    )
    try:
        return frame(work)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ProcessorGaveUpError(f"the payload cannot be sent: {error}", code="invalid_payload") from error


def split_reports(
    on_report: Callable[[Report], None],
    on_kept: Callable[[KeptFile, Take], None] | None,
    take: Take,
    on_spent: Callable[[Spent], None] | None,
    on_step: Callable[[], None] | None = None,
) -> Callable[[Report], None]:
    """What a child reports goes to those who want to know: progress, finished files, and the time that it took."""

    def hear(report: Report) -> None:
        if on_step is not None:
            on_step()
        if report.spent is not None:
            if on_spent is not None:
                on_spent(report.spent)
        elif report.kept is None:
            on_report(report)
        elif on_kept is not None:
            on_kept(report.kept, take)

    return hear

"""Attempts at a file of a library one after the other, with what home keeps between them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mediamill.processors.contract import Processor, ProcessorInput, ProcessorOutput
from mediamill.processors.library.video import LibraryVideoProcessor


class Crash(BaseException):
    """The worker is gone."""


@dataclass
class Home:
    """What the database and the data folder would hold of one job."""

    folder: Path
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    checkpoint: Any = None
    scenes: dict[int, dict[str, Any]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)  # by the last attempt
    calls: int = 0  # of keep and report, by the last attempt
    attempts: int = 0

    def attempt(self, source: Path, *, crash_at: int | None = None, **payload: Any) -> Mapping[str, Any]:
        """One attempt. `crash_at`: it dies in this call of keep or report, before home hears of it."""
        scratch = self.folder.parent / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        self.folder.mkdir(exist_ok=True)
        self.kept, self.calls = [], 0
        self.attempts += 1

        def count() -> None:
            self.calls += 1
            if self.calls == crash_at:
                raise Crash

        def keep(name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None:
            count()
            shutil.move(scratch / path, self.folder / name)
            size = (self.folder / name).stat().st_size
            self.facts[name] = {**json.loads(json.dumps(facts or {})), "bytes": size}
            self.kept.append(name)

        def report(
            step: str | None = None,
            percent: float | None = None,
            parts: Mapping[str, Any] | None = None,
            checkpoint: Any = None,
        ) -> None:
            if parts is None:  # how often the percentage is told is a matter of time
                return
            count()
            told = json.loads(json.dumps(parts))
            self.scenes.setdefault(told["scene"]["number"], told["scene"])
            if checkpoint is not None:
                self.checkpoint = json.loads(json.dumps(checkpoint))

        given = ProcessorInput(
            payload, None, source, scratch, self.checkpoint, self.attempts, report, dict(self.facts), keep
        )
        return LibraryVideoProcessor((), 600).process(given).result

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def run_once(processor: Processor, source: Path, folder: Path, **payload: Any) -> ProcessorOutput:
    """One attempt whose files stay in the folder."""
    folder.mkdir(exist_ok=True, parents=True)
    return processor.process(ProcessorInput(payload, None, source, folder, None, 1, lambda *_, **__: None))

"""Attempts at a video one after the other, with what home keeps between them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mediamill.processors.contract import ProcessorInput
from mediamill.processors.transcode.encoders import open_encoder
from mediamill.processors.transcode.processor import TranscodeProcessor
from mediamill.processors.transcode.quality import OpenEncoder

TINY = {"preset": "ultrafast", "segment_seconds": 1, "encoder": "libx264"}


class Crash(BaseException):
    """The worker is gone."""


@dataclass
class Home:
    """A folder of kept files with their facts, and all that attempts told."""

    folder: Path
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)  # by the last attempt
    reports: list[tuple[str | None, float, Mapping[str, Any] | None]] = field(default_factory=list)

    def attempt(
        self,
        source: Path,
        *,
        crash_after: Callable[[str], bool] = lambda _: False,
        opening: OpenEncoder = open_encoder,
        **payload: Any,
    ) -> Mapping[str, Any]:
        """One attempt, given what the former ones kept; it may crash when a file has been kept."""
        scratch = self.folder.parent / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        self.folder.mkdir(exist_ok=True)
        self.kept = []

        def keep(name: str, path: Path | str, facts: Mapping[str, Any] | None = None) -> None:
            shutil.move(scratch / path, self.folder / name)
            size = (self.folder / name).stat().st_size
            self.facts[name] = {**json.loads(json.dumps(facts or {})), "bytes": size}
            self.kept.append(name)
            if crash_after(name):
                raise Crash

        given = ProcessorInput(
            payload={**TINY, **payload},
            mime_type=None,
            file=source,
            folder=scratch,
            checkpoint=None,
            attempt=1,
            report=self.report,
            kept=json.loads(json.dumps(self.facts)),
            keep=keep,
        )
        result: Mapping[str, Any] = json.loads(
            json.dumps(TranscodeProcessor((), 600, open_encoder=opening).process(given).result)
        )
        return result

    def report(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.reports.append((step, percent or 0.0, None if parts is None else json.loads(json.dumps(parts))))

    def forget(self, *names: str) -> None:
        """As if these had never been kept."""
        for name in names:
            (self.folder / name).unlink()
            del self.facts[name]

    def segments(self, quality: str) -> list[str]:
        return sorted(name for name in self.facts if name.startswith(f"{quality}-0"))

    def bytes_of(self, prefix: str) -> dict[str, bytes]:
        return {name: (self.folder / name).read_bytes() for name in self.facts if name.startswith(prefix)}


def state_of(result: Mapping[str, Any], quality: str) -> str:
    return next(str(one["state"]) for one in result["qualities"] if one["name"] == quality)

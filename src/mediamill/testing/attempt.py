"""One attempt of a processor in this process, with a watch on all that it writes and reports."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from mediamill.processors.contract import Processor, ProcessorInput, ProcessorOutput


@dataclass(frozen=True, slots=True)
class Told:
    """One report."""

    step: str | None
    percent: float | None
    parts: Mapping[str, Any] | None
    checkpoint: Any


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of one attempt that ended well."""

    output: ProcessorOutput
    reports: list[Told]
    faults: list[str]  # of the derivatives
    source: tuple[str, str]  # before and after
    surroundings: tuple[dict[str, str], dict[str, str]]  # before and after


class Attempt:
    """`source`: the file to read, to be written by the caller. `folder`: where derivatives go."""

    def __init__(self, place: Path, mime_type: str | None, payload: Mapping[str, Any]) -> None:
        self.place = place
        self.source = place / "source" / "sample"
        self.folder = place / "folder"
        self.reports: list[Told] = []
        self._mime_type, self._payload = mime_type, payload
        for folder in (self.source.parent, self.folder, self.place / "elsewhere"):
            folder.mkdir(parents=True)

    def run(self, processor: Processor) -> ProcessorOutput:
        """Call it, with everything that it might write to by accident inside `place`."""
        given = ProcessorInput(
            self._payload, self._mime_type, self.source, self.folder, None, 1, self._take_report
        )
        with _at_home_in(self.place / "elsewhere"):
            return processor.process(given)

    def watch(self, run: Callable[[Attempt], ProcessorOutput]) -> Evidence:
        """Run it by `run`, and look around before and after."""
        source, around = state_of(self.source), self._surroundings()
        output = run(self)
        faults = [fault for name, path in output.files.items() if (fault := self._fault(name, path))]
        after = (state_of(self.source), self._surroundings())
        return Evidence(output, self.reports, faults, (source, after[0]), (around, after[1]))

    def _fault(self, name: str, relative: str) -> str | None:
        path = self.folder / relative
        if not path.is_file():
            return f"the derivative {name} is not there"
        if path.is_symlink() or not path.resolve().is_relative_to(self.folder.resolve()):
            return f"the derivative {name} is outside the folder"
        return None

    def _surroundings(self) -> dict[str, str]:
        """All files around the folder, and what is in them."""
        return {
            str(path.relative_to(self.place)): state_of(path) if path.is_file() else ""
            for path in self.place.rglob("*")
            if self.folder not in path.parents
        }

    def _take_report(
        self,
        step: str | None = None,
        percent: float | None = None,
        parts: Mapping[str, Any] | None = None,
        checkpoint: Any = None,
    ) -> None:
        self.reports.append(Told(step, percent, parts, checkpoint))


def as_plain_json(value: Mapping[str, Any]) -> dict[str, Any]:
    """The value as it arrives at home. Raises for what JSON and PostgreSQL cannot hold."""
    text = json.dumps(msgspec.to_builtins(value, str_keys=True), allow_nan=False, ensure_ascii=False)
    text.encode()  # no half of a surrogate pair
    assert "\\u0000" not in text, "a text has a NUL character"
    plain: dict[str, Any] = json.loads(text)
    return plain


def state_of(path: Path) -> str:
    """Content, time of the last change and permissions, as one word."""
    about = path.stat()
    return f"{sha256(path.read_bytes()).hexdigest()} {about.st_mtime_ns} {about.st_mode:o}"


@contextmanager
def _at_home_in(folder: Path) -> Iterator[None]:
    """The current folder and that of temporary files are here for a while."""
    here, temporary, variable = Path.cwd(), tempfile.tempdir, os.environ.get("TMPDIR")
    os.chdir(folder)
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        os.chdir(here)
        tempfile.tempdir = temporary
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable

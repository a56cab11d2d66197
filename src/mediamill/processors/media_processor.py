"""What all processors of media share: the file is there, its real type is known, the result is in one form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mediamill.media.errors import EmptyMediaError, MediaError, MissingMediaError
from mediamill.media.sniff import sniff
from mediamill.processors.contract import (
    ProcessorInput,
    ProcessorOutput,
    RefusedMediaError,
    WrongTypeError,
)
from mediamill.processors.result import ProcessingResult
from mediamill.processors.settings import read_settings

TEXT_FILE = "text.txt"


class BaseMediaProcessor(ABC):
    """A subclass implements `process_media` only. One job at a time: `self.given` is the one at hand."""

    network = False
    given: ProcessorInput

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        self.mime_types = tuple(mime_types)
        self.timeout_seconds = timeout_seconds
        self.settings = read_settings()

    @abstractmethod
    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """Turn the file into text. Derivatives go to `self.given.folder`, progress to `self.given.report`."""

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        """One attempt at one file, from its bytes to a result."""
        self.given = given
        try:
            return self._process(given)
        except MediaError as error:  # what is wrong with a file is told to whoever sent it
            raise RefusedMediaError(error.message, notice=_notice(error.message), code=error.code) from error

    def _process(self, given: ProcessorInput) -> ProcessorOutput:
        claimed = given.payload.get("claimed_mime_type") or given.mime_type
        path, mime_type = self.inspect(given)
        result = self.process_media(
            path,
            mime_type,
            str(given.payload.get("caption") or ""),
            given.payload.get("media_metadata") or {},
        )
        if result.failed_reason is not None:
            raise RefusedMediaError(result.failed_reason, notice=result.content)
        return self._output(result, mime_type, claimed)

    def inspect(self, given: ProcessorInput) -> tuple[Path, str]:
        """The file and its real type; a type that another pool serves sends the job there, once."""
        path = given.file
        if path is None or not path.is_file():
            raise MissingMediaError(
                f"the file {path.name!r} is not there (any more)" if path else "the job names no file"
            )
        refuse_empty(path)
        real = sniff(path).mime_type
        if not self.handles(real) and "claimed_mime_type" not in given.payload:
            raise WrongTypeError(real)
        return path, real

    def handles(self, mime_type: str) -> bool:
        """Is this one of the pool's types? A pool without types (a plugin, a test) takes all."""
        major = mime_type.partition("/")[0]
        wanted = {mime_type, f"{major}/*", "*/*"}
        mine = {match for match in self.mime_types if "/" in match}
        return not mine or bool(wanted & mine)

    def _output(self, result: ProcessingResult, mime_type: str, claimed: str | None) -> ProcessorOutput:
        content, files = self._fit(result.content, dict(result.files))
        told: dict[str, Any] = {
            "content": content,
            "mime_type": mime_type,
            "claimed_mime_type": claimed if claimed != mime_type else None,
            "tags": [asdict(tag) for tag in result.tags],
            "models": list(dict.fromkeys(result.models)),
            "facts": dict(result.facts),
        }
        return ProcessorOutput(told, files)

    def _fit(self, content: str, files: dict[str, str]) -> tuple[str, dict[str, str]]:
        """A text that is too long for a message is cut there, and whole in a file."""
        content = content.replace("\0", "")
        limit = self.settings.text_limit_characters
        if len(content) <= limit:
            return content, files
        (self.given.folder / TEXT_FILE).write_text(content, encoding="utf-8", errors="replace")
        more = len(content) - limit
        cut = f"{content[:limit]}\n[… {more} more characters are in {TEXT_FILE}]"
        return cut, {**files, TEXT_FILE: TEXT_FILE}


def refuse_empty(path: Path) -> None:
    """An empty file has no type, so it is said before one is looked for."""
    if path.stat().st_size == 0:
        raise EmptyMediaError("the file is empty (0 bytes)")


def _notice(reason: str) -> str:
    return f"[{reason[:1].upper()}{reason[1:]}]"

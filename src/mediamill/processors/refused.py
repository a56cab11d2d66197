"""Media that never become text: what could not be downloaded, and types that nobody serves. The sender is told."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mediamill.media.sniff import UNKNOWN, sniff
from mediamill.processors.contract import ProcessorInput, WrongTypeError
from mediamill.processors.media_processor import BaseMediaProcessor, refuse_empty
from mediamill.processors.result import ProcessingResult
from mediamill.processors.types import is_served, kind_of

CORRUPT = "media_corrupt_"
CORRUPT_KINDS = ("image", "video", "audio", "document", "sticker")
MIME_TYPE = re.compile(r"[\w.+-]{1,63}/[\w.+-]{1,127}", re.ASCII)


class CorruptMediaProcessor(BaseMediaProcessor):
    """For `media_corrupt_<kind>`: the bytes never arrived, so there is often no file at all."""

    def inspect(self, given: ProcessorInput) -> tuple[Path, str]:
        """Nothing is looked at: what was claimed is all that is known."""
        return given.file or Path(), given.mime_type or UNKNOWN

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """Tell that it is corrupted."""
        del file_path, media_metadata
        kind = mime_type.removeprefix(CORRUPT)
        if kind not in CORRUPT_KINDS:
            kind = kind_of(mime_type).replace("other", "document")
        notice = f"[Corrupted {kind} media could not be downloaded] {caption}".strip()
        return ProcessingResult(notice, failed_reason=f"download failed — {kind} corrupted")


class UnsupportedMediaProcessor(BaseMediaProcessor):
    """For what no other pool takes, unless its bytes show that one does."""

    def inspect(self, given: ProcessorInput) -> tuple[Path, str]:
        """The type to name. The pool's own `*/*` is not asked: it takes everything and serves nothing."""
        path, real = given.file or Path(), UNKNOWN
        if path.is_file():
            refuse_empty(path)
            real = sniff(path).mime_type
        claimed = str(given.payload.get("claimed_mime_type") or given.mime_type or "")
        if is_served(real) and "claimed_mime_type" not in given.payload:
            raise WrongTypeError(real)
        return path, _told_type(real, claimed)

    def process_media(
        self, file_path: Path, mime_type: str, caption: str, media_metadata: Mapping[str, Any]
    ) -> ProcessingResult:
        """Tell that it is not supported."""
        del file_path, media_metadata
        notice = f"[Unsupported {mime_type} media] {caption}".strip()
        return ProcessingResult(notice, failed_reason=f"unsupported mime type: {mime_type}")


def _told_type(real: str, claimed: str) -> str:
    """The real type. If the bytes say nothing, the claim, but not one that they would have borne out."""
    believable = MIME_TYPE.fullmatch(claimed) and not is_served(claimed)
    return claimed if real == UNKNOWN and believable else real

"""Files of this machine as jobs. The same file, unchanged, asked for again in the same way, is the same job."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from mediamill import __version__
from mediamill.engine.model import NewJob
from mediamill.media.sniff import sniff
from mediamill.settings import Settings
from mediamill.staging.jobs import PROCESS

OWNER = "process"
# What decides about a result besides the file itself.
ENGINES = ("speech", "vision", "video", "text", "embedding")
DECIDING = (
    *ENGINES,
    *(f"{engine}_model" for engine in ENGINES),
    "speech_language",
    "document_pages",
    "document_ocr_pages",
)


def job_of_file(path: Path, settings: Settings, *, previews: bool, again: bool = False) -> NewJob:
    """The job of one file; its real type decides the pool. `again`: a new one, whatever was done before."""
    payload: dict[str, Any] = {"file": reference_to(path), "original_filename": printable_name(path)}
    if previews:
        payload["previews"] = True
    return NewJob(
        PROCESS,
        payload,
        owner=OWNER,
        mime_type=sniff(path).mime_type,
        idempotency_key=None if again else _fingerprint(path, settings, previews),
    )


def reference_to(path: Path) -> dict[str, str]:
    """How a payload names a file; names that are not UTF-8 cannot be JSON text."""
    raw = os.fsencode(path.absolute())
    try:
        return {"path": raw.decode("utf-8")}
    except UnicodeDecodeError:
        return {"path_base64": base64.b64encode(raw).decode()}


def printable_name(path: Path) -> str:
    """The file's name for people."""
    return os.fsencode(path.name).decode("utf-8", "replace")


def _fingerprint(path: Path, settings: Settings, previews: bool) -> str:
    found = path.stat()
    chosen = [str(getattr(settings, name)) for name in DECIDING]
    known = [reference_to(path.resolve()), found.st_size, found.st_mtime_ns, previews, __version__, chosen]
    return hashlib.sha256(json.dumps(known).encode()).hexdigest()

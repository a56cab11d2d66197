"""Media on disk while it waits to be processed: one file a subject, in one folder, shared with the bridges."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

FOLDER = "pending_media"
FAILED = "failed_media"


class Target(StrEnum):
    """Where a move brings all stored files."""

    BUCKET = "bucket"
    FOLDER = "folder"


def staging_folder(data_folder: Path) -> Path:
    """Where staged media lie: `pending_media/<guid>` in the data folder."""
    return data_folder / FOLDER


def failed_folder(data_folder: Path) -> Path:
    """Where the files of failed jobs wait for somebody to ask for another try."""
    return data_folder / FAILED

"""What a backup is: its manifest, the list of its files, and which paths may stand in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from mediamill.backup.durable import open_plain, write_durably
from mediamill.errors import InvalidError

MANIFEST, LISTING, DUMP, FILES = "manifest.json", "files.jsonl", "database.dump", "files"
FIRST_LISTING = "files.first"  # of the first look, while the second is taken
MANIFEST_BYTES = 1 << 20
LINE_BYTES = 1 << 16
UNFINISHED = "unfinished-"
OTHER_BACKUP = "take another backup; `mediamill backup verify` checks one"

# Of the data folder, what belongs to this machine and this moment: the database (which is dumped), sockets, logs, what
# children and requests have under their hands, programs that are installed again when they are needed, and the key and
# the link that open this server to its own user.
LEFT_OUT = frozenset(
    {
        "postgres",
        "run",
        "logs",
        "scratch",
        "tools",
        "inputs",
        "remote_inputs",
        "cache",
        "local_key",
        "open.html",
        "lost+found",
    }
)
LEFT_OUT_PREFIXES = ("postgres.", "restore.", "deletions.")
# Files are renamed out of these into other folders: seen first, what is moved meanwhile is met here or there.
FIRST = ("pending_media", "uploads", "kept")


class NotABackupError(InvalidError):
    """This is not a backup."""

    code = "not_a_backup"


class BackupDamagedError(InvalidError):
    """The backup is not what its manifest says."""

    code = "backup_damaged"


class Part(BaseModel):
    """A file of the backup itself, as it was written."""

    model_config = ConfigDict(frozen=True, strict=True)

    bytes: int
    sha256: str


class ListingPart(Part):
    """The list of the files, and what they are together."""

    count: int
    total_bytes: int


class Manifest(BaseModel):
    """What the backup says about itself. It is written last: without it there is no backup."""

    model_config = ConfigDict(frozen=True)

    format: Literal[1]
    mediamill: str
    made_at: datetime
    schema_revision: str
    postgres: int
    database: Part
    files: ListingPart | None
    left_out: list[str] = []
    seal: str = ""

    def sealed(self) -> Manifest:
        """With the hash of all the rest, by which a manifest that was changed or cut is known."""
        return self.model_copy(update={"seal": self._digest()})

    def is_whole(self) -> bool:
        """Does the seal fit?"""
        return self.seal == self._digest()

    def _digest(self) -> str:
        rest = self.model_dump(mode="json", exclude={"seal"})
        return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the backup. `settled`: it had been at rest when it was copied, so its time tells whether it changed."""

    path: str
    bytes: int
    mtime_ns: int
    sha256: str
    settled: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        """The names on its way."""
        return tuple(self.path.split("/"))


Key = tuple[int, tuple[str, ...]]


def order_of(parts: tuple[str, ...]) -> Key:
    """Files are listed in the order in which they are met; so two lists can be compared line by line."""
    rank = FIRST.index(parts[0]) if parts[0] in FIRST else len(FIRST)
    return rank, parts


def is_left_out(name: str) -> bool:
    """Is this entry of the data folder no part of a backup?"""
    return name in LEFT_OUT or name.startswith(LEFT_OUT_PREFIXES)


def check_path(path: str) -> tuple[str, ...]:
    """The names of a path that may be written to: a stranger may have made the backup."""
    parts = tuple(path.split("/"))
    bad = any(part in ("", ".", "..") or "\0" in part for part in parts) or path.startswith("/")
    if bad or is_left_out(parts[0]):
        raise BackupDamagedError(f"the backup names a path that it may not: {path[:200]!r}")
    return parts


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """The last word: it is on the disk as a whole, or not there."""
    text = json.dumps(manifest.sealed().model_dump(mode="json"), indent=2) + "\n"
    write_durably(folder / MANIFEST, text.encode())


def read_manifest(folder: Path) -> Manifest:
    """Checked; NotABackupError says what to do if there is none."""
    try:
        with open_plain(folder / MANIFEST) as file:
            raw = file.read(MANIFEST_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        raise _no_manifest(folder) from None
    try:
        manifest = Manifest.model_validate_json(raw)
    except ValidationError as error:
        raise _unreadable(folder, raw, error) from None
    if not manifest.is_whole():
        raise BackupDamagedError(f"{folder / MANIFEST} was changed after it was written")
    return manifest


def _no_manifest(folder: Path) -> NotABackupError:
    if folder.name.startswith(UNFINISHED):
        return NotABackupError(
            f"{folder} was never finished", fix="make the backup again: it goes on from what is there"
        )
    return NotABackupError(
        f"there is no backup in {folder}", fix="name a folder that `mediamill backup` has written"
    )


def _unreadable(folder: Path, raw: bytes, error: ValidationError) -> InvalidError:
    try:
        form = json.loads(raw).get("format")
    except (ValueError, AttributeError):
        form = None
    if isinstance(form, int) and form > 1:
        return NotABackupError(
            f"{folder} has the form of a newer mediamill ({form})", fix="install the newer mediamill"
        )
    fields = ", ".join(sorted({str(each["loc"][0]) if each["loc"] else "all" for each in error.errors()}))
    return BackupDamagedError(f"{folder / MANIFEST} cannot be read ({fields})")


def latest(folders: Iterable[Path]) -> Path | None:
    """Of whole backups, the one that was made last: their names are times."""
    return max(folders, key=lambda each: each.name, default=None)

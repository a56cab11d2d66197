"""The folder that backups are written to: whole ones by their time, unfinished ones, one writer at a time."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mediamill.backup.durable import sync_folder
from mediamill.backup.listing import Earlier, read_listing
from mediamill.backup.model import (
    FILES,
    FIRST_LISTING,
    LISTING,
    MANIFEST,
    UNFINISHED,
    NotABackupError,
    latest,
    read_manifest,
)
from mediamill.db import file_lock
from mediamill.errors import ConflictError, InvalidError

LOCK = "backup.lock"
_NUMBER = re.compile(r"-([0-9]{6,18})$")
BOOT = Path("/proc/sys/kernel/random/boot_id")


class BackupAtWorkError(ConflictError):
    """Another backup is being written here."""

    code = "backup_at_work"


@dataclass(frozen=True)
class Shelf:
    """Backups beside each other; files that did not change are the same file in all of them (hard links)."""

    folder: Path

    def whole(self) -> list[Path]:
        """Every backup that was finished."""
        return [each.parent for each in self.folder.glob(f"*/{MANIFEST}") if not _is_unfinished(each.parent)]

    def unfinished(self) -> list[Path]:
        """What was cut off."""
        return sorted(each for each in self.folder.glob(f"{UNFINISHED}*") if _NUMBER.search(each.name))

    def begin(self) -> Path:
        """A new folder, whose name says that it is not whole; and when its machine was started, see `earlier`."""
        number = 1 + max((int(_NUMBER.findall(each.name)[0]) for each in self.unfinished()), default=0)
        made = self.folder / f"{UNFINISHED}{_boot()}-{number:06}"
        made.mkdir(mode=0o700)
        return made

    def earlier(self, without: Path) -> list[Earlier]:
        """Where unchanged files can be had: what was cut off first, then the last whole backup.

        After a loss of power nobody knows what of an unfinished backup is on the disk: it is not used then.
        """
        sources = [
            _earlier(each, listing, consume=True)
            for each in reversed(self.unfinished())
            if each != without and each.name.startswith(f"{UNFINISHED}{_boot()}-")
            for listing in (LISTING, FIRST_LISTING)
            if (each / listing).exists()
        ]
        last = latest(each for each in self.whole() if (each / LISTING).exists())
        return [*sources, *([_earlier(last, LISTING, consume=False)] if last else [])]

    def finish(self, made: Path) -> Path:
        """It has its manifest: give it its name, and clear what others left."""
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
        done = self.folder / name
        made.rename(done)
        sync_folder(self.folder)
        for each in self.unfinished():
            shutil.rmtree(each, ignore_errors=True)
        return done


@contextmanager
def open_shelf(folder: Path, data_folder: Path) -> Iterator[Shelf]:
    """Made if missing; for one writer at a time."""
    folder = folder.expanduser().resolve()
    if folder.is_relative_to(data_folder.resolve()):
        raise InvalidError(
            f"{folder} lies in the data folder: the backup would hold itself",
            fix="name a folder elsewhere, best on another disk",
        )
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = file_lock.open_lock(folder / LOCK)
    try:
        if not file_lock.try_exclusive(lock):
            raise BackupAtWorkError(f"another backup is being written to {folder}", fix="wait for its end")
        yield Shelf(folder)
    finally:
        file_lock.release(lock)


def find_backup(folder: Path) -> Path:
    """The backup of this folder: itself, or the last whole one in it."""
    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise NotABackupError(
            f"there is no folder {folder}", fix="name a folder that `mediamill backup` has written"
        )
    if (folder / MANIFEST).exists() or _is_unfinished(folder):
        read_manifest(folder)
        return folder
    last = latest(Shelf(folder).whole())
    if last is None:
        read_manifest(folder)
        raise AssertionError("there is no manifest")
    return last


def _earlier(folder: Path, listing: str, *, consume: bool) -> Earlier:
    return Earlier(folder / FILES, read_listing(folder / listing, cut_off=True), consume)


def _is_unfinished(folder: Path) -> bool:
    return folder.name.startswith(UNFINISHED)


def _boot() -> str:
    """Another one after every start of the machine."""
    return BOOT.read_text().strip()[:8] if BOOT.exists() else "unknown"

"""Reads a whole backup and compares it with what it says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mediamill.backup.copying import Progress
from mediamill.backup.durable import hash_file
from mediamill.backup.listing import read_listing
from mediamill.backup.model import (
    DUMP,
    FILES,
    LISTING,
    OTHER_BACKUP,
    BackupDamagedError,
    Entry,
    Manifest,
    Part,
    read_manifest,
)

MOST_FAULTS = 20


@dataclass(frozen=True)
class Verified:
    """What was looked at, and what is wrong with it (the first of it)."""

    folder: Path
    manifest: Manifest
    faults: list[str]


def verify_backup(folder: Path, progress: Progress) -> Verified:
    """Every byte of it is read."""
    manifest = read_manifest(folder)
    faults = [fault for fault in _parts(folder, manifest) if fault]
    if manifest.files is not None and not faults:
        faults = _files(folder, manifest.files.count, manifest.files.total_bytes, progress)
    return Verified(folder, manifest, faults)


def check_part(path: Path, said: Part) -> None:
    """The dump or the list, as the manifest has it."""
    fault = _fault(path, path.name, said.bytes, said.sha256)
    if fault:
        raise BackupDamagedError(fault, fix=OTHER_BACKUP)


def check_listing(folder: Path, manifest: Manifest) -> None:
    """Every path in the list may be written to, and together they are what the manifest says."""
    if manifest.files is None:
        return
    check_part(folder / LISTING, manifest.files)
    count = total_bytes = 0
    for entry in read_listing(folder / LISTING):
        count, total_bytes = count + 1, total_bytes + entry.bytes
    if (count, total_bytes) != (manifest.files.count, manifest.files.total_bytes):
        raise BackupDamagedError(f"{LISTING} has {count} files, the manifest {manifest.files.count}")


def source_of(folder: Path, entry: Entry) -> Path:
    """Where the file lies in the backup. No link may stand in the way: it would lead out of it."""
    path = folder.joinpath(FILES, *entry.parts)
    if path.parent.resolve() != path.parent:
        raise BackupDamagedError(f"{entry.path}: a link stands in its way")
    return path


def _parts(folder: Path, manifest: Manifest) -> list[str | None]:
    parts: list[tuple[str, Part]] = [(DUMP, manifest.database)]
    if manifest.files is not None:
        parts.append((LISTING, manifest.files))
    return [_fault(folder / name, name, part.bytes, part.sha256) for name, part in parts]


def _files(folder: Path, count: int, total_bytes: int, progress: Progress) -> list[str]:
    faults: list[str] = []
    for entry in read_listing(folder / LISTING):
        progress.files += 1
        progress.add(entry.bytes, copied=False)
        fault = _fault(source_of(folder, entry), entry.path, entry.bytes, entry.sha256)
        if fault:
            faults.append(fault)
            if len(faults) == MOST_FAULTS:
                return faults
    if (progress.files, progress.bytes) != (count, total_bytes):
        faults.append(f"{LISTING} has {progress.files} files, the manifest {count}")
    return faults


def _fault(path: Path, name: str, size: int, sha256: str) -> str | None:
    try:
        found = hash_file(path)
    except FileNotFoundError:
        return f"{name} is missing"
    except OSError as error:
        return f"{name} cannot be read: {error.strerror}"
    return None if found == (size, sha256) else f"{name} is not what was backed up"

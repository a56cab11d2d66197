"""Files that a running job has finished: kept for its later attempts, `kept/<id mod 1000>/<id>/<name>`.

A file gets its name inside the transaction that shows the claim and inserts its row: whoever lost the claim changes
nothing. A crash in between leaves a file without a row, which the next attempt replaces.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mediamill.db.connection import Connection, Database
from mediamill.engine.lease import extend_leases
from mediamill.engine.model import ClaimedJob
from mediamill.errors import ClaimLostError, GiveUpError, InvalidError, RetryLaterError
from mediamill.staging.store import queries

FOLDER = "kept"
PART = ".part-"
FACTS_BYTES = 4096
BATCH = 1_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")


class BadKeptNameError(InvalidError):
    """The name of a kept file has small letters, digits, dots, dashes and underscores."""

    code = "bad_file_name"


class BadKeptFileError(GiveUpError):
    """What should be kept is not a plain file, or not the one that was announced."""

    code = "bad_kept_file"


class CannotKeepError(RetryLaterError):
    """The disk does not take a file that should be kept."""

    code = "cannot_keep"


@dataclass(frozen=True, slots=True)
class Kept:
    """A file that is kept."""

    name: str
    bytes: int
    sha256: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NewKept:
    """A finished file that is to be kept, still under another name."""

    name: str
    path: Path
    bytes: int
    sha256: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def kept_folder(data_folder: Path, job_id: int) -> Path:
    """Where the kept files of a job lie."""
    return data_folder / FOLDER / f"{job_id % 1000:03}" / str(job_id)


def check_kept_name(name: str) -> str:
    """The name, if it can be one."""
    if not _NAME.fullmatch(name):
        raise BadKeptNameError(f"{name[:120]!r} cannot be the name of a kept file")
    return name


def part_path(data_folder: Path, job_id: int) -> Path:
    """A fresh name beside the kept files, for what is still being written. The folder is made."""
    folder = kept_folder(data_folder, job_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{PART}{secrets.token_hex(8)}"


async def list_kept(connection: Connection, data_folder: Path, job_id: int) -> list[Kept]:
    """What is kept: the row is there, and the file with the size that the row says."""
    rows = await queries.list_kept.rows(connection, job_id=job_id)
    kept = [
        Kept(row["name"], row["bytes"], row["sha256"].hex(), json.loads(row["facts"] or "{}")) for row in rows
    ]
    if not kept:
        return []
    there = await asyncio.to_thread(sizes_of, kept_folder(data_folder, job_id))
    return [one for one in kept if there.get(one.name) == one.bytes]


async def keep_file(
    database: Database, data_folder: Path, job: ClaimedJob, new: NewKept, lease_seconds: float
) -> None:
    """Move the file to its place and note it, for the holder of the job only; the lease is extended."""
    check_kept_name(new.name)
    facts = json.dumps(dict(new.facts))
    if len(facts) > FACTS_BYTES:
        raise BadKeptFileError(f"the facts of {new.name} have {len(facts)} bytes, the limit is {FACTS_BYTES}")
    target = kept_folder(data_folder, job.id) / new.name
    async with database.transaction() as connection:
        held = await extend_leases(
            connection, [job.claim], worker_id=job.worker_id, lease_seconds=lease_seconds
        )
        if job.id not in held:
            raise ClaimLostError
        try:
            await asyncio.to_thread(_put, new, target)
        except OSError as error:  # not to be taken for a database that is away
            raise CannotKeepError(f"{new.name} cannot be kept: {error.strerror or error}") from error
        await queries.put_kept.run(
            connection,
            job_id=job.id,
            name=new.name,
            bytes=new.bytes,
            sha256=bytes.fromhex(new.sha256),
            facts=facts,
        )


async def adopt_files(
    connection: Connection, data_folder: Path, job_id: int, source: Path, files: Sequence[Kept]
) -> None:
    """Files of another folder become kept files of this job: linked, not copied. Can be done again."""
    folder = kept_folder(data_folder, job_id)
    await asyncio.to_thread(_link_all, source, folder, [one.name for one in files])
    for one in files:
        await queries.put_kept.run(
            connection,
            job_id=job_id,
            name=one.name,
            bytes=one.bytes,
            sha256=bytes.fromhex(one.sha256),
            facts=json.dumps(dict(one.facts)),
        )


async def forget_kept(connection: Connection, job_ids: Sequence[int]) -> None:
    """The rows go with the caller's transaction; folders without rows are the sweep's."""
    await queries.drop_kept.run(connection, job_ids=list(job_ids))


def put_in_place(kept: Path, target: Path, names: Collection[str]) -> None:
    """All kept files of a job become the folder `target` by one rename; files that nothing knows of do not come along.

    Best as the last step of the transaction that ends the job: if that is cut off, `bring_back` undoes it.
    """
    for name in sizes_of(kept).keys() - set(names):
        (kept / name).unlink(missing_ok=True)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if target.exists():  # left by an attempt that was cut off
        shutil.rmtree(target)
    kept.rename(target)
    _sync_folder(target.parent)


def bring_back(kept: Path, target: Path) -> None:
    """The job goes on though its files were put in place already: its end was cut off in between."""
    if target.is_dir() and not any(not name.startswith(".") for name in sizes_of(kept)):
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.rename(kept)


async def sweep_kept(database: Database, data_folder: Path, older_than_seconds: float = 3600) -> int:
    """Remove what is kept of jobs that have ended for good. How many folders."""
    old = await asyncio.to_thread(_old_folders, data_folder / FOLDER, time.time() - older_than_seconds)
    removed = 0
    for first in range(0, len(old), BATCH):
        batch = old[first : first + BATCH]
        ids = [int(folder.name) for folder in batch]
        async with database.transaction() as connection:
            rows = await queries.jobs_with_a_future.rows(connection, job_ids=ids)
            gone = set(ids) - {row["id"] for row in rows}
            await forget_kept(connection, list(gone))
        for folder in batch:
            if int(folder.name) in gone:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                removed += 1
    return removed


def sizes_of(folder: Path) -> dict[str, int]:
    """The plain files of a folder."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: entry.stat(follow_symlinks=False).st_size
                for entry in entries
                if entry.is_file(follow_symlinks=False)
            }
    except FileNotFoundError:
        return {}


def _put(new: NewKept, target: Path) -> None:
    """On the disk first, then under its name, then the name on the disk."""
    descriptor = os.open(new.path, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size != new.bytes:
            raise BadKeptFileError(f"{new.name} is not the file that was announced")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new.path.rename(target)
    _sync_folder(target.parent)


def _link_all(source: Path, folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in names:
        target = folder / check_kept_name(name)
        if not target.exists():
            os.link(source / name, target, follow_symlinks=False)
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _old_folders(root: Path, older_than: float) -> list[Path]:
    return [
        folder
        for folder in root.glob("[0-9][0-9][0-9]/*")
        if folder.name.isdecimal() and folder.is_dir() and folder.stat().st_mtime < older_than
    ]

"""Files that a running job has finished: kept for its later attempts, `kept/<id mod 1000>/<id>/<name>`.

A file gets its name inside the transaction that shows the claim and inserts its row: whoever lost the claim changes
nothing. A crash in between leaves a file without a row, which the next attempt replaces.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mediamill.db.connection import Connection, Database
from mediamill.engine.lease import extend_leases
from mediamill.engine.model import ClaimedJob
from mediamill.errors import ClaimLostError, GiveUpError, InvalidError, RetryLaterError
from mediamill.staging.store import queries
from mediamill.storage.batches import in_batches
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.deletions import deletions_wait

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


def kept_folder(job_id: int) -> str:
    """Where the kept files of a job are."""
    return f"{FOLDER}/{job_id % 1000:03}/{job_id}"


def check_kept_name(name: str) -> str:
    """The name, if it can be one."""
    if not _NAME.fullmatch(name):
        raise BadKeptNameError(f"{name[:120]!r} cannot be the name of a kept file")
    return name


def part_path(data_folder: Path, job_id: int) -> Path:
    """A fresh name beside the kept files, for what is still being written. The folder is made."""
    folder = data_folder / kept_folder(job_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{PART}{secrets.token_hex(8)}"


async def list_kept(connection: Connection, place: Place, job_id: int) -> list[Kept]:
    """What is kept: the row is there, and the file with the size that the row says."""
    rows = await queries.list_kept.rows(connection, job_id=job_id)
    kept = [
        Kept(row["name"], row["bytes"], row["sha256"].hex(), json.loads(row["facts"] or "{}")) for row in rows
    ]
    if not kept:
        return []
    there = await storage_at(place).sizes(connection, kept_folder(job_id))
    return [one for one in kept if there.get(one.name) == one.bytes]


async def keep_file(
    database: Database, place: Place, job: ClaimedJob, new: NewKept, lease_seconds: float
) -> None:
    """Move the file to its place and note it, for the holder of the job only; the lease is extended."""
    check_kept_name(new.name)
    facts = json.dumps(dict(new.facts))
    if len(facts) > FACTS_BYTES:
        raise BadKeptFileError(f"the facts of {new.name} have {len(facts)} bytes, the limit is {FACTS_BYTES}")
    storage = storage_at(place)
    try:
        await asyncio.to_thread(_check, new)
        sent = await storage.send(new.path)
    except OSError as error:  # not to be taken for a database that is away
        raise _cannot_keep(new, error) from error
    async with database.transaction() as connection:
        held = await extend_leases(
            connection, [job.claim], worker_id=job.worker_id, lease_seconds=lease_seconds
        )
        if job.id not in held:
            raise ClaimLostError
        try:
            await storage.give_name(connection, sent, f"{kept_folder(job.id)}/{new.name}")
        except OSError as error:
            if isinstance(error, TimeoutError | ConnectionError):
                raise
            raise _cannot_keep(new, error) from error
        await queries.put_kept.run(
            connection,
            job_id=job.id,
            name=new.name,
            bytes=new.bytes,
            sha256=bytes.fromhex(new.sha256),
            facts=facts,
        )


async def adopt_files(
    connection: Connection, place: Place, job_id: int, source: str, files: Sequence[Kept]
) -> None:
    """Files of another folder become kept files of this job: linked, not copied. Can be done again."""
    names = [check_kept_name(one.name) for one in files]
    await storage_at(place).link_files(connection, source, kept_folder(job_id), names)
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


async def sweep_kept(database: Database, place: Place, older_than_seconds: float = 3600) -> int:
    """Remove what is kept of jobs that have ended for good. How many folders."""
    storage, removed = storage_at(place), 0
    async for old in storage.old_folders(database, FOLDER, older_than_seconds):
        folders = {int(folder.rpartition("/")[2]): folder for folder in old if _is_kept(folder)}
        for batch in in_batches(list(folders), BATCH):
            async with database.transaction() as connection:
                rows = await queries.jobs_with_a_future.rows(connection, job_ids=batch)
                gone = set(batch) - {row["id"] for row in rows}
                await forget_kept(connection, list(gone))
            if deletions_wait(storage.folder):
                return removed
            await storage.remove(database, [folders[job_id] for job_id in gone])
            removed += len(gone)
    return removed


def _is_kept(folder: str) -> bool:
    name = folder.rpartition("/")[2]
    return name.isdecimal() and len(name) < 19


def _cannot_keep(new: NewKept, error: OSError) -> CannotKeepError:
    return CannotKeepError(f"{new.name} cannot be kept: {error.strerror or error}")


def _check(new: NewKept) -> None:
    """Is it what was announced, and nobody else's file?"""
    found = new.path.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size != new.bytes:
        raise BadKeptFileError(f"{new.name} is not the file that was announced")

"""Inputs of remote workers that are several small files: fetched one by one into a folder of the job's own.

Nothing is gone on with after a restart: a file that broke off is fetched again. Who works with a folder holds a lock on
it, so that what nobody holds can go when it is old.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import secrets
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from mediamill.engine.model import ClaimedJob
from mediamill.errors import GiveUpError
from mediamill.staging.kept import check_kept_name
from mediamill.worker.away import AwayError, RefusedError
from mediamill.worker.server_link import ServerLink, WordRefusedError

log = logging.getLogger(__name__)

MISSING = "input_missing"
MOST_BYTES = 64 << 20  # of one file
STALL_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 10.0


class InputTooLargeError(GiveUpError):
    """A file of the job is too large to be one of several."""

    code = "input_too_large"


@dataclass(slots=True)
class _Folder:
    path: Path
    descriptor: int  # holds the lock

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.descriptor)


class FolderDownloads:
    """Of one worker. A folder stays until it is dropped."""

    def __init__(self, folder: Path, link: ServerLink) -> None:
        self._root, self._link = folder, link
        self._folders: dict[int, _Folder] = {}

    async def fetch(self, job: ClaimedJob, names: Sequence[str]) -> Path:
        """The files of a job, under their names; one that the server has not is left out, for the processor to miss."""
        self.drop(job.id)
        path = self._root / f"{job.id}-{secrets.token_hex(4)}.d"
        path.mkdir(mode=0o700, parents=True)
        self._folders[job.id] = _Folder(path, _lock(path))
        for name in names:
            content = await self._insist(job, check_kept_name(name))
            if content is not None:
                await asyncio.to_thread((path / name).write_bytes, content)
        return path

    def drop(self, job_id: int) -> None:
        """The job has ended, or is somebody else's."""
        if (folder := self._folders.pop(job_id, None)) is not None:
            folder.remove()

    def keep_only(self, job_ids: Collection[int]) -> None:
        """Drop those of jobs that are not in the worker's hands any more."""
        for job_id in [job_id for job_id in self._folders if job_id not in job_ids]:
            self.drop(job_id)

    def clear_leftovers(self, older_than_seconds: float) -> None:
        """Delete what dead workers left."""
        for path in self._root.glob("*.d"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > older_than_seconds:
                    _Folder(path, _lock(path)).remove()

    async def _insist(self, job: ClaimedJob, name: str) -> bytes | None:
        """One file, however often the connection is lost meanwhile."""
        pause = 0.1
        while True:
            try:
                return await self._fetch_once(job, name)
            except RefusedError:
                raise
            except AwayError as error:
                log.debug("%s of job %d broke off: %s", name, job.id, error)
            except WordRefusedError as error:
                if error.code == MISSING:
                    return None
                raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    async def _fetch_once(self, job: ClaimedJob, name: str) -> bytes:
        content = bytearray()
        async with self._link.stream(
            f"/api/worker/jobs/{job.id}/input/{name}",
            {"Accept-Encoding": "identity"},
            read_seconds=STALL_SECONDS,
            token=job.token,
        ) as answer:
            total = int(answer.headers["content-length"])
            if total > MOST_BYTES:
                raise InputTooLargeError(f"{name} has {total} bytes, the limit is {MOST_BYTES}")
            async for chunk in answer.aiter_raw():
                content += chunk
        if len(content) != total:
            raise AwayError(f"{name} has {total} bytes, and {len(content)} came")
        return bytes(content)


def _lock(path: Path) -> int:
    """A descriptor that holds the lock; OSError if somebody else does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

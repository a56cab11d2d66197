"""The files of a remote worker's jobs: fetched by range, so that a lost connection or a restart costs nothing twice.

A file's name is its job and the server's ETag of it, so that a part is only gone on with if the file is the same. Who
works with one holds a lock on it: what nobody holds was left by a worker that died, and goes when it is old.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from mediamill.engine.model import ClaimedJob
from mediamill.errors import RetryLaterError
from mediamill.worker.away import AwayError, RefusedError
from mediamill.worker.folder_download import FolderDownloads
from mediamill.worker.server_link import ServerLink, WordRefusedError

log = logging.getLogger(__name__)

FOLDER = "remote_inputs"
STALL_SECONDS = 60.0
LONGEST_PAUSE_SECONDS = 10.0
LEFTOVER_SECONDS = 2 * 3600.0  # for so long a killed worker's part may still be gone on with
_TAG = re.compile(r'"([0-9A-Za-z-]{1,100})"')
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+)")


class InputChangedError(RetryLaterError):
    """The file on the server changes while it is being read."""

    code = "input_changed"


class NoRoomError(RetryLaterError):
    """The disk of this worker has no room for the file."""

    code = "no_room"


@dataclass(slots=True)
class _File:
    """A file in hand; its lock goes with the descriptor."""

    path: Path
    descriptor: int
    tag: str

    @property
    def size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def close(self, *, delete: bool) -> None:
        if delete:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(self.descriptor)


class Downloads:
    """Of one worker. A file stays until it is dropped."""

    def __init__(self, data_folder: Path, link: ServerLink) -> None:
        self._folder, self._link = data_folder / FOLDER, link
        self._files: dict[int, _File] = {}
        self._folders = FolderDownloads(self._folder, link)

    async def fetch(self, job: ClaimedJob) -> Path:
        """The whole file of a job, however often the connection is lost meanwhile."""
        await asyncio.to_thread(self.clear_leftovers)
        pause = 0.1
        if job.id not in self._files and (found := self._find(job.id)) is not None:
            self._files[job.id] = found
        while True:
            before = self._size(job.id)
            try:
                if await self._fetch_once(job):
                    return self._files[job.id].path
            except (RefusedError, OSError):
                self.drop(job.id)
                raise
            except AwayError as error:
                log.debug("the file of job %d broke off at %d: %s", job.id, self._size(job.id), error)
            pause = 0.1 if self._size(job.id) > before else min(2 * pause, LONGEST_PAUSE_SECONDS)
            await asyncio.sleep(pause)

    async def fetch_files(self, job: ClaimedJob, names: Sequence[str]) -> Path:
        """A folder with the files of a job, where there are several."""
        await asyncio.to_thread(self.clear_leftovers)
        return await self._folders.fetch(job, names)

    def drop(self, job_id: int, *, delete: bool = True) -> None:
        """The job has ended, or is somebody else's; without `delete`, it may come back."""
        self._folders.drop(job_id)
        if (file := self._files.pop(job_id, None)) is not None:
            file.close(delete=delete)

    def keep_only(self, job_ids: Collection[int]) -> None:
        """Drop the files of jobs that are not in the worker's hands any more."""
        self._folders.keep_only(job_ids)
        for job_id in [job_id for job_id in self._files if job_id not in job_ids]:
            self.drop(job_id)

    def close(self) -> None:
        """Let go of all; what was handed back may be gone on with after a restart."""
        self._folders.keep_only(())
        for job_id in list(self._files):
            self.drop(job_id, delete=False)

    def clear_leftovers(self) -> None:
        """Delete what dead workers left, once nobody is likely to go on with it."""
        self._folders.clear_leftovers(LEFTOVER_SECONDS)
        for path in self._folder.glob("*_*"):
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
                    descriptor = _lock(path)
                    path.unlink()
                    os.close(descriptor)

    # -- one try

    async def _fetch_once(self, job: ClaimedJob) -> bool:
        """Ask for what is missing, and write it; whether the file is whole."""
        path, size = f"/api/worker/jobs/{job.id}/input", self._size(job.id)
        headers = {"Accept-Encoding": "identity"}
        if size:
            headers |= {"Range": f"bytes={size}-", "If-Range": f'"{self._files[job.id].tag}"'}
        async with self._link.stream(
            path, headers, read_seconds=STALL_SECONDS, allow={416}, token=job.token
        ) as answer:
            file, total = self._begin(job.id, answer)
            async for (
                chunk
            ) in answer.aiter_raw():  # as it comes: what is gathered is lost with the connection
                await asyncio.to_thread(_append, file, chunk, total)
        return file.size == total

    def _begin(self, job_id: int, answer: httpx.Response) -> tuple[_File, int]:
        """Where this answer is to be written, and how long the file is in the end."""
        tag = _TAG.fullmatch(answer.headers.get("etag", ""))
        if tag is None:
            raise WordRefusedError("no_etag", "the server does not say which file it sends")
        if answer.status_code in (206, 416):  # the rest; or there is none: it is whole already
            file, found = self._files[job_id], _RANGE.fullmatch(answer.headers.get("content-range", ""))
            if found is None or tag[1] != file.tag or int(found[1] or found[2]) != file.size:
                self.drop(job_id)
                raise InputChangedError
            total = int(found[2])
        else:
            self.drop(job_id)  # another file than the one that was begun
            file = self._files[job_id] = self._create(job_id, tag[1])
            total = int(answer.headers["content-length"])
        if shutil.disk_usage(self._folder).free < total - file.size:
            raise NoRoomError(f"the file has {total} bytes, and the disk of this worker has not")
        return file, total

    def _size(self, job_id: int) -> int:
        return self._files[job_id].size if job_id in self._files else 0

    def _find(self, job_id: int) -> _File | None:
        """What a worker that was restarted, or killed, has already of it."""
        for path in self._folder.glob(f"{job_id}_*"):
            with contextlib.suppress(OSError):
                descriptor = _lock(path)
                if os.fstat(descriptor).st_size:
                    return _File(path, descriptor, path.name.split("_")[1])
                os.close(descriptor)
        return None

    def _create(self, job_id: int, tag: str) -> _File:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"{job_id}_{tag}_{secrets.token_hex(4)}"
        path.touch(mode=0o600, exist_ok=False)
        return _File(path, _lock(path), tag)


def _lock(path: Path) -> int:
    """A descriptor that holds the lock; OSError if somebody else does, or the file is gone."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(descriptor).st_nlink:
            raise FileNotFoundError(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _append(file: _File, chunk: bytes, total: int) -> None:
    if file.size + len(chunk) > total:
        raise InputChangedError("the server sends more than it announced")
    view = memoryview(chunk)
    while view:
        view = view[os.write(file.descriptor, view) :]

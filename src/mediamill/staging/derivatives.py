"""Files that processors made, kept as long as their job can be looked up: `derivatives/<id mod 1000>/<id>-<token>/`;
or, if the payload names a `home`, beside it: `<home>-<id>-<token>/`, where its owner keeps or removes them.

They are moved there before the job is settled, under the claim's own token: whoever lost the claim leaves a folder
that no result names, and the sweep removes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mediamill.db.connection import Database
from mediamill.engine.model import ClaimedJob
from mediamill.engine.watch import results_of

FOLDER = "derivatives"
BATCH = 1_000
_HOME = re.compile(r"libraries/[0-9]{3}/[0-9]{1,19}")


def home_of(job: ClaimedJob) -> PurePosixPath:
    """The folder of this claim, relative to the data folder."""
    if '"home"' in job.payload_json:
        home = json.loads(job.payload_json).get("home")
        if isinstance(home, str) and _HOME.fullmatch(home):
            return PurePosixPath(f"{home}-{job.id}-{job.token}")
    return PurePosixPath(FOLDER, f"{job.id % 1000:03}", f"{job.id}-{job.token}")


def keep_files(
    data_folder: Path, job: ClaimedJob, scratch: Path, files: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Move checked derivatives from the scratch folder; name -> path relative to the data folder, and size."""
    home = home_of(job)
    kept: dict[str, dict[str, Any]] = {}
    for name, path in files.items():
        target = data_folder / home / path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _sync(scratch / path)
        shutil.move(scratch / path, target)
        kept[name] = {"path": str(home / path), "bytes": target.stat().st_size}
    return kept


async def sweep_derivatives(database: Database, data_folder: Path, older_than_seconds: float = 3600) -> int:
    """Remove the folders of jobs that are forgotten, and of claims that were lost. How many."""
    old = await asyncio.to_thread(_old_folders, data_folder / FOLDER, time.time() - older_than_seconds)
    removed = 0
    for first in range(0, len(old), BATCH):
        batch = old[first : first + BATCH]
        async with database.connection() as connection:
            results = await results_of(connection, sorted({_job_id(folder) for folder in batch}))
        for folder in batch:
            result = results.get(_job_id(folder), "")  # None: there is no result yet
            if result is not None and f"/{folder.name}/" not in result:
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
                removed += 1
    return removed


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _old_folders(root: Path, older_than: float) -> list[Path]:
    found = []
    for folder in root.glob("[0-9][0-9][0-9]/*-*"):
        with contextlib.suppress(OSError, ValueError):
            if folder.is_dir() and folder.stat().st_mtime < older_than and _job_id(folder) >= 0:
                found.append(folder)
    return found


def _job_id(folder: Path) -> int:
    return int(folder.name.partition("-")[0])

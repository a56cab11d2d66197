"""Files that processors made, kept as long as their job can be looked up: `derivatives/<id mod 1000>/<id>-<token>/`;
or, if the payload names a `home`, beside it: `<home>-<id>-<token>/`, where its owner keeps or removes them.

They are moved there before the job is settled, under the claim's own token: whoever lost the claim leaves a folder
that no result names, and the sweep removes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from mediamill.db.connection import Database
from mediamill.engine.model import ClaimedJob
from mediamill.engine.watch import results_of
from mediamill.storage.batches import in_batches
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.deletions import deletions_wait

FOLDER = "derivatives"
BATCH = 1_000
_OWN = re.compile(rf"{FOLDER}/[0-9]{{3}}/[0-9]{{1,18}}-[^/]*")
_HOME = re.compile(r"(libraries|intake/outputs)/[0-9]{3}/[0-9]{1,19}")


def home_of(job: ClaimedJob) -> PurePosixPath:
    """The folder of this claim, relative to the data folder."""
    if '"home"' in job.payload_json:
        home = json.loads(job.payload_json).get("home")
        if isinstance(home, str) and _HOME.fullmatch(home):
            return PurePosixPath(f"{home}-{job.id}-{job.token}")
    return PurePosixPath(FOLDER, f"{job.id % 1000:03}", f"{job.id}-{job.token}")


async def keep_files(
    database: Database, place: Place, job: ClaimedJob, scratch: Path, files: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Move checked derivatives from the scratch folder; name -> path relative to the data folder, and size."""
    home = home_of(job)
    kept = {
        name: {"path": str(home / path), "bytes": (scratch / path).stat().st_size}
        for name, path in files.items()
    }
    paths = {str(home / path): scratch / path for path in files.values()}
    await storage_at(place).put_all(database, paths)
    return kept


async def sweep_derivatives(database: Database, place: Place, older_than_seconds: float = 3600) -> int:
    """Remove the folders of jobs that are forgotten, and of claims that were lost. How many."""
    storage, removed = storage_at(place), 0
    async for old in storage.old_folders(database, FOLDER, older_than_seconds):
        for batch in in_batches([folder for folder in old if _OWN.fullmatch(folder)], BATCH):
            async with database.connection() as connection:
                results = await results_of(connection, sorted({_job_id(folder) for folder in batch}))
            if deletions_wait(storage.folder):
                return removed
            gone = []
            for folder in batch:
                result = results.get(_job_id(folder), "")  # None: there is no result yet
                if result is not None and f"/{folder.rpartition('/')[2]}/" not in result:
                    gone.append(folder)
            await storage.remove(database, gone)
            removed += len(gone)
    return removed


def _job_id(folder: str) -> int:
    return int(folder.rpartition("/")[2].partition("-")[0])

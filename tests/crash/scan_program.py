"""A process that scans a library, batch by batch, each when it is told to go on; to be killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mediamill.db.connection import Database
from mediamill.libraries import scan
from mediamill.libraries.scan_model import ScanCounts
from mediamill.settings import Settings

seen: set[int] = set()


def _wait(counts: ScanCounts) -> None:
    if counts.folders not in seen:  # told again with nothing new
        seen.add(counts.folders)
        print(counts.folders, flush=True)
        sys.stdin.readline()


async def main(url: str, slug: str, data: str) -> None:
    """Batches of two folders."""
    scan.BATCH_FOLDERS = 2
    database = await Database.open(url, connections=2)
    await scan.scan_library(database, Settings(data=Path(data)), slug, _wait)
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

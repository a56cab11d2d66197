"""What messages leave behind: runs in the database, files in the spool."""

from __future__ import annotations

from pathlib import Path

from mediamill.inputs.spool import spool_folder
from tests.api.serving import Served

JSON = {"Content-Type": "application/json"}


async def runs(served: Served) -> int:
    return int(await served.one("select count(*) from runs"))


def incoming(folder: Path) -> list[Path]:
    there = spool_folder(folder)
    return list(there.iterdir()) if there.is_dir() else []

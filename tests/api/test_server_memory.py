"""A process may make many servers, one after the other: whatever one took is free when it has ended."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SERVERS, WARM_UP = 16, 4
MOST_BYTES = 1024**2  # a server that stays takes six times as much

MAKE_SERVERS = """
import asyncio, ctypes, gc, json, sys
from pathlib import Path
import psutil
from mediamill.db.connection import Database
from tests.api.serving import serve

async def make_server(url: str, folder: Path) -> None:
    database = await Database.open(url, connections=2)
    async with serve(database, folder, pages=True) as served:
        (await served.client.get("/")).raise_for_status()
    await database.close()

async def main(url: str, folder: str, count: str) -> None:
    used = []
    for _ in range(int(count)):
        await make_server(url, Path(folder))
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        used.append(psutil.Process().memory_info().rss)
    print(json.dumps(used))

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_server_that_ended_leaves_no_memory_behind(new_url: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", MAKE_SERVERS, new_url, str(tmp_path), str(SERVERS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    used = json.loads(done.stdout)[WARM_UP:]
    growth = [after - before for before, after in itertools.pairwise(used)]
    assert statistics.median(growth) < MOST_BYTES, growth
    assert used[-1] - used[0] < len(growth) * MOST_BYTES, growth

"""Two servers that start at once on one data folder share its database, which is migrated once."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

SERVER = """
import asyncio, sys
from mediamill.app import open_app
from mediamill.engine.model import NewJob
from mediamill.engine.recovery.sweep import note_server_start, recover_at_start
from mediamill.settings import Settings

async def main():
    async with open_app(Settings(), wait_seconds=60) as app:
        await note_server_start(app.database)
        await recover_at_start(app.database, app.engine)
        async with app.database.transaction() as connection:
            await app.enqueuer.enqueue_job(connection, NewJob("scripted.inline", owner=sys.argv[1]))
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        async with app.database.connection() as connection:
            owners = await connection.fetch("select owner from jobs order by owner")
            revisions = await connection.fetchval("select count(*) from alembic_version")
            pools = await connection.fetchval("select count(*) from pools where matches = '{}'")
            print(",".join(row[0] for row in owners), revisions, pools, flush=True)

asyncio.run(main())
"""


async def start(folder: Path, name: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SERVER,
        name,
        env={**os.environ, "MEDIAMILL_DATA": str(folder)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def line_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = (await asyncio.wait_for(process.stdout.readline(), 120)).decode().strip()
    if not line:
        assert process.stderr is not None
        pytest.fail((await process.stderr.read()).decode())
    return line


@pytest.mark.spec("E17")
@pytest.mark.parametrize("round_", range(2))
async def test_two_servers_starting_at_once_on_one_data_folder_both_work_on_one_database(
    tmp_path: Path, round_: int
) -> None:
    names = ["a", "b", "c"][: 2 + round_]
    processes = await asyncio.gather(*(start(tmp_path / "data", name) for name in names))
    try:
        assert await asyncio.gather(*map(line_of, processes)) == ["ready"] * len(names)
        for process in processes:
            assert process.stdin is not None
            process.stdin.write(b"\n")
            await process.stdin.drain()
        told = await asyncio.gather(*map(line_of, processes))
        assert set(told) == {f"{','.join(names)} 1 1"}
        assert [await asyncio.wait_for(process.wait(), 120) for process in processes] == [0] * len(names)
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()

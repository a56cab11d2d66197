"""Work goes on while a backup is made: every file that a row of the backup names is in it."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import asyncpg

from mediamill.db.connection import Database
from mediamill.staging import staging_folder
from mediamill.staging.inputs import end_input
from tests.backup.ground import Ground, restore

ALIVE = 300
NAMED = "select name from configuration where name like 'guid-%'"


class Churn:
    """Files that come, are named, and go, in the order in which all code does it."""

    def __init__(self, database: Database, data: Path) -> None:
        self._database, self._data = database, data
        self._numbers = itertools.count(1)
        self.alive: list[str] = []
        self.rounds = 0

    async def run_forever(self) -> None:
        while True:
            await self.come()
            if len(self.alive) > ALIVE:
                await self.go()
            self.rounds += 1

    async def come(self) -> None:
        """The file first, then its row."""
        name = f"guid-{next(self._numbers)}"
        path = staging_folder(self._data) / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
        async with self._database.transaction() as connection:
            await connection.execute("insert into configuration values ($1, '1')", name)
        self.alive.append(name)

    async def go(self) -> None:
        """The row first, then the file."""
        name = self.alive.pop(0)
        async with self._database.transaction() as connection:
            await connection.execute("delete from configuration where name = $1", name)
        await end_input(self._database, self._data, {"file": {"staged": name}}, keep=False)


async def test_every_file_that_a_row_names_is_there_though_files_come_and_go(
    ground: Ground, database: Database, empty: str, tmp_path: Path
) -> None:
    churn = Churn(database, ground.data)
    for _ in range(ALIVE):
        await churn.come()
    working = asyncio.create_task(churn.run_forever())
    made = await ground.back_up()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert churn.rounds > 0
    await restore(made.folder, empty, tmp_path / "other")
    connection = await asyncpg.connect(empty)
    named = {row["name"] for row in await connection.fetch(NAMED)}
    await connection.close()
    there = {path.name for path in staging_folder(tmp_path / "other").iterdir()}
    assert len(named) >= ALIVE
    assert named - there == set()

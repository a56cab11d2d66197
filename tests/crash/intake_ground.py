"""Project files in a database that processes share, one of which kills itself at a step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.intake.model import Field
from tests.crash.processes import Mill, Process
from tests.intake.played import Ground
from tests.intake_documents import scan

FIELDS = (Field("invoice_number"), Field("total", "amount", unit="EUR"))
COMPLETED = "select coalesce(bool_and(state = 'completed'), false) from analyses"
SCANS = 4
NOBODY_ELSE = """
select not exists (
    select from pg_stat_activity where datname = current_database() and application_name like 'mediamill %')
"""


class Doomed(Process):
    """A command that kills itself at a step."""

    def __init__(self, mill: Mill, way: str, step: str, *words: str) -> None:
        said = mill.folder / "said-doomed.txt"
        super().__init__((way, step, *words), mill.environment, said, module="tests.crash.doomed_intake")
        mill.processes.append(self)
        self._mill = mill

    async def until_dead(self) -> None:
        """And the database has done all that it was told."""
        assert await self.until_gone() == -9, self.said
        await self._mill.until(NOBODY_ELSE)


@pytest.fixture
async def database(mill: Mill) -> AsyncIterator[Database]:
    assert mill.url is not None
    opened = await Database.open(mill.url, connections=6)
    yield opened
    await opened.close()


@pytest.fixture
async def ground(mill: Mill, database: Database) -> Ground:
    """On the same data as the processes; by rules, so that it needs nobody."""
    ground = Ground.on(database, mill.folder / "data")
    await ground.project(fields=FIELDS)
    return ground


def make_scans(path: Path) -> bytes:
    """A letter of some pages, which takes a while to read."""
    texts = [[f"Invoice number: S-{n}", f"Page {n} of the letter"] for n in range(SCANS)]
    first, *others = [scan(lines, size=(1240, 400)) for lines in texts]
    first.save(path, "PDF", resolution=150, save_all=True, append_images=others)
    return path.read_bytes()

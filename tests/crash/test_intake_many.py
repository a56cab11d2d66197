"""Hundreds of files, a model that fails a third of the time, and workers that are killed with -9: each ends, once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.db.connection import Database
from mediamill.intake.model import Field
from tests.conftest import wait_until
from tests.crash.intake_order import assert_in_order, family, kill_family
from tests.crash.processes import Mill, Process, mill
from tests.crash.shaky_model import ShakyModel, invoice
from tests.intake.played import Ground

__all__ = ["mill"]

FILES, TWINS, ELSEWHERE = 200, 20, 4  # twins: among the files; some of them in another project
CONTENTS = FILES - TWINS
NEVER, SLOW = range(7, CONTENTS, 75), range(3, CONTENTS, 75)
EMPTY, BROKEN = "empty.txt", "broken.pdf"
AT_ONCE = 3
KILLS = (30, 80, 130)  # when so many contents have ended, a worker dies
FIELDS = (Field("invoice_number"), Field("total", "amount", unit="EUR"))
HELD = """
select coalesce(jsonb_agg(distinct substring(f.name from '[0-9]+')::integer), '[]')
from jobs j join project_files f on f.analysis_id = j.subject_id::bigint
where j.state = 'running' and j.worker_name = $1 and j.checkpoint -> 'answer' is null and f.name ~ '^[0-9]'
"""


@pytest.fixture
async def database(mill: Mill) -> AsyncIterator[Database]:
    assert mill.url is not None
    opened = await Database.open(mill.url, connections=4)
    yield opened
    await opened.close()


def fill(here: Path, there: Path) -> None:
    """Names tell the number; the last ones are copies of the first."""
    for folder in (here, there):
        folder.mkdir()
    for number in range(CONTENTS):
        (here / f"{number}.txt").write_bytes(invoice(number))
    for number in range(TWINS):
        folder = there if number < ELSEWHERE else here
        (folder / f"{number} again.txt").write_bytes(invoice(number))
    (here / EMPTY).write_bytes(b"")
    (here / BROKEN).write_bytes(b"%PDF-1.7\n" + bytes(500))


class Shift:
    """Two workers; now and then one is killed and another comes. Counts whose answers were lost on the way."""

    def __init__(self, mill: Mill, ground: Ground) -> None:
        self._mill, self._ground = mill, ground
        self._working: dict[str, Process] = {}
        self.unsaved: Counter[int] = Counter()  # in the hands of a killed worker, no answer saved yet
        self.killed = 0

    async def hire(self) -> None:
        name = f"worker-{len(self._working) + self.killed}"
        self._working[name] = await self._mill.started("worker", "--name", name, "--pools", "intake")

    async def kill_one(self) -> None:
        """The one that has worked longest, at once with its children. While nobody moves, what it holds is read."""
        name = next(iter(self._working))
        process = self._working.pop(name)
        members = family(process)
        self.unsaved.update(json.loads(await self._ground.one(HELD, name)))
        await kill_family(process, members)
        self.killed += 1
        await self.hire()


async def have_ended(ground: Ground, count: int) -> bool:
    ended = "select count(*) >= $1 from analyses where state in ('completed', 'failed')"
    return bool(await ground.one(ended, count))


async def all_have_ended(ground: Ground) -> bool:
    """A twin of a file that failed is tried by itself: there may be more analyses than contents."""
    waiting = "select count(*) from analyses where state in ('queued', 'processing')"
    return bool(await ground.one(waiting) == 0)


@pytest.mark.timeout(900)
@pytest.mark.spec("P2", "P4", "P5", "E8", "E9")
async def test_hundreds_of_files_end_once_though_the_model_fails_and_workers_die(
    mill: Mill, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    ground = Ground.on(database, mill.folder / "data")
    here, there = mill.folder / "here", mill.folder / "there"
    fill(here, there)
    await ground.project("Here", FIELDS)
    await ground.project("There", FIELDS)
    await ground.run(
        "update pools set concurrency = $1, max_attempts = 4, backoff_seconds = 0.2, backoff_limit_seconds = 1 "
        "where name = 'intake'",
        AT_ONCE,
    )
    with ShakyModel(never=NEVER, slow=SLOW) as model:
        mill.settings |= {
            "MEDIAMILL_TEXT": "openai",
            "MEDIAMILL_OPENAI_URL": f"{model.url}/v1",
            "MEDIAMILL_MODEL_TIMEOUT_SECONDS": "10",
        }
        shift = Shift(mill, ground)
        adding = asyncio.gather(
            *(mill.say("intake", "add", folder.name, folder, "--json") for folder in (here, there))
        )
        await shift.hire()
        await shift.hire()
        for count in KILLS:
            await wait_until(lambda count=count: have_ended(ground, count), 300)  # type: ignore[misc]
            await shift.kill_one()
        assert [code for code, _ in await adding] == [0, 0]
        await wait_until(lambda: all_have_ended(ground), 300)
        await _assert_all_ended(ground)
        await _assert_asked_no_more_than_needed(ground, model, shift.unsaved)
        twice = sum(max(0, times - 1) for times in model.answered.values())
        assert twice <= shift.killed * AT_ONCE
        with capsys.disabled():
            print(
                f"\n  {model.asked.total()} questions, {model.failed} failed; {shift.killed} workers were killed, "
                f"and {twice} answers with them before they were saved"
            )
    await assert_in_order(ground)


async def _assert_all_ended(ground: Ground) -> None:
    states = json.loads(
        await ground.one(
            "select jsonb_object_agg(state, files) from (select state, count(*) as files from project_files f "
            "join analyses a on a.id = f.analysis_id group by 1) s"
        )
    )
    assert states.keys() == {"completed", "failed"}
    assert sum(states.values()) == FILES + 2
    assert states["completed"] >= 0.95 * FILES
    told = await ground.one(
        "select count(*) from analyses a join dead_jobs d on d.id = a.job_id "
        "where a.state = 'failed' and d.reason <> '' and a.error <> ''"
    )
    assert told == await ground.one("select count(*) from analyses where state = 'failed'")
    assert await ground.one("select count(*) from finished_jobs") == await ground.one(
        "select count(*) from analyses where state = 'completed'"
    )
    right = "p.field = 'invoice_number' and p.value = 'INV-' || substring(f.name from '[0-9]+')"
    wrong = await ground.one(
        "select array_agg(f.name) from project_files f join analyses a on a.id = f.analysis_id "
        f"where a.state = 'completed' and not exists (select from proposals p where p.file_id = f.id and {right})"
    )
    assert wrong is None


async def _assert_asked_no_more_than_needed(ground: Ground, model: ShakyModel, unsaved: Counter[int]) -> None:
    """One good answer for each content that is completed; another only where it was lost with a killed worker."""
    rows = await ground.one(
        "select jsonb_object_agg(number, state) from (select substring(f.name from '[0-9]+') as number, "
        "min(a.state) as state from project_files f join analyses a on a.id = f.analysis_id "
        "where f.name ~ '^[0-9]' group by 1) contents"
    )
    states = {int(number): state for number, state in json.loads(rows).items()}
    assert len(states) == CONTENTS
    for number, state in states.items():
        assert model.answered[number] >= (state == "completed"), number
        assert model.answered[number] <= 1 + unsaved[number], number
    assert 0.25 < model.failed / model.asked.total() < 0.42
    assert all(states[number] == "failed" for number in NEVER)
    assert all(model.asked[number] >= 2 for number in SLOW)

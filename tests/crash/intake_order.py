"""What must hold of project files in the end, whoever was killed on the way; and a family of processes, killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from mediamill.intake.model import FILES, OUTPUTS, PARTS
from mediamill.intake.sweep import sweep_intake
from tests.crash.processes import Process, until_dead
from tests.intake.played import Ground

ENDED = """
select not exists (select from jobs where kind = 'file.analyse') and not exists (
    select from analyses where state not in ('completed', 'failed') or (state = 'failed' and coalesce(error, '') = ''))
"""
TWICE = {
    "an analysis": "select count(*) from analyses where state <> 'failed' group by sha256, catalog, extractor "
    "having count(*) > 1",
    "a finish": "select count(*) from finished_jobs where pool = 'intake' group by subject_id having count(*) > 1",
    "a proposal": "select count(*) from proposals group by file_id, field, value having count(*) > 1",
    "a path": "select count(*) from project_files where source = 'watch' group by project_id, name having count(*) > 1",
}


def family(process: Process) -> list[psutil.Process]:
    """The process and all that it started; none of them moves any more, so none is missed."""
    parent = psutil.Process(process.pid)
    members = [parent]
    parent.suspend()
    while more := [child for child in parent.children(recursive=True) if child not in members]:
        for child in more:  # each may have started others before it was told to stop
            with suppress(psutil.NoSuchProcess):
                child.suspend()
        members += more
    return members


async def kill_family(process: Process, members: Sequence[psutil.Process] = ()) -> None:
    """-9 for all of them."""
    members = members or family(process)
    for member in members:
        with suppress(psutil.NoSuchProcess):
            member.kill()
    process.popen.wait(60)
    await until_dead(*(member.pid for member in members[1:]))


async def sweep(ground: Ground) -> int:
    """As if all that lies around were old."""
    for part in (ground.data / PARTS).glob("*"):
        os.utime(part, (0, 0))
    return await sweep_intake(ground.database, ground.settings, older_than_seconds=0)


async def assert_in_order(ground: Ground) -> None:
    """Everything has ended with a reason, nothing is there twice, and after the sweep only what rows name."""
    assert await ground.one(ENDED), await ground.one("select jsonb_agg(to_jsonb(j)) from jobs j")
    for what, statement in TWICE.items():
        assert await ground.one(statement) is None, f"{what} is there twice"
    await sweep(ground)
    assert files_below(ground.data / PARTS) == set()
    async with ground.database.connection() as connection:
        rows = await connection.fetch("select encode(sha256, 'hex') as content, output from analyses")
    assert {path.name for path in files_below(ground.data / FILES)} == {row["content"] for row in rows}
    named = {ground.data / row["output"] for row in rows if row["output"]}
    assert {path.parent for path in files_below(ground.data / OUTPUTS)} == named
    assert set((ground.data / OUTPUTS).glob("*/*")) == named


def files_below(folder: Path) -> set[Path]:
    return {path for path in folder.rglob("*") if path.is_file()}

"""Adding, completing, forcing and deleting at once, on connections of their own: nobody deadlocks, nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import pytest

from mediamill.engine.model import ClaimedJob
from mediamill.errors import NotFoundError
from mediamill.intake.again import delete_file
from mediamill.intake.fields import set_fields
from mediamill.intake.projects import delete_project
from tests.intake.played import FIELDS, Ground

ROUNDS = 6
WHOLE = """
select count(*) from project_files f join analyses a on a.id = f.analysis_id
where a.state = 'queued' and not exists (select from jobs j where j.id = a.job_id)
    or a.state = 'completed' and (select count(*) from proposals p where p.file_id = f.id) <> 2
"""


async def delete_all(ground: Ground, slug: str) -> None:
    async with ground.database.transaction() as connection:
        await delete_project(connection, slug)


async def delete(ground: Ground, file_id: int) -> None:
    async with ground.database.transaction() as connection:
        await delete_file(connection, file_id)


async def change_fields(ground: Ground, slug: str) -> None:
    async with ground.database.transaction() as connection:
        await set_fields(connection, slug, FIELDS)


async def complete(ground: Ground, jobs: list[ClaimedJob]) -> None:
    for job in jobs:
        await ground.finish(job)


async def at_once(*verbs: Coroutine[Any, Any, Any]) -> None:
    """Only what is gone may be missed; a deadlock would be another error."""
    found = await asyncio.gather(*verbs, return_exceptions=True)
    for error in found:
        if isinstance(error, BaseException) and not isinstance(error, NotFoundError):
            raise error


@pytest.mark.spec("P5", "E6")
async def test_whatever_happens_at_once_files_are_whole_in_the_end(ground: Ground) -> None:
    for number in range(ROUNDS):
        slug, other = await ground.project(f"A {number}"), await ground.project(f"B {number}")
        contents = [f"{number} {one}".encode() for one in range(3)]
        files = [await ground.add(slug, content) for content in contents]
        files += [await ground.add(other, content) for content in contents]
        jobs = await ground.claim(amount=2)
        await at_once(
            complete(ground, jobs),
            *(ground.add(which, content) for which in (slug, other) for content in contents),
            *(ground.again(file["id"], force=True) for file in files),
            delete(ground, files[4]["id"]),
            change_fields(ground, slug),
            delete_all(ground, slug),
            *(ground.add(which, content) for which in (slug, other) for content in contents),
        )
        with suppress(NotFoundError):
            await delete_all(ground, slug)
        assert await ground.one(WHOLE) == 0
        assert await ground.one("select count(*) from analyses where state = 'processing'") == 0
        while jobs := await ground.claim(amount=10):
            await complete(ground, jobs)
        assert await ground.one("select count(*) from dead_jobs") == 0
        assert await ground.one(WHOLE) == 0
    states = await ground.one("select array_agg(distinct state) from analyses")
    assert states == ["completed"]
    assert await ground.one("select count(*) from project_files") > ROUNDS


@pytest.mark.spec("P5")
async def test_an_analysis_is_finished_once_whatever_twins_do_meanwhile(ground: Ground) -> None:
    await ground.project()
    first = await ground.add()
    (job,) = await ground.claim()
    await at_once(
        complete(ground, [job]),
        delete(ground, first["id"]),
        *(ground.add() for _ in range(6)),
    )
    assert await ground.one(WHOLE) == 0
    while jobs := await ground.claim(amount=10):
        await complete(ground, jobs)
    assert await ground.one("select count(*) from project_files") == 6
    assert await ground.one(WHOLE) == 0
    assert await ground.one("select count(*) from analyses") == 1

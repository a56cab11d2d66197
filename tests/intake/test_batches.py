"""Of many jobs that end together, one whose files are gone keeps nothing from the others."""

from __future__ import annotations

from typing import Any

import pytest

from mediamill.engine.dead import purge_jobs
from mediamill.engine.model import ClaimedJob
from mediamill.engine.recovery.expired import release_expired
from mediamill.engine.settle import Finish, encode_result, finish_jobs
from tests.intake.played import Ground, result_of

pytestmark = pytest.mark.spec("P4")


async def three(ground: Ground, *, claim: bool) -> tuple[list[dict[str, Any]], list[ClaimedJob]]:
    """Files and their jobs, of which the second is not that of its file any more."""
    await ground.project()
    files = [await ground.add(content=bytes([number])) for number in range(3)]
    jobs = await ground.claim(amount=3) if claim else []
    await ground.run("update analyses set job_id = null where job_id = $1", files[1]["job_id"])
    return files, jobs


async def states(ground: Ground, files: list[dict[str, Any]]) -> list[str]:
    return [(await ground.state(file["id"]))[0] for file in files]


async def test_the_others_are_completed(ground: Ground) -> None:
    files, jobs = await three(ground, claim=True)
    finishes = [Finish(job, encode_result(ground.engine, result_of())) for job in jobs]
    settled = await finish_jobs(ground.database, ground.engine, jobs[0].worker_id, finishes)
    assert settled.done == {job.id for job in jobs}
    assert await states(ground, files) == ["completed", "processing", "completed"]


async def test_the_others_are_released(ground: Ground) -> None:
    files, _ = await three(ground, claim=True)
    await ground.run("update jobs set lease_expires_at = now() - interval '16 minutes'")
    async with ground.database.transaction() as connection:
        assert await release_expired(connection, ground.engine) == 3
    assert await states(ground, files) == ["queued", "processing", "queued"]


async def test_the_others_are_given_up(ground: Ground) -> None:
    files, _ = await three(ground, claim=False)
    async with ground.database.transaction() as connection:
        await purge_jobs(connection, ground.engine, [file["job_id"] for file in files])
    assert await states(ground, files) == ["failed", "queued", "failed"]


async def test_the_others_are_begun(ground: Ground) -> None:
    files, _ = await three(ground, claim=False)
    assert [job.id for job in await ground.claim(amount=3)] == [files[0]["job_id"], files[2]["job_id"]]
    assert await states(ground, files) == ["processing", "queued", "processing"]
    assert await ground.one("select error from dead_jobs") == "No file needs this analysis any more."

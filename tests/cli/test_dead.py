"""`mediamill dead`."""

from __future__ import annotations

import json

import pytest

from mediamill.db.connection import Database
from tests.cli.conftest import Mediamill

KILL = """
with gone as (delete from jobs where id = any ($1::bigint[]) returning *)
insert into dead_jobs (id, kind, pool, owner, subject_id, priority, payload, attempts, max_attempts, token, created_at,
    reason, error, traceback)
select id, kind, pool, owner, subject_id, priority, payload, 3, max_attempts, 7, created_at,
    'max_attempts_exhausted', 'it broke', 'Traceback (of the processor)' from gone
"""


@pytest.fixture
async def dead(mediamill: Mediamill, database: Database) -> list[int]:
    """Three dead jobs, two of one kind, and a living one."""
    await mediamill("jobs", "add", "scripted.run", '{"a": 1}', "--count", 2, "--owner", "bot-7")
    await mediamill("jobs", "add", "scripted.inline", "--count", 2)
    async with database.connection() as connection:
        await connection.execute(KILL, [1, 2, 3])
    return [1, 2, 3]


@pytest.mark.spec("E13")
async def test_dead_jobs_are_listed_newest_first(mediamill: Mediamill, dead: list[int]) -> None:
    listed = (await mediamill("dead", "list", "--json")).json
    assert [job["id"] for job in listed] == [3, 2, 1]
    assert [
        job["id"] for job in (await mediamill("dead", "list", "--kind", "scripted.run", "--json")).json
    ] == [2, 1]
    assert (await mediamill("dead", "list", "--reason", "other", "--json")).json == []
    assert "it broke" in (await mediamill("dead", "list")).out


@pytest.mark.spec("E13")
async def test_a_dead_job_is_shown_with_its_whole_record(mediamill: Mediamill, dead: list[int]) -> None:
    job = (await mediamill("dead", "show", 1, "--json")).json
    assert (job["payload"], job["attempts"], job["reason"]) == ({"a": 1}, 3, "max_attempts_exhausted")
    assert job["traceback"] == "Traceback (of the processor)"
    assert "Traceback (of the processor)" in (await mediamill("dead", "show", 1)).out
    refused = await mediamill("dead", "show", 4)
    assert refused.code == 1
    assert "job 4 is not dead: it is queued" in refused.err


@pytest.mark.spec("E13")
async def test_dead_jobs_are_requeued_by_id_kind_or_all(mediamill: Mediamill, dead: list[int]) -> None:
    assert (await mediamill("dead", "requeue", 3, "--json")).json == {"requeued": [3], "left": {}}
    job = (await mediamill("jobs", "show", 3, "--json")).json
    assert (job["state"], job["attempts"]) == ("queued", 0)
    assert (await mediamill("dead", "requeue", "--kind", "scripted.run", "--json")).json["requeued"] == [1, 2]
    assert (await mediamill("dead", "requeue", "--all")).code == 1
    assert (await mediamill("dead", "requeue", "--all", "--yes", "--json")).json["requeued"] == []


@pytest.mark.spec("E13")
async def test_dead_jobs_are_purged_only_after_a_yes(mediamill: Mediamill, dead: list[int]) -> None:
    assert (await mediamill("dead", "purge", 1)).code == 1
    assert len((await mediamill("dead", "list", "--json")).json) == 3
    assert (await mediamill("dead", "purge", 1, "--yes", "--json")).json["purged"] == [1]
    assert (await mediamill("dead", "purge", "--all", "--yes", "--json")).json["purged"] == [2, 3]
    assert (await mediamill("dead", "list", "--json")).json == []


@pytest.mark.spec("E13")
async def test_ids_that_are_not_dead_are_named(mediamill: Mediamill, dead: list[int]) -> None:
    said = await mediamill("dead", "requeue", 1, 4, 99, "--json")
    assert said.code == 1
    assert json.loads(said.out) == {"requeued": [1], "left": {"4": "queued", "99": None}}
    assert "job 4 is not dead: it is queued" in said.err
    assert "there is no job 99" in said.err
    assert (await mediamill("dead", "purge", "--yes")).code == 1


async def test_a_dead_job_is_retried_by_the_jobs_command_too(mediamill: Mediamill, dead: list[int]) -> None:
    assert (await mediamill("jobs", "retry", 1, "--json")).json["retried"] == [1]
    assert (await mediamill("jobs", "list", "--state", "dead", "--json")).json[-1]["id"] == 2

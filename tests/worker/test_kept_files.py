"""Finished files leave a job before it ends: an attempt that dies loses only what it had not finished."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.kinds import JobKind
from mediamill.engine.model import ClaimedJob, NewJob
from mediamill.engine.pools import set_pools
from mediamill.engine.watch import counters
from mediamill.errors import ClaimLostError, InvalidError
from mediamill.processors.registry import processor_names
from mediamill.staging.kept import NewKept, keep_file, kept_folder, list_kept, part_path, sweep_kept
from tests.worker.working import Ground, ground

__all__ = ["ground"]

SHA_OF_WORD = "98c1eb4ee93476743763878fcb96a25fbc9a175074d64004779ecb5242f645e6"  # of "word"
POOL = {"name": "keeping", "matches": ["test.keep"], "processor": "scripted", "backoff_seconds": 0}


@pytest.fixture
async def keeping(ground: Ground) -> Ground:
    """A ground with a kind that keeps files."""
    ground.engine.kinds.add(JobKind("test.keep", keeps_files=True))
    async with ground.database.transaction() as connection:
        await set_pools(connection, [POOL], processor_names())
    return ground


async def add(ground: Ground, **payload: Any) -> int:
    async with ground.database.transaction() as connection:
        return await ground.enqueuer.enqueue_job(
            connection,
            NewJob("test.keep", {"do": "keep", **payload}, max_attempts=payload.get("attempts", 3)),
        )


async def result_of(ground: Ground, id_: int) -> dict[str, Any]:
    await ground.until(id_, "finished")
    return dict(json.loads(await ground.one("select result from finished_jobs where id = $1", id_)))


@pytest.mark.spec("V6", "E4")
async def test_what_a_killed_attempt_had_finished_is_found_by_the_next(
    keeping: Ground, tmp_path: Path
) -> None:
    async with keeping.working():
        id_ = await add(keeping, times=5, die_after=3, gate=str(tmp_path))
        await keeping.until_sql("select count(*) = 3 from kept_files")
        (tmp_path / "die").touch()
        result = await result_of(keeping, id_)
    assert result["found"] == ["part-000.txt", "part-001.txt", "part-002.txt"]
    assert sorted(result["found"] + result["made"]) == [f"part-{index:03}.txt" for index in range(5)]
    async with keeping.database.connection() as connection:
        kept = await list_kept(connection, keeping.folder, id_)
    assert [one.name for one in kept] == [f"part-{index:03}.txt" for index in range(5)]
    assert ((keeping.folder / kept_folder(id_)) / "part-004.txt").read_text() == "part-004.txt"


@pytest.mark.spec("E10", "V6")
async def test_an_attempt_without_progress_is_stopped_and_the_next_resumes_its_work(
    keeping: Ground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with keeping.working() as worker:
        id_ = await add(keeping, times=5, die_after=3, gate=str(tmp_path))  # the gate never opens: it hangs
        await keeping.until_sql("select step = 'dying' from jobs")
        await keeping.pool("keeping", no_progress_seconds=2)
        await keeping.until_sql("select exists (select from counters where name = 'stalled')")
        await keeping.pool("keeping", no_progress_seconds=0)
        result = await result_of(keeping, id_)
        assert not worker.is_leaving
    assert result["found"] == ["part-000.txt", "part-001.txt", "part-002.txt"]
    assert result["made"] == ["part-003.txt", "part-004.txt"]
    assert "made no progress for 2 s: it is stopped" in caplog.text
    async with keeping.database.connection() as connection:
        seen = await counters(connection)
    assert (seen["stalled"], seen["failures"]) == (1, 0)


@pytest.mark.spec("V8")
@pytest.mark.parametrize("name", ["../evil", ".part-1", "a/b", "A.mp4", "", "x" * 101])
async def test_a_name_outside_the_grammar_is_refused_to_the_holder_too(keeping: Ground, name: str) -> None:
    job = await running(keeping)
    with pytest.raises(InvalidError):
        await keep(keeping, job, name=name)
    assert await keeping.one("select count(*) from kept_files") == 0


def claimed(id_: int, token: int = 1) -> ClaimedJob:
    return ClaimedJob(id_, token, 1, "test.keep", "keeping", "o", None, None, 1, 3, "{}", None)


async def keep(ground: Ground, job: ClaimedJob, name: str = "word.txt", text: str = "word") -> Path:
    path = part_path(ground.folder, job.id)
    path.write_text(text)
    new = NewKept(name, path, len(text), SHA_OF_WORD, {"index": 1})
    await keep_file(ground.database, ground.folder, job, new, 60)
    return path


async def running(ground: Ground) -> ClaimedJob:
    """A job in the hands of a worker that never comes back."""
    id_ = await add(ground)
    row = await ground.row(
        "update jobs set state = 'running', token = 7, worker_id = 1, attempts = 1, "
        "lease_expires_at = now() + interval '1 hour' where id = $1 returning token",
        id_,
    )
    return claimed(id_, row["token"])


@pytest.mark.spec("E5", "V8")
async def test_whoever_lost_the_claim_keeps_nothing_and_leaves_the_new_files_alone(keeping: Ground) -> None:
    job = await running(keeping)
    await keep(keeping, job)
    await keeping.one("update jobs set token = 8 where id = $1 returning id", job.id)
    with pytest.raises(ClaimLostError):
        await keep(keeping, job, text="late")
    assert ((keeping.folder / kept_folder(job.id)) / "word.txt").read_text() == "word"


@pytest.mark.spec("V8")
async def test_a_row_without_its_whole_file_is_as_if_nothing_were_kept(keeping: Ground) -> None:
    job = await running(keeping)
    await keep(keeping, job)
    async with keeping.database.connection() as connection:
        assert [one.facts for one in await list_kept(connection, keeping.folder, job.id)] == [{"index": 1}]
        ((keeping.folder / kept_folder(job.id)) / "word.txt").write_text("wor")
        assert await list_kept(connection, keeping.folder, job.id) == []


@pytest.mark.spec("V6", "E34")
async def test_what_was_kept_goes_when_its_job_has_no_future(keeping: Ground) -> None:
    job, other = await running(keeping), await running(keeping)
    await keep(keeping, job)
    await keep(keeping, other)
    await keeping.one("delete from jobs where id = $1 returning id", job.id)
    assert await sweep_kept(keeping.database, keeping.folder, older_than_seconds=-60) == 1
    assert not (keeping.folder / kept_folder(job.id)).exists()
    assert (keeping.folder / kept_folder(other.id)).exists()
    assert await keeping.one("select count(*) from kept_files") == 1

"""How many children there are: none before the first job, as many as there are jobs, fewer when nobody needs them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from mediamill.worker.sandbox import ProcessorCrashedError, SandboxJob
from tests.worker.harness import GENEROUS, Reports, age, do, is_running, opened, pid_of, wait_until


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children() if is_running(child.pid)}


async def test_no_child_is_started_before_there_is_a_job(tmp_path: Path) -> None:
    before = children()
    async with opened(tmp_path, size=3):
        assert children() <= before


async def test_one_job_after_the_other_needs_one_child_which_loads_once(tmp_path: Path) -> None:
    before = children()
    async with opened(tmp_path, size=3) as sandbox:
        told = [await do(sandbox, about=True) for _ in range(3)]
        assert len({each["pid"] for each in told}) == 1
        assert [each["jobs_seen"] for each in told] == [1, 2, 3]
        assert len(children() - before) == 1


async def test_jobs_that_come_at_once_start_as_many_children_as_there_are_slots(tmp_path: Path) -> None:
    before = children()
    async with opened(tmp_path, size=2) as sandbox:
        jobs = [do(sandbox, "sleep", seconds=0.2, about=True) for _ in range(6)]
        told = await asyncio.gather(*jobs)
        assert len({each["pid"] for each in told}) <= 2
        assert len(children() - before) == 2


async def test_children_that_nobody_needs_are_ended_and_come_back_with_the_next_job(tmp_path: Path) -> None:
    before = children()
    async with opened(tmp_path, size=2, idle_seconds=0.2) as sandbox:
        await asyncio.gather(*(do(sandbox, "sleep", seconds=0.2) for _ in range(2)))
        await wait_until(lambda: children() <= before, "the idle children are gone")
        assert await do(sandbox, result={"n": 1}) == {"n": 1}


async def test_after_a_loss_a_spare_waits_and_it_goes_like_any_other_when_idle(tmp_path: Path) -> None:
    before = children()
    async with opened(tmp_path) as sandbox:
        with pytest.raises(ProcessorCrashedError):
            await do(sandbox, "exit")
        await wait_until(lambda: len(children() - before) == 2, "the child is replaced, and there is a spare")
        pid = await pid_of(sandbox)
        assert pid in children()
        sandbox._idle_seconds = 0.2
        await wait_until(lambda: children() <= before, "both are gone")


async def test_a_job_that_may_be_killed_soon_gets_a_spare_beside_it(tmp_path: Path) -> None:
    before = children()
    async with opened(tmp_path) as sandbox:
        reports = Reports()
        run = asyncio.create_task(sandbox.run(SandboxJob(payload={"do": "hang"}), reports))
        pid = await reports.part("pid")
        assert len(children() - before) == 1
        age(sandbox, GENEROUS.timeout_seconds * 0.6)
        await wait_until(lambda: len(children() - before) == 2, "a spare is there")
        assert is_running(pid)  # its time is not over yet
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)


async def test_temporary_files_of_a_child_go_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path, idle_seconds=0.2) as sandbox:
        await do(sandbox)
        assert len(temporary_folders(tmp_path)) == 1
        await wait_until(lambda: not temporary_folders(tmp_path), "the folder is gone")


def temporary_folders(scratch: Path) -> list[Path]:
    return list(scratch.glob("*/child-*/tmp"))

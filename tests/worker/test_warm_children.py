"""The children of a sandbox: how many there are, which job gets which, and when one is replaced."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from mediamill.worker.sandbox import (
    Limits,
    MemoryLimitError,
    ProcessorCrashedError,
    ProcessorTimeoutError,
    SandboxJob,
)
from tests.worker.harness import (
    GENEROUS,
    LIMIT_SECONDS,
    Reports,
    age,
    do,
    is_running,
    opened,
    pid_of,
    wait_until,
)


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children() if is_running(child.pid)}


def temporary_folders(scratch: Path) -> list[Path]:
    return list(scratch.glob("*/child-*/tmp"))


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
        sandbox._children.idle_seconds = 0.2
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


async def test_500_jobs_one_after_the_other_use_the_same_warm_child(tmp_path: Path) -> None:
    async with opened(tmp_path, size=2) as sandbox:
        for _ in range(499):
            await do(sandbox)
        assert (await do(sandbox, about=True))["jobs_seen"] == 500


async def test_jobs_run_side_by_side_up_to_the_size_and_no_more(tmp_path: Path) -> None:
    async with opened(tmp_path, size=2) as sandbox:
        reports = [Reports() for _ in range(3)]
        runs = [
            asyncio.create_task(sandbox.run(SandboxJob(payload={"do": "hang"}), report)) for report in reports
        ]
        assert await reports[0].part("pid") != await reports[1].part("pid")
        assert sandbox.free_slots == 0
        assert not reports[2]  # a spare child is idle, but there is no third slot
        runs[0].cancel()
        await reports[2].part("pid")
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


async def test_a_run_cancelled_while_it_waits_takes_no_slot_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        reports = Reports()
        first = asyncio.create_task(
            sandbox.run(SandboxJob(payload={"do": "report", "times": 2, "seconds": 0.3}), reports)
        )
        await reports.part("n")
        second, third = (asyncio.create_task(do(sandbox, result={"n": n})) for n in (2, 3))
        await asyncio.sleep(0)
        second.cancel()
        await first
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await third == {"n": 3}
        assert sandbox.free_slots == 1


async def test_a_run_cancelled_just_as_it_gets_its_child_hands_the_child_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        reports = Reports()

        async def run_then_cancel_the_next() -> None:
            await sandbox.run(SandboxJob(payload={"do": "report", "times": 2, "seconds": 0.3}), reports)
            second.cancel()  # it has been given the child but has not gone on yet

        first = asyncio.create_task(run_then_cancel_the_next())
        await reports.part("n")
        second = asyncio.create_task(do(sandbox, result={"n": 2}))
        await first
        with pytest.raises(asyncio.CancelledError):
            await second
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await do(sandbox, result={"n": 3}) == {"n": 3}
        assert sandbox.free_slots == 1


async def test_changed_limits_hold_for_the_next_job(tmp_path: Path) -> None:
    async with opened(tmp_path, size=2) as sandbox:
        before = await pid_of(sandbox)
        reports = Reports()
        running = asyncio.create_task(
            sandbox.run(SandboxJob(payload={"do": "report", "times": 2, "seconds": 0.5}), reports)
        )
        await reports.part("n")
        sandbox.limits = Limits(timeout_seconds=60, memory_bytes=200 << 20)
        await running  # goes on under the limits that it began with
        with pytest.raises(MemoryLimitError):
            await do(sandbox, "eat_memory", bytes=400 << 20)
        assert await pid_of(sandbox) != before
        sandbox.limits = Limits(timeout_seconds=1, memory_bytes=200 << 20)
        with pytest.raises(ProcessorTimeoutError):
            await do(sandbox, "hang")


async def test_a_changed_size_holds_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, size=1) as sandbox:
        reports = [Reports(), Reports()]
        runs = [
            asyncio.create_task(sandbox.run(SandboxJob(payload={"do": "hang"}), report)) for report in reports
        ]
        await reports[0].part("pid")
        assert not reports[1]
        sandbox.size = 2
        await reports[1].part("pid")
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)


async def test_a_child_is_replaced_after_its_number_of_jobs(tmp_path: Path) -> None:
    async with opened(tmp_path, max_jobs_per_child=3, spare=0) as sandbox:
        seen = [(await do(sandbox, about=True))["jobs_seen"] for _ in range(7)]
    assert seen == [1, 2, 3, 1, 2, 3, 1]


async def test_a_child_that_keeps_half_its_limit_is_replaced_between_jobs(tmp_path: Path) -> None:
    limits = Limits(timeout_seconds=60, memory_bytes=400 << 20)
    async with opened(tmp_path, limits, spare=0) as sandbox:
        first = await pid_of(sandbox)
        await do(sandbox, "leak", bytes=50 << 20, seconds=1.1)  # it is weighed once a second
        assert await pid_of(sandbox) == first
        await do(sandbox, "leak", bytes=200 << 20, seconds=1.1)
        assert await pid_of(sandbox) != first


async def test_an_idle_child_that_is_killed_is_replaced(tmp_path: Path) -> None:
    async with opened(tmp_path, spare=0) as sandbox:
        pid = await pid_of(sandbox)
        os.kill(pid, signal.SIGKILL)
        await wait_until(lambda: not psutil.pid_exists(pid), "the child is reaped")
        assert await pid_of(sandbox) != pid


async def test_a_child_that_worked_for_one_owner_works_for_no_other(tmp_path: Path) -> None:
    async def pid(owner: str) -> int:
        result = (await sandbox.run(SandboxJob({"about": True}, owner=owner))).result
        assert result["jobs_seen"] == seen[owner]
        return int(result["pid"])

    async with opened(tmp_path) as sandbox:
        seen = {"ann": 1, "bob": 1}
        first = await pid("ann")
        seen["ann"] = 2
        assert await pid("ann") == first
        second = await pid("bob")
        assert second != first
        seen["ann"] = 1
        assert await pid("ann") not in (first, second)


async def test_where_there_is_room_each_owner_keeps_a_warm_child(tmp_path: Path) -> None:
    async with opened(tmp_path, size=2) as sandbox:
        for count in range(1, 4):
            for owner in ("ann", "bob"):
                result = (await sandbox.run(SandboxJob({"about": True}, owner=owner))).result
                assert result["jobs_seen"] == count

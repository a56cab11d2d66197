"""What a child may use, in a job, at its end and between two jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mediamill.worker.failures import TooMuchWrittenError
from mediamill.worker.sandbox import Limits, SandboxJob
from mediamill.worker.scratch import empty_folder
from tests.worker.harness import do, everything_in, folders, is_running, opened, pid_of, wait_until

LITTLE = Limits(timeout_seconds=60, memory_bytes=1 << 30, written_bytes=20 << 20)


async def test_a_short_job_that_writes_too_much_fails_however_short_it_is(tmp_path: Path) -> None:
    async with opened(tmp_path, LITTLE) as sandbox:
        pid = await pid_of(sandbox)
        with pytest.raises(TooMuchWrittenError, match=f"limit of {20 << 20} bytes"):
            await do(sandbox, "write", bytes=30 << 20)
        await wait_until(lambda: not is_running(pid), "the child is dead")
        for _ in range(3):  # each has a limit of its own
            await do(sandbox, "write", bytes=10 << 20)


@pytest.mark.parametrize("how", ["write", "compute"])
async def test_a_child_that_goes_on_after_its_job_is_ended(tmp_path: Path, how: str) -> None:
    async with opened(tmp_path, LITTLE, processor="hostile") as sandbox:
        pid = (await sandbox.run(SandboxJob({"attempt": "linger", "how": how}))).result["pid"]
        await wait_until(lambda: not is_running(pid), "the child is dead")


async def test_an_idle_child_that_does_nothing_is_left_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        pid = await pid_of(sandbox)
        (child,) = sandbox._children
        for _ in range(5):
            child._look()
        assert await pid_of(sandbox) == pid


async def test_temporary_files_of_one_job_are_gone_before_the_next(tmp_path: Path) -> None:
    async with opened(tmp_path) as sandbox:
        pid = await pid_of(sandbox)
        for _ in range(3):
            assert (await do(sandbox, "leave_temporary_file"))["found"] == []
        assert await pid_of(sandbox) == pid


async def test_folders_that_are_very_deep_or_closed_are_removed(tmp_path: Path) -> None:
    async with opened(tmp_path, processor="hostile") as sandbox:
        await sandbox.run(SandboxJob({"attempt": "bury"}))
        assert folders(tmp_path) == []
    assert everything_in(tmp_path) == []


def test_emptying_a_folder_follows_no_link(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    for each in (outside, folder / "below"):
        each.mkdir(parents=True)
    (outside / "kept.txt").write_text("kept")
    for link in (folder / "link", folder / "below" / "link"):
        link.symlink_to(outside)
    assert empty_folder(folder)
    assert everything_in(folder) == []
    assert (outside / "kept.txt").read_text() == "kept"

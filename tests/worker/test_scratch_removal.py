"""Scratch folders are removed whatever becomes of those who wanted it, and not under a child that still writes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

import pytest

from mediamill.worker.scratch_removal import ScratchRemoval
from mediamill.worker.warm_child import WarmChild
from tests.worker.harness import LIMIT_SECONDS, everything_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "job" / "part").mkdir(parents=True)
    return tmp_path / "job"


async def test_a_removal_that_has_begun_is_finished(folder: Path) -> None:
    removal = ScratchRemoval()
    removal.begin(None, folder)
    await removal.finish()
    assert everything_in(folder.parent) == []


async def test_a_removal_is_finished_although_its_caller_is_cancelled(folder: Path) -> None:
    removal = ScratchRemoval()
    caller = asyncio.create_task(removal.remove(None, folder))
    await asyncio.sleep(0)  # it has begun
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await removal.finish()
    assert everything_in(folder.parent) == []


class Dying:
    """A child that was killed, until the kernel has done it."""

    alive = False

    def __init__(self) -> None:
        self.waited_for, self.dead = asyncio.Event(), asyncio.Event()

    async def wait_until_reaped(self) -> None:
        self.waited_for.set()
        await self.dead.wait()


async def test_the_folder_of_a_killed_child_stays_until_it_is_dead(folder: Path) -> None:
    removal, child = ScratchRemoval(), Dying()
    task = removal.begin(cast("WarmChild", child), folder)
    async with asyncio.timeout(LIMIT_SECONDS):
        await child.waited_for.wait()
    assert everything_in(folder.parent) == [folder]
    assert not task.done()
    child.dead.set()
    await task
    assert everything_in(folder.parent) == []

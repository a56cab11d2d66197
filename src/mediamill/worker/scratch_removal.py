"""Scratch folders are removed beside the other work: the event loop does not wait for the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from mediamill.worker.scratch import remove_folder
from mediamill.worker.warm_child import WarmChild


class ScratchRemoval:
    """What one sandbox is removing at the moment."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, child: WarmChild | None, *folders: Path) -> asyncio.Task[None]:
        """Remove folders; if the child that may write to them was killed, once it is dead."""
        task = asyncio.get_running_loop().create_task(_remove_when_dead(child, folders))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def remove(self, child: WarmChild | None, *folders: Path) -> None:
        """The same, and wait for it; it is done even if the caller is cancelled meanwhile."""
        await asyncio.shield(self.begin(child, *folders))

    async def finish(self) -> None:
        """Wait for all that has begun."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _remove_when_dead(child: WarmChild | None, folders: Sequence[Path]) -> None:
    if child is not None and not child.alive:
        await child.wait_until_reaped()
    for folder in folders:
        await asyncio.to_thread(remove_folder, folder)

"""A keeper of runs with the real agents against a loopback model server, and pictures that can be told apart."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pyvips

from mediamill.agents.choose import Agents
from mediamill.db.connection import Database
from mediamill.inputs.look import RunWatch, show_run
from mediamill.inputs.model import Run
from mediamill.inputs.runner import RunKeeper
from mediamill.settings import Settings
from mediamill.worker.shrink import Shrinker
from tests.conftest import wait_until


def picture(width: int, height: int = 40) -> bytes:
    """A PNG that is known again by its size."""
    drawn: bytes = pyvips.Image.black(width, height, bands=3).copy(interpretation="srgb").pngsave_buffer()
    return drawn


def widths_sent(request: Any) -> list[int]:
    """The widths of the pictures that came with the last message of a request to the model."""
    content = request.json()["messages"][-1]["content"]
    parts = [part for part in content if part["type"] == "image_url"] if isinstance(content, list) else []
    return [_width(part["image_url"]["url"]) for part in parts]


def _width(data_url: str) -> int:
    head, _, data = data_url.partition(",")
    assert head in ("data:image/png;base64", "data:image/jpeg;base64")
    width: int = pyvips.Image.new_from_buffer(base64.b64decode(data, validate=True), "").width
    return width


class Running:
    """A keeper at work."""

    def __init__(self, database: Database, task: asyncio.Task[None], watch: RunWatch) -> None:
        self.database, self.task, self.watch = database, task, watch

    async def show(self, run_id: UUID) -> Run:
        async with self.database.connection() as connection:
            return await show_run(connection, run_id)

    async def ended(self, run_id: UUID) -> Run:
        async with asyncio.timeout(120):
            return await self.watch.until_ended(run_id)

    async def until(self, run_id: UUID, **facts: Any) -> Run:
        """The run, once it is like this."""

        async def is_so() -> bool:
            run = await self.show(run_id)
            return all(getattr(run, name) == value for name, value in facts.items())

        await wait_until(is_so)
        return await self.show(run_id)


@asynccontextmanager
async def running(database: Database, folder: Path, **settings: Any) -> AsyncIterator[Running]:
    """A keeper until the end of the block, stopped in good order."""
    chosen = Settings.model_validate({"data": folder, **settings})
    agents, watch = Agents(chosen), RunWatch(database)
    keeper = RunKeeper(database, agents, Shrinker(folder), folder / "inputs" / "work")
    await watch.start()
    task = asyncio.create_task(keeper.run())
    try:
        yield Running(database, task, watch)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await watch.close()
        await agents.close()

"""Files that cannot be read for a while, and what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mediamill.engine.dead import retry_job
from tests.conftest import wait_until
from tests.intake.played import Ground

NEVER_SECONDS = 3600


async def until(ground: Ground, file_id: int, state: str, *, error: bool | None = None) -> dict[str, Any]:
    """The file, once it is in this state, with an error or without."""

    async def reached() -> bool:
        found, told = await ground.state(file_id)
        return found == state and error in (None, told is not None)

    await wait_until(reached)
    return await ground.show(file_id)


async def hurry(ground: Ground, file: dict[str, Any]) -> None:
    """Another try now."""
    async with ground.database.transaction() as connection:
        await retry_job(connection, ground.engine, file["job_id"])


def take_away(path: Path, how: str) -> Path:
    """The bytes cannot be read for a while."""
    aside = path.rename(path.with_name("aside"))
    if how == "unreadable":
        path.mkdir()
    return aside


def bring_back(aside: Path, path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    aside.rename(path)

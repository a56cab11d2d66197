"""What can be changed of a library; and pausing it, which stops all work for it."""

from __future__ import annotations

import json

from mediamill.db.connection import Connection
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.libraries.add import check_folder_free, check_mode, check_name, check_path
from mediamill.libraries.look import lock_library
from mediamill.libraries.model import owner_of
from mediamill.libraries.store import queries


async def edit_library(
    connection: Connection,
    slug: str,
    *,
    name: str | None = None,
    path: str | None = None,
    rescan_seconds: int | None = None,
    ignore_previews: bool | None = None,
    sampling_limit: int | None = None,
    mode: str | None = None,
) -> None:
    """What is None stays. `rescan_seconds` 0: it is scanned only when somebody asks for it."""
    folder = None if path is None else await check_path(path)
    number = (await lock_library(connection, slug))["number"]
    if folder is not None:
        await check_folder_free(connection, folder, slug)
    await queries.edit_library.run(
        connection,
        number=number,
        name=None if name is None else check_name(name),
        absolute_path=folder,
        rescan_seconds=rescan_seconds,
        ignore_previews=ignore_previews,
        sampling_limit=sampling_limit,
        sampling_policy=None if mode is None else json.dumps({"mode": check_mode(mode)}),
    )
    await queries.tell.run(connection, number=number)


async def pause_library(connection: Connection, slug: str) -> None:
    """What runs is finished; nothing else begins."""
    await _set_active(connection, slug, active=False)


async def resume_library(connection: Connection, slug: str) -> None:
    """It goes on where it was."""
    await _set_active(connection, slug, active=True)


async def _set_active(connection: Connection, slug: str, *, active: bool) -> None:
    number = (await lock_library(connection, slug))["number"]
    await queries.set_active.run(connection, number=number, active=active)
    await (release_owner if active else hold_owner)(connection, owner_of(number))
    await queries.tell.run(connection, number=number)

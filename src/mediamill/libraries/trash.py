"""A library in the trash: everything of it is hidden at once, and comes back at once."""

from __future__ import annotations

from mediamill.db.connection import Connection
from mediamill.engine.hold import hold_owner, release_owner
from mediamill.errors import ConflictError
from mediamill.libraries.look import lock_library
from mediamill.libraries.model import owner_of
from mediamill.libraries.store import queries


class NotInTrashError(ConflictError):
    """The library is not in the trash."""

    code = "not_in_trash"


class InTrashError(ConflictError):
    """The library is in the trash already."""

    code = "in_trash"


class BeingErasedError(ConflictError):
    """The library is being erased: it cannot be restored any more."""

    code = "being_erased"


async def remove_library(connection: Connection, slug: str) -> None:
    """Into the trash: nothing is deleted yet."""
    row = await lock_library(connection, slug, trash=True)
    if row["deleted_at"] is not None:
        raise InTrashError(fix=f"`mediamill library restore {slug}`, or `mediamill trash empty {slug}`")
    await queries.set_deleted.run(connection, number=row["number"], deleted=True)
    await hold_owner(connection, owner_of(row["number"]))
    await queries.tell.run(connection, number=row["number"])


async def restore_library(connection: Connection, slug: str) -> None:
    """Back, with everything that was in it; a library that was paused is still paused."""
    row = await lock_library(connection, slug, trash=True)
    if row["deleted_at"] is None:
        raise NotInTrashError
    if row["erasing_at"] is not None:
        raise BeingErasedError
    await queries.set_deleted.run(connection, number=row["number"], deleted=False)
    if row["is_active"]:
        await release_owner(connection, owner_of(row["number"]))
    await queries.tell.run(connection, number=row["number"])

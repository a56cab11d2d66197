"""Files that a bridge stages and hands over later, perhaps after days without us: the sweep leaves them alone."""

from __future__ import annotations

from collections.abc import Sequence

from mediamill.db.connection import Connection
from mediamill.staging.store import queries


async def await_file(connection: Connection, guid: str) -> None:
    """A bridge may fetch it. From now on it is no orphan, until its message comes."""
    await queries.await_file.run(connection, guid=guid)


async def take_awaited(connection: Connection, guid: str) -> None:
    """Its message has come, in this transaction, or may not come in."""
    await queries.take_awaited.run(connection, guid=guid)


async def awaited_among(connection: Connection, guids: Sequence[str]) -> set[str]:
    """Those of these that a bridge may still hand over."""
    return {row["guid"] for row in await queries.awaited_files.rows(connection, guids=list(guids))}


async def forget_awaited(connection: Connection) -> None:
    """Those whose message never came."""
    await queries.forget_awaited.run(connection)

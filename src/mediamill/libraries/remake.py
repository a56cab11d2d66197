"""Make again what is there: after other settings of a library, or to read what an older version did not look for.

Each file is read once more. Previews and tags stay until there are new ones; a picture that comes out the same keeps
its tags without being looked at again. A video loses its scenes when its turn comes.
"""

from __future__ import annotations

from typing import Literal

from mediamill.db.connection import Connection
from mediamill.errors import ConflictError
from mediamill.libraries.assets import find_asset
from mediamill.libraries.look import find_library
from mediamill.libraries.store import queries

What = Literal["all", "images", "raw", "videos"]
REMADE_AT_ONCE = 5_000


class NothingToRemakeError(ConflictError):
    """Only what is done or failed can be made again."""

    code = "nothing_to_remake"


async def remake_asset(connection: Connection, asset_id: int) -> None:
    """One asset is processed anew, by what its library's settings are now."""
    found = await find_asset(connection, asset_id)
    if await queries.remake_asset.value(connection, id=asset_id) is None:
        raise NothingToRemakeError(f"asset {asset_id} is {found['status']}: it is being processed already")


async def remake_some(
    connection: Connection, slug: str, what: What = "all", after: int = 0
) -> tuple[int, int | None]:
    """Of the next assets by id, those of the library; how many, and the id to go on after: None at the end."""
    library = (await find_library(connection, slug))["number"]
    row = await queries.remake_batch.row(
        connection, library=library, what=what, after=after, amount=REMADE_AT_ONCE
    )
    assert row is not None
    return row["moved"], row["after"]

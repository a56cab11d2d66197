"""A look at the bucket for those who ask whether it will do: one try of everything, and what is in it by our rows."""

from __future__ import annotations

from typing import Any

from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.storage.objects import BucketPlace, Objects
from mediamill.storage.store import queries


async def examine_bucket(settings: Settings, database: Database | None) -> dict[str, Any]:
    """BucketAwayError or BucketRefusedError with what to mend; with a database, how many files are there."""
    place = BucketPlace.of(settings)
    await Objects(place).examine()
    where = {"bucket": place.name, "server": place.url or f"AWS, {place.region}", "prefix": place.prefix}
    if database is None:
        return where
    return {**where, **await bucket_figures(database)}


async def bucket_figures(database: Database) -> dict[str, Any]:
    """Files, bytes and garbage by the rows."""
    async with database.connection() as connection:
        row = await queries.figures.row(connection)
    return dict(row or {})

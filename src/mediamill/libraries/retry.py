"""Another try for what failed. A video whose job got somewhere gets it again, and resumes from its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from mediamill.db.connection import Connection
from mediamill.engine.dead import requeue_dead
from mediamill.engine.kinds import JobKind, Kinds
from mediamill.engine.rules import Engine
from mediamill.errors import ConflictError
from mediamill.libraries.assets import find_asset
from mediamill.libraries.jobs import take_back
from mediamill.libraries.look import find_library
from mediamill.libraries.model import VIDEO
from mediamill.libraries.store import queries

RETRIED_AT_ONCE = 5_000
VIDEOS = Engine(Kinds([JobKind(VIDEO, on_requeued=take_back)]))


class NothingToRetryError(ConflictError):
    """Only what failed can be tried again."""

    code = "nothing_to_retry"


async def retry_asset(connection: Connection, asset_id: int) -> None:
    """What failed or is poisoned waits again."""
    found = await find_asset(connection, asset_id)
    if found["status"] not in ("failed", "poisoned"):
        raise NothingToRetryError(f"asset {asset_id} is {found['status']}: only what failed is tried again")
    await _retry(connection, [asset_id])


async def retry_failed(connection: Connection, slug: str, amount: int = RETRIED_AT_ONCE) -> int:
    """So many of a library's failed and poisoned ones at once; how many. 0: there are no more."""
    library = (await find_library(connection, slug))["number"]
    failed = await queries.lock_failed.rows(connection, library=library, amount=amount)
    await _retry(connection, [row["id"] for row in failed])
    return len(failed)


async def _retry(connection: Connection, ids: Sequence[int]) -> None:
    resumable = await queries.resumable_jobs.rows(connection, ids=list(ids))
    if resumable:
        with suppress(ConflictError):  # of assets that have moved on: they begin anew like the others
            await requeue_dead(connection, VIDEOS, [row["job_id"] for row in resumable])
    await queries.retry_assets.run(connection, ids=list(ids))

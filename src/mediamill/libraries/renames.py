"""Files under new names: at the end of a scan, what is missing and what is new are laid side by side.

A row that was there before keeps its number, tags and proxies, and takes the new name; the new row goes. A job that
was made for the new row finds none, and what it made is collected.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from functools import partial

from mediamill.db.connection import Connection, Database
from mediamill.libraries.scan_model import ScanCounts
from mediamill.libraries.scan_state import ScanClaim, again_if_deadlocked, hold_scan
from mediamill.libraries.store import queries

AT_ONCE = 5000


async def keep_renamed(database: Database, claim: ScanClaim, counts: ScanCounts, last: str) -> None:
    """All of them, some thousand in a transaction. Cut off, the next run finds those that are left.

    `last`: the folder that the walk ended with.
    """
    if not counts.new or not counts.vanished:
        return
    gone, fresh = await _find(database, claim)
    for start in range(0, len(gone), AT_ONCE):
        old, new = gone[start : start + AT_ONCE].tolist(), fresh[start : start + AT_ONCE].tolist()
        pairs = dict(zip(new, old, strict=True))
        await again_if_deadlocked(partial(_keep_some, database, claim, counts, last, pairs))


async def _keep_some(
    database: Database, claim: ScanClaim, counts: ScanCounts, last: str, pairs: dict[int, int]
) -> None:
    """Counted when it is done for good: a transaction that fails is tried again."""
    async with database.transaction() as connection:
        await hold_scan(connection, claim)
        renamed = await _rename(connection, pairs)
        new, vanished = counts.new - renamed, counts.vanished - renamed
        then = replace(counts, renamed=counts.renamed + renamed, new=new, vanished=vanished)
        told = claim.told(then)
        await queries.note_scan.run(connection, number=claim.number, scan_at=last, counts=told)
    counts.renamed, counts.new, counts.vanished = then.renamed, new, vanished


async def _find(database: Database, claim: ScanClaim) -> tuple[array[int], array[int]]:
    """Their numbers, which may be millions: read by a cursor into plain arrays."""
    gone, fresh = array("q"), array("q")
    statement = queries.renamed_assets
    given = {"library": claim.number, "at": claim.started_at, "newest": claim.newest}
    async with database.transaction() as connection:
        async for row in connection.cursor(statement.sql, *statement.arguments(given), prefetch=AT_ONCE):
            gone.append(row[0])
            fresh.append(row[1])
    return gone, fresh


async def _rename(connection: Connection, pairs: dict[int, int]) -> int:
    names = await queries.take_away_names.rows(connection, ids=list(pairs))
    return await queries.rename_assets.run(
        connection,
        ids=[pairs[row["id"]] for row in names],
        folders=[row["folder"] for row in names],
        paths=[row["rel_path"] for row in names],
    )

"""What a file gets from its analysis: proposals that wait for a person, and a place in the search."""

from __future__ import annotations

import json
from collections.abc import Sequence

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.intake.findable import note_findable
from mediamill.intake.model import PERSON
from mediamill.intake.store import queries


async def settle_files(connection: Connection, analysis: Record, file_ids: Sequence[int]) -> None:
    """Of a finished analysis all there is; of another nothing yet, but those who watch are told."""
    if analysis["state"] == "completed":
        await replace_proposals(connection, analysis, file_ids)
        for file_id in file_ids:
            await note_findable(connection, file_id)
    await queries.tell_files.run(connection, ids=list(file_ids))


async def replace_proposals(connection: Connection, analysis: Record, file_ids: Sequence[int]) -> None:
    """Only those that wait. What a person entered, accepted or rejected stays, and is not proposed again."""
    result = json.loads(analysis["result"])
    fields, unmapped = result.get("fields", []), result.get("unmapped", [])
    await queries.drop_pending.run(connection, files=list(file_ids), person=PERSON)
    await queries.put_proposals.run(
        connection,
        files=list(file_ids),
        fields=json.dumps(fields),
        origin=analysis["extractor"],
        person=PERSON,
    )
    await queries.drop_findings.run(connection, files=list(file_ids))
    await queries.put_findings.run(
        connection, files=list(file_ids), findings=json.dumps(unmapped), origin=analysis["extractor"]
    )

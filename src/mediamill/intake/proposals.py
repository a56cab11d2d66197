"""Proposals: what was extracted waits for a person, who accepts it, edits it or rejects it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.intake.model import (
    DECISIONS,
    PERSON,
    BadListError,
    UnknownFieldError,
    UnknownFileError,
    UnknownProposalError,
)
from mediamill.intake.pages import check_amount, read_place, write_place
from mediamill.intake.projects import find_project
from mediamill.intake.store import queries
from mediamill.intake.values import canonical


async def list_proposals(
    connection: Connection,
    slug: str,
    *,
    state: str | None = "pending",
    file_id: int | None = None,
    field: str | None = None,
    after: str | None = None,
    amount: int = 100,
) -> dict[str, Any]:
    """Of a project, file by file; `state=None`: all. `next` goes on where this page ends; None at the end."""
    if state is not None and state not in DECISIONS:
        raise BadListError(f"there is no state {state[:50]!r}", fix=f"there are {', '.join(DECISIONS)}")
    amount = check_amount(amount)
    project = await find_project(connection, slug)
    after_file, after_id = read_place(after)
    rows = await queries.list_proposals.rows(
        connection,
        project=project["id"],
        file=file_id,
        state=state,
        field=field,
        after_file=after_file,
        after=after_id,
        amount=amount + 1,
    )
    shown = rows[:amount]
    return {
        "proposals": [plain_proposal(row) for row in shown],
        "next": write_place(shown[-1]["file_id"], shown[-1]["id"]) if len(rows) > amount else None,
    }


async def accept(connection: Connection, proposal_id: int, value: str | None = None) -> dict[str, Any]:
    """It is right, or with another `value` it is. A decision can be changed; the proposal as it is then."""
    row = await _lock(connection, proposal_id)
    edited = None if value is None else canonical(row["type"], value)
    return await _decide(connection, row, "accepted", None if edited == row["value"] else edited)


async def reject(connection: Connection, proposal_id: int) -> dict[str, Any]:
    """It is wrong, and is not proposed for this file again."""
    return await _decide(connection, await _lock(connection, proposal_id), "rejected")


async def reopen(connection: Connection, proposal_id: int) -> dict[str, Any]:
    """As if nobody had decided."""
    return await _decide(connection, await _lock(connection, proposal_id), "pending")


async def enter_value(connection: Connection, file_id: int, field: str, value: str) -> dict[str, Any]:
    """What a person knows, found or not: accepted at once, in place of what the person entered before."""
    if await queries.lock_file.row(connection, id=file_id) is None:
        raise UnknownFileError(f"there is no file {file_id}", fix="mediamill intake files PROJECT lists them")
    wanted = await queries.field_of_file.row(connection, file=file_id, field=field)
    if wanted is None:
        raise UnknownFieldError(
            f"this project has no field {field[:80]!r}", fix="mediamill intake fields PROJECT lists them"
        )
    told = canonical(wanted["type"], value)
    given = {"file": file_id, "field": field, "value": told, "unit": wanted["unit"], "origin": PERSON}
    entered = await queries.change_entered.value(connection, **given)
    if entered is None:
        entered = await queries.add_entered.value(connection, **given)
    await queries.tell_files.run(connection, ids=[file_id])
    (shown,) = await queries.show_proposal.rows(connection, id=entered)
    return plain_proposal(shown)


async def accept_all(
    connection: Connection, slug: str, *, file_id: int | None = None, minimum_confidence: float = 0.0
) -> int:
    """Of each field that has no accepted value yet the likeliest one, if it is as likely as that. How many."""
    project = await find_project(connection, slug)
    if file_id is not None:
        file = await queries.find_file.row(connection, id=file_id)
        if file is None or file["project_id"] != project["id"]:
            raise UnknownFileError(f"there is no file {file_id} in {slug}")
    rows = await queries.accept_best.rows(
        connection, project=project["id"], file=file_id, least=minimum_confidence
    )
    await queries.tell_files.run(connection, ids=sorted({row["file_id"] for row in rows}))
    return len(rows)


def plain_proposal(row: Record) -> dict[str, Any]:
    """For people and scripts."""
    return plain_found({name: value for name, value in row.items() if name != "type"})


def plain_found(row: Record | Mapping[str, Any]) -> dict[str, Any]:
    """A value with its place."""
    box = row["box"]
    return {**dict(row), "confidence": round(row["confidence"], 4), "box": None if box is None else list(box)}


async def _lock(connection: Connection, proposal_id: int) -> Record:
    row = await queries.lock_proposal.row(connection, id=proposal_id)
    if row is None:
        raise UnknownProposalError(
            f"there is no proposal {proposal_id} (any more)",
            fix="mediamill intake proposals PROJECT lists them",
        )
    return row


async def _decide(
    connection: Connection, row: Record, state: str, edited: str | None = None
) -> dict[str, Any]:
    await queries.decide_proposal.run(connection, id=row["id"], state=state, edited=edited)
    await queries.tell_files.run(connection, ids=[row["file_id"]])
    (shown,) = await queries.show_proposal.rows(connection, id=row["id"])
    return plain_proposal(shown)

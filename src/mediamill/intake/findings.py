"""What was found and fits no field: a person makes a field of it, for all files of the project, or drops it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.errors import ConflictError
from mediamill.intake.fields import read_fields
from mediamill.intake.model import Field, UnknownFieldError, UnknownFindingError, check_fields
from mediamill.intake.projects import lock_project
from mediamill.intake.proposals import accept
from mediamill.intake.store import queries
from mediamill.intake.values import BadValueError, canonical

NAME_CHARACTERS = 60


class KnownValueError(ConflictError):
    """That value of that field was decided about already."""

    code = "known_value"


async def make_field(connection: Connection, finding_id: int, field: str | None = None) -> dict[str, Any]:
    """The value is that of `field`, or of a new field with its label; what other files have of it waits for review.

    The proposal of this file as it is then: accepted.
    """
    finding = await _find(connection, finding_id)
    project = await lock_project(connection, finding["slug"])
    wanted = await _field_for(connection, project["id"], finding, field)
    canonical(wanted.type, finding["value"])  # before anything is changed
    rows = await queries.take_findings.rows(connection, project=project["id"], label=finding["label"])
    added = {row["id"]: await _propose(connection, row, wanted) for row in rows}
    await queries.tell_files.run(connection, ids=sorted({row["file_id"] for row in rows}))
    mine = added.get(finding_id)
    if mine is None:
        raise KnownValueError(f"{wanted.label} of this file is known: {finding['value'][:80]}")
    return await accept(connection, mine)


async def drop_finding(connection: Connection, finding_id: int) -> str:
    """Nobody wants to know this label in this project: neither here, nor in another file, nor later. The label."""
    finding = await _find(connection, finding_id)
    project = await lock_project(connection, finding["slug"])
    await queries.drop_label.run(connection, project=project["id"], label=finding["label"])
    rows = await queries.take_findings.rows(connection, project=project["id"], label=finding["label"])
    await queries.tell_files.run(connection, ids=sorted({row["file_id"] for row in rows}))
    return str(finding["label"])


async def _find(connection: Connection, finding_id: int) -> Record:
    finding = await queries.find_finding.row(connection, id=finding_id)
    if finding is None:
        raise UnknownFindingError(f"there is no finding {finding_id} (any more)")
    return finding


async def _field_for(connection: Connection, project_id: int, finding: Record, name: str | None) -> Field:
    fields = await read_fields(connection, project_id)
    if name is not None:
        known = next((field for field in fields if field.name == name), None)
        if known is None:
            raise UnknownFieldError(f"this project has no field {name[:80]!r}")
        return known
    fresh = Field(
        _free_name(finding["label"], fields), finding["type"], finding["label"], unit=finding["unit"]
    )
    check_fields([*fields, fresh])
    await queries.add_field.run(
        connection,
        project=project_id,
        name=fresh.name,
        type=fresh.type,
        label=fresh.label,
        unit=fresh.unit,
    )
    return fresh


async def _propose(connection: Connection, row: Record, field: Field) -> int | None:
    """None: what was found cannot be the value of this field, or is known."""
    try:
        value = canonical(field.type, row["value"])
    except BadValueError:
        return None
    names = ("raw", "unit", "confidence", "page", "box", "quote", "origin")
    told = {name: row[name] for name in names}
    found: int | None = await queries.add_found.value(
        connection, file=row["file_id"], field=field.name, value=value, **told
    )
    return found


def name_of(label: str) -> str:
    """`Invoice number` as invoice_number."""
    plain = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_0123456789")[:NAME_CHARACTERS] or label


def _free_name(label: str, fields: Sequence[Field]) -> str:
    """A name that no field has; of a label without Latin letters `field`."""
    taken = {field.name for field in fields}
    name = name_of(label) if re.match(r"[a-z]", name_of(label)) else "field"
    return next(each for each in (name, *(f"{name[:55]}_{n}" for n in range(2, 500))) if each not in taken)

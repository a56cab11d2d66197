"""What was found out, as a table: a row for each file, a column for each field. Batch by batch, however many."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from mediamill.db.connection import Connection
from mediamill.errors import InvalidError
from mediamill.intake.fields import read_fields
from mediamill.intake.model import PERSON, Field
from mediamill.intake.projects import find_project
from mediamill.intake.store import queries
from mediamill.intake.values import is_number

WHICH = ("accepted", "all")
WITH_UNIT = ("number", "amount")
BATCH = 500
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


class BadExportError(InvalidError):
    """Either accepted values can be exported, or all."""

    code = "bad_export"


async def export_rows(
    connection: Connection, slug: str, *, which: str = "accepted"
) -> AsyncIterator[dict[str, Any]]:
    """`which="all"`: where nothing is accepted, the likeliest of what waits. `fields` has what there is of each."""
    if which not in WHICH:
        raise BadExportError(f"{which[:50]!r} cannot be exported", fix=f"there are {', '.join(WHICH)}")
    project = await find_project(connection, slug)
    names = [field.name for field in await read_fields(connection, project["id"])]
    after = 0
    while rows := await queries.export_files.rows(
        connection, project=project["id"], after=after, batch=BATCH
    ):
        after = rows[-1]["id"]
        values = await queries.best_values.rows(
            connection, files=[row["id"] for row in rows], pending=which == "all", person=PERSON
        )
        found = {(value["file_id"], value["field"]): value for value in values}
        for row in rows:
            fields = {name: dict(found[row["id"], name]) for name in names if (row["id"], name) in found}
            yield {
                "id": row["id"],
                "file": row["name"],
                "state": row["state"],
                "fields": {name: _plain(value) for name, value in fields.items()},
            }


async def write_csv(connection: Connection, slug: str, *, which: str = "accepted") -> AsyncIterator[str]:
    """Line by line, the names of the columns first. Nothing in it is a formula for whoever opens it."""
    project = await find_project(connection, slug)
    fields = await read_fields(connection, project["id"])
    yield _line(["file", "state", *(name for field in fields for name in _columns(field))])
    async for row in export_rows(connection, slug, which=which):
        values = [cell for field in fields for cell in _cells(field, row["fields"].get(field.name))]
        yield _line([_safe(row["file"]), row["state"], *values])


async def write_json(connection: Connection, slug: str, *, which: str = "accepted") -> AsyncIterator[str]:
    """One list, an object for each file, with units, confidence and page."""
    between = "[\n"
    async for row in export_rows(connection, slug, which=which):
        yield between + json.dumps(row, ensure_ascii=False)
        between = ",\n"
    yield "[]\n" if between == "[\n" else "\n]\n"


def _plain(value: Mapping[str, Any]) -> dict[str, Any]:
    names = ("value", "unit", "confidence", "page", "state", "edited")
    return {**{name: value[name] for name in names}, "confidence": round(value["confidence"], 4)}


def _columns(field: Field) -> list[str]:
    """A number has its unit beside it: without its currency an amount says nothing."""
    return [field.name, f"{field.name}_unit"] if field.type in WITH_UNIT else [field.name]


def _cells(field: Field, found: Mapping[str, Any] | None) -> list[str]:
    """A number stays one, if it is; anything else is guarded."""
    value = "" if found is None else str(found["value"])
    if field.type not in WITH_UNIT:
        return [_safe(value)]
    return [value if is_number(value) else _safe(value), "" if found is None else _safe(str(found["unit"]))]


def _safe(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(cells: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()

"""What was found out in a project as a table on a page: the same rows as the export, sorted by a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from mediamill.db.connection import Connection
from mediamill.intake.export import WITH_UNIT, export_rows
from mediamill.intake.values import is_number

MOST_ROWS = 1_000
FILE = "file"


@dataclass(frozen=True, slots=True)
class Table:
    """`is_cut`: there are more files than are shown."""

    rows: Sequence[dict[str, Any]]
    is_cut: bool


async def read_table(
    connection: Connection, slug: str, fields: Sequence[dict[str, Any]], *, by: str, down: bool, which: str
) -> Table:
    """Files that have a value. Without a column in their order; what a file has no value of comes last."""
    rows: list[dict[str, Any]] = []
    async for row in export_rows(connection, slug, which=which):
        if row["fields"] and len(rows) <= MOST_ROWS:
            rows.append(row)
    types = {field["name"]: field["type"] for field in fields}
    if by == FILE:
        rows.sort(key=lambda row: row["file"].casefold(), reverse=down)
    elif by in types:
        there = [row for row in rows if by in row["fields"]]
        there.sort(key=lambda row: _key(row["fields"][by]["value"], types[by]), reverse=down)
        rows = [*there, *(row for row in rows if by not in row["fields"])]
    return Table(rows[:MOST_ROWS], len(rows) > MOST_ROWS)


def _key(value: str, type_: str) -> tuple[Decimal, str]:
    if type_ in WITH_UNIT and is_number(value):
        return Decimal(value), ""
    return Decimal(0), value.casefold()

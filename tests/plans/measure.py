"""EXPLAIN of a statement as the engine runs it: prepared, with its parameters, on a connection of its own settings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mediamill.db.connection import RawConnection
from mediamill.db.queries import Query

HOT = ("jobs", "finished_jobs")


@dataclass(frozen=True)
class Measured:
    """What one run of a statement cost. `examined`: rows of the hot tables that were looked at, taken or not."""

    returned: int
    examined: int
    buffers: int
    whole_scans: list[str]
    plan: str


async def measure(connection: RawConnection, query: Query, **given: Any) -> Measured:
    """Run it under EXPLAIN, in a transaction that is rolled back."""
    arguments = ", ".join(map(literal, query.arguments(given)))
    execute = f"execute measured({arguments})" if arguments else "execute measured"
    await connection.execute(f"prepare measured as {query.sql.rstrip().rstrip(';')}")
    transaction = connection.transaction()
    await transaction.start()
    try:
        text = await connection.fetchval(
            f"explain (analyze, buffers, timing off, costs off, format json) {execute}"
        )
    finally:
        await transaction.rollback()
        await connection.execute("deallocate measured")
    plan = json.loads(text)[0]["Plan"]
    scans = [node for node in nodes(plan) if node.get("Relation Name") in HOT and "Scan" in node["Node Type"]]
    return Measured(
        returned=round(plan["Actual Rows"] * plan["Actual Loops"]),
        examined=sum(map(rows_examined, scans)),
        buffers=plan["Shared Hit Blocks"] + plan["Shared Read Blocks"],
        whole_scans=[
            f"{node['Node Type']} {node['Relation Name']}"
            for node in scans
            if node["Node Type"] == "Seq Scan"
        ],
        plan=text,
    )


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def rows_examined(scan: dict[str, Any]) -> int:
    rows = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
    return round(sum(float(scan.get(name, 0)) for name in rows) * float(scan["Actual Loops"]))


def literal(value: Any) -> str:
    """A parameter as text that PostgreSQL reads as the type that the statement expects."""
    if value is None:
        return "null"
    if isinstance(value, list):
        value = "{" + ",".join("null" if item is None else str(item) for item in value) + "}"
    return "'" + str(value).replace("'", "''") + "'"

"""The frame of the plans of a feature: its tables filled, each statement explained once in each way of planning."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from mediamill.db.connection import connect
from mediamill.db.queries import Query
from tests.conftest import admin_url, clone_template, database_url, drop_database, run_sql
from tests.plans.measure import literal, nodes, rows_examined

MODES = ("force_generic_plan", "force_custom_plan")
Plans = dict[tuple[int, str], str]  # by the number of the case and the way of planning


@dataclass(frozen=True)
class Case:
    """A statement, what it is given, and how many rows it may look at. `after`: what its transaction begins with."""

    query: Query
    given: dict[str, Any]
    examines: int
    name: str = ""
    after: str = "select"


def each(cases: Sequence[Case]) -> pytest.MarkDecorator:
    """Marks a test that takes `number` and `mode`."""
    return pytest.mark.parametrize(
        ("number", "mode"),
        [
            pytest.param(number, mode, id=f"{case.query.name} {case.name}".strip() + f", {mode}")
            for mode in MODES
            for number, case in enumerate(cases)
        ],
    )


@contextmanager
def explained(
    server_url: str, fill: Sequence[str], tables: Sequence[str], cases: Sequence[Case]
) -> Iterator[Plans]:
    """The plans, on a database of their own."""
    admin, name = admin_url(server_url), f"plans_of_{tables[0]}_{os.getpid()}"
    # Every row is looked at for the statistics: with a sample, plans would depend on chance.
    whole = f"alter database {name} set default_statistics_target = 1000"
    asyncio.run(run_sql(admin, clone_template(name), whole))
    try:
        yield asyncio.run(_explain(database_url(server_url, name), fill, tables, cases))
    finally:
        asyncio.run(run_sql(admin, drop_database(name)))


async def _explain(url: str, fill: Sequence[str], tables: Sequence[str], cases: Sequence[Case]) -> Plans:
    await run_sql(url, *fill, *(f"vacuum (analyze) {table}" for table in tables))
    plans: Plans = {}
    for mode in MODES:
        connection = await connect(url, plan_cache_mode=mode)
        for number, case in enumerate(cases):
            arguments = ", ".join(map(literal, case.query.arguments(case.given)))
            execute = f"execute measured({arguments})" if arguments else "execute measured"
            await connection.execute(f"prepare measured as {case.query.sql.rstrip().rstrip(';')}")
            transaction = connection.transaction()
            await transaction.start()
            await connection.execute(case.after)
            plans[number, mode] = await connection.fetchval(
                f"explain (analyze, timing off, costs off, format json) {execute}"
            )
            await transaction.rollback()
            await connection.execute("deallocate measured")
        await connection.close()
    return plans


def check_plan(text: str, tables: Sequence[str], examines: int) -> None:
    """No table is scanned, and few rows are looked at."""
    scans = [
        node
        for node in nodes(json.loads(text)[0]["Plan"])
        if node.get("Relation Name") in tables and "Scan" in node["Node Type"]
    ]
    assert [node["Node Type"] for node in scans if node["Node Type"] == "Seq Scan"] == [], text
    assert sum(map(rows_examined, scans)) <= 2 * examines + 2, text

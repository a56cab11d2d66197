"""The tables of docs/how-to/pools-for-media.md name the pools that a new mill has."""

from __future__ import annotations

import re
from pathlib import Path

from mediamill.db.connection import Database
from mediamill.engine.pools import list_pools

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "pools-for-media.md"


async def test_the_tables_name_the_pools_of_a_new_mill_with_their_figures(database: Database) -> None:
    async with database.connection() as connection:
        pools = {pool.name: pool for pool in await list_pools(connection)}
    rows = re.findall(
        r"^\| `(\w+)` \| (.*) \|$", PAGE.read_text().split("## Names of processors")[0], re.MULTILINE
    )
    assert {name for name, _ in rows} == set(pools)
    for name, cells in rows:
        assert re.search(rf"\| {pools[name].concurrency} \|", cells), name
        limit = pools[name].timeout_seconds
        said = (
            f"{limit:g} s" if limit < 60 else f"{limit / 60:g} min" if limit < 3600 else f"{limit / 3600:g} h"
        )
        assert f"| {said} |" in cells, name
        if pools[name].processor is not None:
            assert f"{pools[name].memory_bytes >> 30} GiB" in cells, name

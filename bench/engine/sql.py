"""SQL from the runner's synchronous code, on a connection of its own."""

from __future__ import annotations

import asyncio

import asyncpg


def execute(url: str, *statements: str) -> None:
    """Run statements, each in its own transaction (vacuum asks for that)."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


def fetch_row(url: str, query: str) -> asyncpg.Record:
    """The single row that the query gives."""

    async def run() -> asyncpg.Record:
        connection = await asyncpg.connect(url)
        try:
            row = await connection.fetchrow(query)
        finally:
            await connection.close()
        assert row is not None
        return row

    return asyncio.run(run())


def fetch_number(url: str, query: str) -> int:
    """The single number that the query gives."""
    return int(fetch_row(url, query)[0])

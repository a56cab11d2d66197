"""A database as somebody else's PostgreSQL has it: an ordinary role owns it, and there is no pgvector to begin with."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.conftest import admin_url, as_admin, database_url, drop_database, run_sql

PASSWORD = "plain"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class PlainDatabase:
    """`url` is for the ordinary role."""

    url: str
    as_superuser: str
    name: str

    async def install_pgvector(self) -> None:
        """The server has it from now on; creating it takes a superuser."""
        await run_sql(self.as_superuser, f"alter database {self.name} reset extension_control_path")


@asynccontextmanager
async def plain_database(server_url: str) -> AsyncIterator[PlainDatabase]:
    """On the server of the run, which looks for extensions where there are none."""
    name = f"plain_{os.getpid()}_{next(_numbers)}"
    admin = admin_url(server_url)
    await run_sql(
        admin,
        f"create role {name} login password '{PASSWORD}'",
        f"create database {name} owner {name} template template0",
        f"alter database {name} set extension_control_path = '/nowhere'",
    )
    there = database_url(server_url, name)
    try:
        url = _as_role(there, name)
        yield PlainDatabase(url, as_admin(server_url, there), name)
    finally:
        await run_sql(admin, drop_database(name), f"drop role {name}")


def _as_role(url: str, role: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{role}:{PASSWORD}@{rest.rpartition('@')[2]}"

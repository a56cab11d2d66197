"""The catalog of a project: the fields that are wanted of each of its files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from mediamill.db.connection import Connection
from mediamill.intake.model import Field, UnknownProjectError, check_fields
from mediamill.intake.store import queries


async def set_fields(connection: Connection, slug: str, fields: Sequence[Field]) -> None:
    """The whole catalog, in this order. Files that were analysed with another one are outdated, and stay."""
    catalog = check_fields(fields)
    project = await queries.lock_project.row(connection, slug=slug)
    if project is None:
        raise UnknownProjectError(
            f"there is no project {slug[:100]!r}", fix="mediamill intake list shows them"
        )
    await put_fields(connection, project["id"], catalog)


async def put_fields(connection: Connection, project_id: int, fields: Sequence[Field]) -> None:
    """In place of those that were there."""
    await queries.drop_fields.run(connection, project=project_id)
    await queries.put_fields.run(
        connection,
        project=project_id,
        names=[field.name for field in fields],
        types=[field.type for field in fields],
        labels=[field.label for field in fields],
        descriptions=[field.description for field in fields],
        units=[field.unit for field in fields],
        categories=[json.dumps(field.categories) for field in fields],
    )


async def list_fields(connection: Connection, project_id: int) -> list[dict[str, Any]]:
    """As they are shown."""
    return [dict(row) for row in await queries.list_fields.rows(connection, project=project_id)]


async def read_fields(connection: Connection, project_id: int) -> list[Field]:
    """As they are worked with."""
    return [Field(**field) for field in await list_fields(connection, project_id)]

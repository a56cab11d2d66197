"""A file comes in: its bytes to the one place of their content, its row and perhaps a job in one transaction.

The bytes are put in place inside that transaction, under the lock of their content: the sweep, which takes the same
lock, never removes what is about to be named.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any

from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.model import Priority
from mediamill.intake.analyse import find_analysis, lock_content, wish_of
from mediamill.intake.attach import settle_files
from mediamill.intake.categories import category_by_rules
from mediamill.intake.look import show_file
from mediamill.intake.model import clean_category, clean_file_name
from mediamill.intake.projects import find_project, share_project
from mediamill.intake.receive import Arrived, open_regular, read_chunks, receive_file
from mediamill.intake.store import queries
from mediamill.settings import Settings
from mediamill.storage.choose import storage_of


async def take_in(
    database: Database,
    enqueuer: Enqueuer,
    settings: Settings,
    slug: str,
    name: str,
    chunks: AsyncIterable[bytes],
    *,
    announced_bytes: int | None = None,
    source: str = "upload",
    category: str = "",
    priority: Priority = Priority.NORMAL,
) -> dict[str, Any]:
    """A stream becomes a file of the project; the file as `show_file` tells it."""
    async with database.connection() as connection:
        await find_project(connection, slug)  # before gigabytes are read for nothing
    async with receive_file(settings, chunks, announced_bytes) as arrived:
        async with database.transaction() as connection:
            file_id = await add_arrived(
                connection, enqueuer, settings, slug, name, arrived, source, category, priority
            )
        async with database.connection() as connection:
            return await show_file(connection, settings, file_id)


async def take_file(
    database: Database,
    enqueuer: Enqueuer,
    settings: Settings,
    slug: str,
    path: Path,
    *,
    name: str | None = None,
    source: str = "upload",
    category: str = "",
    priority: Priority = Priority.NORMAL,
) -> dict[str, Any]:
    """The same for a file of this machine, which is only read."""
    descriptor = await asyncio.to_thread(open_regular, path)
    try:
        return await take_in(
            database,
            enqueuer,
            settings,
            slug,
            path.name if name is None else name,
            read_chunks(descriptor),
            announced_bytes=os.fstat(descriptor).st_size,
            source=source,
            category=category,
            priority=priority,
        )
    finally:
        os.close(descriptor)


async def add_arrived(
    connection: Connection,
    enqueuer: Enqueuer,
    settings: Settings,
    slug: str,
    name: str,
    arrived: Arrived,
    source: str,
    category: str = "",
    priority: Priority = Priority.NORMAL,
) -> int:
    """Row, and job or what the twin has. Two that arrive at once come one after the other: the second is the twin."""
    name = clean_file_name(name)
    await lock_content(connection, arrived.content.sha256)
    project = await share_project(connection, slug)
    await arrived.put_in_place(connection, storage_of(settings))
    said = clean_category(category) if category else category_by_rules(project["category_rules"], name)
    wish = await wish_of(connection, settings, project["id"], name, said)
    analysis = await find_analysis(connection, enqueuer, arrived.content, wish, priority=priority)
    file_id: int = await queries.add_file.value(
        connection,
        project=project["id"],
        analysis=analysis["id"],
        name=name,
        source=source,
        category=said,
        category_by=("person" if category else "rule") if said else None,
    )
    await settle_files(connection, analysis, [file_id])
    return file_id

"""Projects: a name, the fields that are wanted of its files, and perhaps a folder that is watched."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.files import expand
from mediamill.intake.fields import list_fields, put_fields
from mediamill.intake.model import (
    DESCRIPTION_CHARACTERS,
    NAME_CHARACTERS,
    STATES,
    BadProjectError,
    Field,
    ProjectExistsError,
    UnknownProjectError,
    check_fields,
    check_slug,
    make_slug,
)
from mediamill.intake.orphans import drop_orphans
from mediamill.intake.store import queries
from mediamill.search.entries import drop_entries_under

ANSWER_SECONDS = 5.0


async def add_project(
    connection: Connection,
    name: str,
    *,
    slug: str | None = None,
    description: str = "",
    fields: Sequence[Field] = (),
    watch_path: str | None = None,
) -> str:
    """The slug of the new project."""
    name, catalog = check_name(name), check_fields(fields)
    slug = make_slug(name) if slug is None else check_slug(slug)
    project_id = await queries.add_project.value(
        connection,
        slug=slug,
        name=name,
        description=check_description(description),
        watch_path=await check_folder(watch_path) if watch_path else None,
    )
    if project_id is None:
        raise ProjectExistsError(f"there is a project {slug} already", fix="choose another name")
    await put_fields(connection, project_id, catalog)
    return slug


async def edit_project(
    connection: Connection,
    slug: str,
    *,
    name: str | None = None,
    description: str | None = None,
    watch_path: str | None = None,
) -> None:
    """What is given is changed; an empty `watch_path` ends the watching."""
    project = await lock_project(connection, slug)
    folder = await check_folder(watch_path) if watch_path else None
    moved = watch_path is not None and folder != project["watch_path"]
    await queries.edit_project.run(
        connection,
        id=project["id"],
        name=None if name is None else check_name(name),
        description=None if description is None else check_description(description),
        watch_given=moved,
        watch_path=folder,
    )
    if moved:
        await queries.forget_watched.run(connection, project=project["id"])


async def delete_project(connection: Connection, slug: str) -> None:
    """With all its files. What files of other projects share with them stays; bytes that nobody names are swept."""
    project = await lock_project(connection, slug)
    shared = [row["id"] for row in await queries.analyses_of_project.rows(connection, project=project["id"])]
    await queries.lock_analyses.rows(connection, ids=shared)
    await queries.delete_project.run(connection, id=project["id"])
    await drop_orphans(connection, shared)
    await drop_entries_under(connection, "file", str(project["id"]))


async def list_projects(connection: Connection) -> list[dict[str, Any]]:
    """By name, each with its counts."""
    return await _counted(connection, await queries.list_projects.rows(connection, slug=None))


async def show_project(connection: Connection, slug: str) -> dict[str, Any]:
    """One of them, with its fields."""
    project = await find_project(connection, slug)
    (told,) = await _counted(connection, [project])
    return {**told, "fields": await list_fields(connection, project["id"])}


async def find_project(connection: Connection, slug: str) -> Record:
    """The row."""
    return _known(await queries.find_project.row(connection, slug=slug), slug)


async def share_project(connection: Connection, slug: str) -> Record:
    """The row, which stays until the transaction ends."""
    return _known(await queries.share_project.row(connection, slug=slug), slug)


async def lock_project(connection: Connection, slug: str) -> Record:
    """The row, to be changed: nothing is added to it meanwhile."""
    return _known(await queries.lock_project.row(connection, slug=slug), slug)


def _known(row: Record | None, slug: str) -> Record:
    if row is None:
        raise UnknownProjectError(
            f"there is no project {slug[:100]!r}", fix="mediamill intake list shows them"
        )
    return row


async def _counted(connection: Connection, rows: Sequence[Record]) -> list[dict[str, Any]]:
    ids = [row["id"] for row in rows]
    counts: dict[int, dict[str, int]] = {id_: dict.fromkeys(STATES, 0) for id_ in ids}
    for row in await queries.count_files.rows(connection, projects=ids):
        counts[row["project_id"]][row["state"]] = row["files"]
    waiting = {
        row["project_id"]: row["proposals"]
        for row in await queries.count_pending.rows(connection, projects=ids)
    }
    return [
        {
            **dict(row),
            "category_rules": json.loads(row["category_rules"]),
            "counts": counts[row["id"]],
            "pending_proposals": waiting.get(row["id"], 0),
        }
        for row in rows
    ]


def check_name(name: str) -> str:
    """What it is called, in one line."""
    plain = " ".join(name.split())
    if not plain or len(plain) > NAME_CHARACTERS or not plain.isprintable():
        raise BadProjectError(f"a project's name has 1 to {NAME_CHARACTERS} printable characters")
    return plain


def check_description(text: str) -> str:
    """Some words on it, in as many lines as one likes."""
    plain = text.strip().encode("utf-8", "replace").decode()
    if len(plain) > DESCRIPTION_CHARACTERS or "\0" in plain:
        raise BadProjectError(f"a description has at most {DESCRIPTION_CHARACTERS} characters, and no NUL")
    return plain


async def check_folder(path: str) -> str:
    """A folder of this machine, by its absolute path or below `~`. One that does not answer keeps nobody waiting."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise BadProjectError("the path of the folder must be UTF-8") from None
    path = expand(path)
    if not path.startswith("/") or "\0" in path:
        raise BadProjectError(f"{path[:200]!r} is no absolute path")
    folder = str(PurePosixPath(path))
    there = False
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            there = await asyncio.to_thread(Path(folder).is_dir)
    except TimeoutError:
        pass
    if not there:
        raise BadProjectError(f"{folder} is no folder that can be seen from here", fix="is it mounted?")
    return folder

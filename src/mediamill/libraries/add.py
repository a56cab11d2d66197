"""A library is added: a name and a folder. Nothing is read before it is scanned."""

from __future__ import annotations

import json
import os
from typing import Any

from mediamill.db.connection import Connection
from mediamill.files import expand
from mediamill.libraries.model import (
    MODES,
    NAME_CHARACTERS,
    BadLibraryError,
    LibraryExistsError,
    LibraryInTrashError,
    make_slug,
)
from mediamill.libraries.reach import Reach
from mediamill.libraries.store import queries

ANSWER_SECONDS = 5.0


async def add_library(
    connection: Connection,
    name: str,
    path: str,
    *,
    rescan_seconds: int | None = None,
    ignore_previews: bool = False,
    sampling_limit: int = 100,
    mode: str = "scenes",
) -> str:
    """The slug of the new library."""
    name, slug = check_name(name), make_slug(name)
    folder, policy = await check_path(path), json.dumps({"mode": check_mode(mode)})
    await _check_free(connection, slug, folder)
    number = await queries.add_library.value(
        connection,
        slug=slug,
        name=name,
        absolute_path=folder,
        rescan_seconds=rescan_seconds,
        ignore_previews=ignore_previews,
        sampling_limit=sampling_limit,
        sampling_policy=policy,
    )
    if number is None:  # somebody was quicker
        raise LibraryExistsError(f"there is a library {slug} already")
    await queries.tell.run(connection, number=number)
    return slug


async def check_path(path: str) -> str:
    """A folder of this machine, by its absolute path. One on a network that does not answer keeps nobody waiting."""
    folder = _spelled(path)
    if not await Reach(ANSWER_SECONDS).is_there(folder):
        raise BadLibraryError(f"{path} is no folder that can be seen from here", fix="is it mounted?")
    return folder


def _spelled(path: str) -> str:
    path = expand(path)
    if not path.startswith("/") or "\0" in path:
        raise BadLibraryError(f"{path!r} is no absolute path")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise BadLibraryError("the path of the folder must be UTF-8") from None
    return os.path.normpath(path)


def check_mode(mode: str) -> str:
    """How videos are sampled."""
    if mode not in MODES:
        raise BadLibraryError(f"videos are sampled by {' or '.join(MODES)}, not by {mode!r}")
    return mode


def check_name(name: str) -> str:
    """What it is called, in one line."""
    plain = " ".join(name.split())
    if not plain or len(plain) > NAME_CHARACTERS or not plain.isprintable():
        raise BadLibraryError(f"a library's name has 1 to {NAME_CHARACTERS} printable characters")
    return plain


async def _check_free(connection: Connection, slug: str, folder: str) -> None:
    taken: Any = await queries.find_library.row(connection, slug=slug)
    if taken is not None and taken["erasing_at"] is not None:
        raise LibraryInTrashError(
            f"a library {slug} is being erased", fix="wait until it is gone, or choose another name"
        )
    if taken is not None and taken["deleted_at"] is not None:
        raise LibraryInTrashError(
            f"a library {slug} is in the trash",
            fix=f"`mediamill library restore {slug}` brings it back; or choose another name",
        )
    if taken is not None:
        raise LibraryExistsError(f"there is a library {slug} already", fix="choose another name")
    await check_folder_free(connection, folder, slug)


async def check_folder_free(connection: Connection, folder: str, slug: str) -> None:
    """Of another library; one that is being erased has no folder any more."""
    same = await queries.find_by_path.row(connection, absolute_path=folder, slug=slug)
    if same is not None:
        raise LibraryExistsError(
            f"{folder} is the folder of the library {same['slug']}",
            fix=f"`mediamill library restore {same['slug']}`" if same["deleted_at"] else "scan that one",
        )

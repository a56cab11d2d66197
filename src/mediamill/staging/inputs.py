"""Which file a job is about, as its payload says: a staged one, one of the data folder or of a library, or any."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mediamill.db.connection import Database
from mediamill.errors import GiveUpError, NotNowError, RetryLaterError
from mediamill.staging import FAILED, FOLDER, failed_folder, staging_folder
from mediamill.staging.failed import make_room, put_aside
from mediamill.staging.file_names import to_bytes
from mediamill.staging.give_up import drop_staged
from mediamill.staging.shared import end_shared
from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Storage, StoredMissingError
from mediamill.storage.deletions import deletions_wait

_GUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_NAME = r"[0-9a-z_-][0-9a-z_.-]{0,63}"
_DATA = re.compile(rf"{_NAME}(/{_NAME}){{1,5}}")  # no name begins with a dot: it cannot leave the data folder


class BadFileReferenceError(GiveUpError):
    """The payload's `file` must be {"staged": guid}, {"data": name}, {"stored": name}, {"path": absolute path},
    {"path_base64": …} or {"root": folder, "inside": path}."""

    code = "bad_file_reference"


class StoredAwayError(RetryLaterError):
    """A file that we keep as long as somebody names it cannot be read now."""

    code = "stored_file_away"


class RootAwayError(NotNowError):
    """The folder of a library is not there."""

    code = "library_away"
    TEXT = "the library's folder is not there"


def find_input(data_folder: Path, payload: Mapping[str, Any]) -> Path | None:
    """The path of the job's file, or None if it has none. Whether it is there is for the processor to say."""
    match payload.get("file"):
        case None:
            return None
        case {"staged": str(guid)} if _GUID.fullmatch(guid):
            return _staged(data_folder, guid)
        case {"data": str(name)} if _DATA.fullmatch(name):
            return data_folder / name
        case {"stored": str(name)} if _DATA.fullmatch(name):
            return _stored(data_folder / name)
        case {"root": str(root), "inside": str(inside)}:
            return find_inside(root, inside)
        case {"path": str(path)} if path.startswith("/") and "\0" not in path:
            return Path(path)
        case {"path_base64": str(text)}:
            return Path(os.fsdecode(_decode(text)))
    raise BadFileReferenceError


def _stored(path: Path) -> Path:
    """It was there when its job was made: if it is not now, that is its disk's fault, and may pass."""
    try:
        path.open("rb").close()
    except OSError as error:
        raise StoredAwayError(f"the stored file cannot be read: {error.strerror or error}") from error
    return path


def find_inside(root: str, inside: str) -> Path:
    """A file below a folder that is not ours, by no link: what was a file when it was found may be a link now."""
    try:
        folder, parts = os.fsencode(root), to_bytes(inside).split(b"/")
    except ValueError:
        raise BadFileReferenceError from None
    if not folder.startswith(b"/") or b"\0" in folder or any(part in (b"", b".", b"..") for part in parts):
        raise BadFileReferenceError
    top = Path(root)
    _check_there(top)
    path = top.resolve().joinpath(*map(os.fsdecode, parts))
    if path.resolve() != path:
        raise BadFileReferenceError("a link stands in the way of the file")
    if not os.path.lexists(path):
        _check_there(top, filled=True)
    return path


def _check_there(top: Path, *, filled: bool = False) -> None:
    """Is the folder of a library there? `filled`: one that is empty is the place where nothing is mounted now."""
    try:
        if top.is_dir() and (not filled or any(os.scandir(top))):
            return
        why = ""
    except OSError as error:  # a mount that has gone stale, or a folder that is not for us
        why = f" ({error.strerror or error})"
    raise RootAwayError(f"{RootAwayError.TEXT}: {top}{why}", fix="mount it again; its files wait until then")


def stored_names(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """Under which names the job's file, or the folder of its files, may be stored; none if it is anywhere else."""
    match payload.get("file"):
        case {"data": str(name)} | {"stored": str(name)} if _DATA.fullmatch(name):
            return (name,)
        case {"staged": str(guid)} if _GUID.fullmatch(guid):
            return f"{FOLDER}/{guid}", f"{FAILED}/{guid}"
    return ()


async def fetch_input(database: Database, place: Place, payload: Mapping[str, Any]) -> Path | None:
    """As `find_input`, wherever files are stored: what lies in a bucket is fetched."""
    storage = storage_at(place)
    match payload.get("file"):
        case {"data": str(name), "files": list(names)} if _DATA.fullmatch(name):
            return await storage.find_folder(database, name, [check_file_name(one) for one in names])
        case {"data": str(name)} if _DATA.fullmatch(name):
            return await _find_first(database, storage, name)
        case {"stored": str(name)} if _DATA.fullmatch(name):
            return _stored(await _find_first(database, storage, name))
        case {"staged": str(guid)} if _GUID.fullmatch(guid):
            here = _staged(storage.folder, guid)
            if not here.exists():
                return await _find_first(database, storage, *stored_names(payload))
    return find_input(storage.folder, payload)


async def _find_first(database: Database, storage: Storage, *names: str) -> Path:
    """Of these names the first that is stored; else where it would be, for whoever opens it to miss."""
    for name in names:
        with suppress(StoredMissingError):
            return await storage.find(database, name)
    return storage.folder / names[0]


def check_file_name(name: Any) -> str:
    """One of several files in a folder."""
    if not isinstance(name, str) or not re.fullmatch(_NAME, name):
        raise BadFileReferenceError
    return name


async def end_input(database: Database, place: Place, payload: Mapping[str, Any], *, keep: bool) -> None:
    """The job has ended: its staged file is deleted, or put aside for a while if another try may be asked for."""
    storage = storage_at(place)
    match payload.get("file"):
        case {"staged": str(guid)} if _GUID.fullmatch(guid):
            await asyncio.to_thread(_end_here, storage.folder, guid, keep)
            if keep:
                await make_room(database, storage)
            await end_shared(database, storage, guid, keep=keep)


async def drop_input(database: Database, place: Place, payload: Mapping[str, Any], *, give_up: bool) -> None:
    """Nobody will try this job again: its staged file is deleted, unless a job names it (see `drop_staged`)."""
    match payload.get("file"):
        case {"staged": str(guid)} if _GUID.fullmatch(guid):
            async with database.transaction() as connection:
                await drop_staged(connection, place, [guid], give_up=give_up)


def _end_here(data_folder: Path, guid: str, keep: bool) -> None:
    if keep:
        put_aside(data_folder, guid)
    elif not deletions_wait(data_folder):
        (failed_folder(data_folder) / guid).unlink(missing_ok=True)
        (staging_folder(data_folder) / guid).unlink(missing_ok=True)


def _staged(data_folder: Path, guid: str) -> Path:
    """Where it was put; or, for one that is tried once more, where it was put aside."""
    staged, aside = staging_folder(data_folder) / guid, failed_folder(data_folder) / guid
    return aside if not staged.exists() and aside.exists() else staged


def _decode(text: str) -> bytes:
    """The bytes of a path whose name is not UTF-8."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise BadFileReferenceError from None
    if not raw.startswith(b"/") or b"\0" in raw:
        raise BadFileReferenceError
    return raw

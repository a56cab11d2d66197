"""Which file a job is about, as its payload says: a staged one, one of the data folder or of a library, or any."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mediamill.errors import GiveUpError, NotNowError
from mediamill.staging import failed_folder, staging_folder
from mediamill.staging.failed import put_aside
from mediamill.staging.file_names import to_bytes

_GUID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")
_NAME = r"[0-9a-z_-][0-9a-z_.-]{0,63}"
_DATA = re.compile(rf"{_NAME}(/{_NAME}){{1,5}}")  # no name begins with a dot: it cannot leave the data folder


class BadFileReferenceError(GiveUpError):
    """The payload's `file` must be {"staged": guid}, {"data": name}, {"root": folder, "inside": path},
    {"path": absolute path} or {"path_base64": …}."""

    code = "bad_file_reference"


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
        case {"root": str(root), "inside": str(inside)}:
            return find_inside(root, inside)
        case {"path": str(path)} if path.startswith("/") and "\0" not in path:
            return Path(path)
        case {"path_base64": str(text)}:
            return Path(os.fsdecode(_decode(text)))
    raise BadFileReferenceError


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


def end_input(data_folder: Path, payload: Mapping[str, Any], *, keep: bool) -> None:
    """The job has ended: its staged file is deleted, or put aside for a while if another try may be asked for."""
    match payload.get("file"):
        case {"staged": str(guid)} if _GUID.fullmatch(guid):
            if keep:
                put_aside(data_folder, guid)
            else:
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

"""The tool `process`: a file of the folder that was allowed becomes text. Nothing outside of it, and no link."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

from mediamill.errors import DeniedError, NotFoundError
from mediamill.mcp.arguments import Process
from mediamill.mcp.mill import Files, page_of
from mediamill.mcp.tools import Content, Progress, tell
from mediamill.staging.file_names import to_text
from mediamill.staging.inputs import BadFileReferenceError, find_inside


class OutsideError(DeniedError):
    """Only files of the folder that was allowed can be processed."""

    code = "outside"


class NoSuchFileError(NotFoundError):
    """There is no such file."""

    code = "no_such_file"


async def process(files: Files, asked: Process, progress: Progress) -> Content:
    """Waits for the text."""
    inside = await asyncio.to_thread(check_inside, files.folder, asked.path)
    told = await files.process(inside, progress)
    return tell({**told, **page_of(told["text"], asked.offset)})


def check_inside(folder: Path, given: str) -> str:
    """The path of a plain file in the folder, by no link and no `..`."""
    path = Path(given)
    if path.is_absolute():
        if not path.is_relative_to(folder):
            raise _outside(folder)
        path = path.relative_to(folder)
    try:
        inside = to_text(str(path))
        found = find_inside(str(folder), inside).lstat()
    except (BadFileReferenceError, ValueError):  # a link, `..`, or no name of a file
        raise _outside(folder) from None
    except OSError:
        raise NoSuchFileError(f"there is no file {given[:200]!r} in the folder") from None
    if not stat.S_ISREG(found.st_mode) or not os.access(folder / path, os.R_OK):
        raise NoSuchFileError(f"{given[:200]!r} is no file that can be read")
    return inside


def _outside(folder: Path) -> OutsideError:
    return OutsideError(fix=f"name a file in {folder}, without `..` and links")

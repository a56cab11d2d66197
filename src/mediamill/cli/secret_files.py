"""Settings that lie in files, one each: other processes of the same user can read an environment."""

from __future__ import annotations

import os
import re
from pathlib import Path

from mediamill.errors import InvalidError

FOLDER = "MEDIAMILL_SECRETS"
_SETTING = re.compile(r"MEDIAMILL_\w+", re.ASCII | re.IGNORECASE)


class SecretsUnreadableError(InvalidError):
    """The files of MEDIAMILL_SECRETS cannot be read."""

    code = "secrets_unreadable"


def read_secret_files() -> None:
    """Take them for variables of the environment. /proc/<pid>/environ stays as it was when the process began."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return
    try:
        for path in Path(folder).iterdir():
            if _SETTING.fullmatch(path.name) and path.is_file():
                os.environ.setdefault(path.name.upper(), path.read_text().strip())
    except (OSError, UnicodeError) as error:
        raise SecretsUnreadableError(
            f"the files of {FOLDER} cannot be read: {error}",
            fix=f"set {FOLDER} to a folder with a text file for each secret, which this user can read",
        ) from error

"""The sign in a data folder that a restore has begun there and not ended: nothing may run on half of the data."""

from __future__ import annotations

import json
from pathlib import Path

from mediamill.backup.durable import sync_folder, write_durably
from mediamill.errors import ConflictError

MARKER = "restore.json"


class RestoreUnfinishedError(ConflictError):
    """A restore was cut off."""

    code = "restore_unfinished"


def put_marker(data_folder: Path, backup: Path, seal: str) -> None:
    """From now on, until it is taken away, the data folder is not to be used."""
    write_durably(data_folder / MARKER, json.dumps({"backup": str(backup), "seal": seal}).encode() + b"\n")


def read_marker(data_folder: Path) -> dict[str, str] | None:
    """Which backup was being restored, if one was."""
    try:
        said = json.loads((data_folder / MARKER).read_bytes())
    except FileNotFoundError:
        return None
    return {"backup": str(said["backup"]), "seal": str(said["seal"])}


def take_marker_away(data_folder: Path) -> None:
    """All of it is there."""
    (data_folder / MARKER).unlink(missing_ok=True)
    sync_folder(data_folder)


def check_whole(data_folder: Path) -> None:
    """Refuse to work in a data folder that holds half of a backup."""
    marker = read_marker(data_folder)
    if marker is not None:
        raise RestoreUnfinishedError(
            f"{data_folder} holds a restore that was cut off",
            fix=f"run it again, it goes on: mediamill restore {marker['backup']}",
        )

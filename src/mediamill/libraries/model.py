"""Libraries and assets: names, states, places. Pure."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from mediamill.engine.model import without_nul
from mediamill.errors import ConflictError, InvalidError, NotFoundError

SCAN, IMAGE, VIDEO, TAG = "library.scan", "library.image", "library.video", "library.tag"
STATUSES = ("pending", "extracting", "proxied", "analyzing", "completed", "failed", "poisoned")
TYPES = ("image", "video")
MODES = ("scenes", "windows")
MOST_RETRIES = 5  # failures in a row; one more poisons the asset
NAME_CHARACTERS, SLUG_CHARACTERS, ERROR_CHARACTERS = 200, 64, 500
FACTS_CHARACTERS = 20_000
SHARDS = 1000
FOLDER = "libraries"


class UnknownLibraryError(NotFoundError):
    """There is no such library."""

    code = "unknown_library"


class UnknownAssetError(NotFoundError):
    """There is no such asset."""

    code = "unknown_asset"


class BadLibraryError(InvalidError):
    """A library needs a name, and the absolute path of a folder that is there."""

    code = "bad_library"


class LibraryExistsError(ConflictError):
    """There is a library of that name, or of that folder."""

    code = "library_exists"


class LibraryInTrashError(ConflictError):
    """A library of that name is in the trash."""

    code = "library_in_trash"


def make_slug(name: str) -> str:
    """What a library is called in addresses and commands: small letters, digits and hyphens."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:SLUG_CHARACTERS].strip("-")
    if not slug:
        raise BadLibraryError(f"{name!r} makes no short name", fix="use some Latin letters or digits")
    return slug


def id_of(subject_id: str | None) -> int:
    """The asset that a job is about; 0, which is none, if it is about nothing."""
    return int(subject_id) if subject_id and subject_id.isdecimal() else 0


def facts_text(facts: Any) -> str:
    """What a processor found out, as JSON; too much is nothing."""
    text = without_nul(json.dumps(facts if isinstance(facts, Mapping) else {}).encode()).decode()
    return text if len(text) <= FACTS_CHARACTERS else "{}"


def read_time(text: Any) -> datetime | None:
    """When it was taken, by the clocks of the place; None if that makes no sense."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return moment.replace(tzinfo=None) if 1800 < moment.year < 2200 else None


def owner_of(number: int) -> str:
    """Whose work its jobs are."""
    return f"library:{number}"


def number_of(owner: str) -> int:
    """The library that a job's owner stands for; 0, which is none, if it is somebody else."""
    number = owner.removeprefix("library:")
    return int(number) if owner.startswith("library:") and number.isdecimal() else 0


def home_of_asset(asset_id: int) -> str:
    """Beside which name the folders of an asset's derivatives are, relative to the data folder."""
    return f"{FOLDER}/{asset_id % SHARDS:03}/{asset_id}"


def output_folder(asset_id: int, output: str) -> PurePosixPath:
    """The folder of derivatives that counts, or counted, for an asset; relative to the data folder."""
    return PurePosixPath(f"{home_of_asset(asset_id)}-{output}")

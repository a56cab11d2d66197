"""Libraries and assets: names, states, places. Pure."""

from __future__ import annotations

import re
import unicodedata
from pathlib import PurePosixPath

from mediamill.errors import ConflictError, InvalidError, NotFoundError

SCAN, IMAGE, VIDEO, TAG, ERASE = (
    "library.scan",
    "library.image",
    "library.video",
    "library.tag",
    "library.erase",
)
STATUSES = ("pending", "extracting", "proxied", "analyzing", "completed", "failed", "poisoned")
TYPES = ("image", "video")
MODES = ("scenes", "windows")
MOST_RETRIES = 5  # failures in a row; one more poisons the asset
NAME_CHARACTERS, SLUG_CHARACTERS, ERROR_CHARACTERS = 200, 64, 500
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


def owner_of(number: int) -> str:
    """Whose work its jobs are."""
    return f"library:{number}"


def home_of_asset(asset_id: int) -> str:
    """Beside which name the folders of an asset's derivatives are, relative to the data folder."""
    return f"{FOLDER}/{asset_id % SHARDS:03}/{asset_id}"


def output_folder(asset_id: int, output: str) -> PurePosixPath:
    """The folder of derivatives that counts, or counted, for an asset; relative to the data folder."""
    return PurePosixPath(f"{home_of_asset(asset_id)}-{output}")

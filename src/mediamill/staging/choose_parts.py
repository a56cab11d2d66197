"""Where uploads gather, by the storage that there is."""

from __future__ import annotations

from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.staging.bucket_parts import BucketParts
from mediamill.staging.parts import FolderParts, Parts
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.choose import storage_of


def parts_of(database: Database, settings: Settings) -> Parts:
    """For these settings."""
    storage = storage_of(settings)
    return (
        BucketParts(database, storage) if isinstance(storage, BucketStorage) else FolderParts(storage.folder)
    )

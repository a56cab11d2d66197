"""Which storage there is: the data folder, or the bucket that the settings name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from mediamill.settings import Settings
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.cache import Cache
from mediamill.storage.contract import Storage
from mediamill.storage.folder import FolderStorage
from mediamill.storage.objects import BucketPlace, Objects

Place = Path | Storage
GIGABYTE = 1024**3


def storage_of(settings: Settings) -> Storage:
    """The one for these settings; its connections are shared by all who ask in this process."""
    if settings.bucket is None:
        return FolderStorage(settings.data_folder)
    return _bucket(settings.data_folder, BucketPlace.of(settings), int(settings.bucket_cache_gb * GIGABYTE))


def storage_at(place: Place) -> Storage:
    """A folder alone is a storage, too."""
    return FolderStorage(place) if isinstance(place, Path) else place


@lru_cache(maxsize=8)
def _bucket(data_folder: Path, place: BucketPlace, cache_bytes: int) -> BucketStorage:
    return BucketStorage(data_folder, Objects(place), Cache(data_folder, cache_bytes))

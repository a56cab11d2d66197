"""Whose bucket it is: an object names the database whose rows say what may be deleted.

Two databases that share a bucket (a backup that was restored for a try, say) never write over each other, since every
key is new. But each would take the other's objects for orphans. So only the owner deletes anything.

Of two that claim a bucket at the same moment the bucket takes one, and both read which. A bucket that cannot decide
gives it to the last one, perhaps after the first has read its own name: so whoever has just claimed it deletes nothing
until it finds its name there once more, with the next round of the janitor.
"""

from __future__ import annotations

from mediamill.db.connection import Database
from mediamill.errors import ConflictError
from mediamill.storage.bucket import BucketStorage
from mediamill.storage.contract import StoredMissingError
from mediamill.storage.store import queries

OBJECT = "mediamill-owner"
MOST_BYTES = 200


class NotOurBucketError(ConflictError):
    """The bucket is another database's: nothing is deleted there."""

    code = "not_our_bucket"


async def own_bucket(database: Database, storage: BucketStorage) -> bool:
    """Ours from now on, if it is nobody's; NotOurBucketError if it is somebody else's. Was it ours before?"""
    async with database.connection() as connection:
        us = str(await queries.identity.value(connection))
    before = True
    try:
        owner = await _read_owner(storage)
    except StoredMissingError:
        before = False
        await storage.objects.put_new(OBJECT, us.encode())
        owner = await _read_owner(storage)
    if owner != us:
        raise NotOurBucketError(
            f"{NotOurBucketError.__doc__} (it belongs to {owner[:80]}, and this is {us})",
            fix=f"if the other is gone for good, delete the object {OBJECT}",
        )
    return before


async def _read_owner(storage: BucketStorage) -> str:
    return (await storage.objects.read(OBJECT, 0, MOST_BYTES)).decode("utf-8", "replace")

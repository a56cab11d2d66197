"""Whose bucket it is: an object names the database whose rows say what may be deleted.

Two databases that share a bucket (a backup that was restored for a try, say) never write over each other, since every
key is new. But each would take the other's objects for orphans. So only the owner deletes anything.
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


async def own_bucket(database: Database, storage: BucketStorage) -> None:
    """Ours from now on, if it is nobody's; NotOurBucketError if it is somebody else's."""
    async with database.connection() as connection:
        us = str(await queries.identity.value(connection))
    try:
        owner = (await storage.objects.read(OBJECT, 0, MOST_BYTES)).decode("utf-8", "replace")
    except StoredMissingError:
        await storage.objects.put(OBJECT, us.encode())
        return
    if owner != us:
        raise NotOurBucketError(
            f"{NotOurBucketError.__doc__} (it belongs to {owner[:80]}, and this is {us})",
            fix=f"if the other is gone for good, delete the object {OBJECT}",
        )

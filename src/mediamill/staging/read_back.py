"""Files of a bucket read to the last byte, and compared with what was put there."""

from __future__ import annotations

import hashlib

from mediamill.storage.bucket import BucketFile
from mediamill.storage.contract import StoredMissingError


async def is_whole(file: BucketFile) -> bool:
    """Is every piece there, with the bytes that were put?"""
    for piece in file.pieces:
        digest = hashlib.sha256()
        try:
            async for chunk in file.chunks(piece.first, piece.length):
                digest.update(chunk)
        except StoredMissingError:
            return False
        if digest.digest() != piece.sha256:
            return False
    return True

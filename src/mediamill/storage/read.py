"""A short text out of the storage."""

from __future__ import annotations

from mediamill.storage.choose import Place, storage_at
from mediamill.storage.contract import Where


async def read_text(where: Where, place: Place, name: str, most_bytes: int) -> str | None:
    """Its beginning, if it is long; None if there is no such file."""
    file = await storage_at(place).open(where, name)
    if file is None:
        return None
    try:
        chunks = [chunk async for chunk in file.chunks(0, min(file.length, most_bytes))]
    finally:
        file.close()
    return b"".join(chunks).decode("utf-8", "replace")

"""The trash of libraries: what is in it, and emptying it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from mediamill.api.deps import Wired
from mediamill.api.library_shapes import ErasingOut, LibrariesOut
from mediamill.libraries import look
from mediamill.libraries.erase import mark_for_erasing
from mediamill.libraries.model import SLUG_CHARACTERS

router = APIRouter(prefix="/api/trash", tags=["libraries"])

Slug = Annotated[
    str | None, Query(min_length=1, max_length=SLUG_CHARACTERS, description="Only this one. Unset: all.")
]


@router.get("", response_model=LibrariesOut)
async def list_trash(deps: Wired) -> dict[str, Any]:
    """Libraries in the trash, by name."""
    async with deps.database.connection() as connection:
        return {"libraries": await look.list_libraries(connection, trash=True)}


@router.post("/empty", status_code=202, response_model=ErasingOut)
async def empty_trash(deps: Wired, library: Slug = None) -> dict[str, Any]:
    """Erase what is in the trash, for good. It cannot be restored from now on, and is gone after a while."""
    async with deps.database.transaction() as connection:
        return {"erasing": await mark_for_erasing(connection, library)}

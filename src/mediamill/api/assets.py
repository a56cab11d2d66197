"""Assets of libraries: one with all there is to know of it, its previews, and the file itself, by range."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from mediamill.api.deps import Id, Wired
from mediamill.api.file_answer import OTHER, answer_file, sent_in_ranges
from mediamill.api.library_shapes import AssetOut
from mediamill.api.video_files import YEAR_SECONDS, attachment
from mediamill.libraries import assets, remake, retry
from mediamill.libraries.reach import Reach, in_own_thread
from mediamill.media.source_file import is_at
from mediamill.staging.file_names import shown
from mediamill.staging.inputs import BadFileReferenceError, RootAwayError, find_inside
from mediamill.storage.choose import storage_of
from mediamill.storage.folder import PlainFile, open_plain

router = APIRouter(prefix="/api/assets", tags=["assets"])

REACH_SECONDS = 5.0
_reach = Reach(REACH_SECONDS)
# What browsers show by themselves; everything else is only ever saved.
TYPES = {
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
    "mp4": "video/mp4",
    "m4v": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mkv": "video/matroska",
}

Output = Annotated[str, Path(max_length=50, description="The asset's `output`.", examples=["12-1"])]
Name = Annotated[
    str,
    Path(
        max_length=50,
        description="thumbnail.jpg, preview.webp, clip.mp4, or the frame of a scene.",
        examples=["thumbnail.jpg"],
    ),
]


@router.get("/{asset_id}", response_model=AssetOut)
async def show_asset(deps: Wired, asset_id: Id) -> dict[str, Any]:
    """One asset: facts, tags and whose they are, scenes or frames, the job at hand, its neighbours."""
    async with deps.database.connection() as connection:
        return await assets.show_asset(connection, asset_id)


@router.post("/{asset_id}/retry", response_model=AssetOut)
async def retry_asset(deps: Wired, asset_id: Id) -> dict[str, Any]:
    """One that failed waits again, as if it had never been tried."""
    async with deps.database.transaction() as connection:
        await retry.retry_asset(connection, asset_id)
        return await assets.show_asset(connection, asset_id)


@router.post("/{asset_id}/remake", response_model=AssetOut)
async def remake_asset(deps: Wired, asset_id: Id) -> dict[str, Any]:
    """One is made again from its file, by what the settings of its library are now."""
    async with deps.database.transaction() as connection:
        await remake.remake_asset(connection, asset_id)
        return await assets.show_asset(connection, asset_id)


@router.head("/{asset_id}/files/{output}/{name}", include_in_schema=False)
@router.get(
    "/{asset_id}/files/{output}/{name}",
    response_class=Response,
    responses=sent_in_ranges("image/webp", "image/jpeg", "video/mp4"),
)
async def send_file(request: Request, deps: Wired, asset_id: Id, output: Output, name: Name) -> Response:
    """A preview, thumbnail, head clip or frame. Made anew, it has another `output`: it never changes."""
    async with deps.database.connection() as connection:
        path = await assets.asset_file(connection, asset_id, output, name)
    file = await storage_of(deps.settings).open(deps.database, str(path))
    if file is None:
        raise assets.NoSuchAssetFileError
    # Nobody but the one who asked may keep it.
    caching = {"Cache-Control": f"private, max-age={YEAR_SECONDS}, immutable"}
    return answer_file(request, file, _type_of(name), caching, f"{asset_id}-{output}-{name}")


@router.head("/{asset_id}/source", include_in_schema=False)
@router.get(
    "/{asset_id}/source", response_class=Response, responses=sent_in_ranges("image/*", "video/*", OTHER)
)
async def send_source(request: Request, deps: Wired, asset_id: Id) -> Response:
    """The file itself, as it lies in the library, to be saved under its own name."""
    async with deps.database.connection() as connection:
        root, inside = await assets.asset_source(connection, asset_id)
    file = await _open_source(root, inside)
    if file is None:
        raise assets.NoSuchAssetFileError(
            "the file cannot be read", fix="is it still there? Scan the library"
        )
    name = shown(inside.rpartition("/")[2])
    return answer_file(request, file, _type_of(name), {"Content-Disposition": attachment(name)})


async def _open_source(root: str, inside: str) -> PlainFile | None:
    """A folder on a network may not answer; what is opened after nobody waits any more is closed again."""
    if not await _reach.is_there(root):
        raise _away(root)
    opening = in_own_thread(partial(_open_inside, root, inside))
    try:
        async with asyncio.timeout(REACH_SECONDS):
            return await asyncio.shield(opening)
    except BadFileReferenceError:
        return None
    except asyncio.CancelledError:
        opening.add_done_callback(_close_late)
        raise
    except TimeoutError:
        opening.add_done_callback(_close_late)
        raise _away(root) from None


def _away(root: str) -> RootAwayError:
    return RootAwayError(f"{RootAwayError.TEXT}: {root}", fix="mount it, then scan the library")


def _open_inside(root: str, inside: str) -> PlainFile | None:
    path = find_inside(root, inside)
    file = open_plain(path)
    if file is not None and not is_at(file.descriptor, path):
        file.close()
        return None
    return file


def _close_late(opening: asyncio.Future[PlainFile | None]) -> None:
    if not opening.cancelled() and opening.exception() is None and (file := opening.result()) is not None:
        file.close()


def _type_of(name: str) -> str:
    return TYPES.get(name.rpartition(".")[2].lower(), OTHER)

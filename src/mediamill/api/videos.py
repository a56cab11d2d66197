"""Videos: list, show, edit, try again, make anew, trash. Wherever an id is asked for, the slug will do."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import Response

from mediamill.access.model import Scope, need
from mediamill.api.deps import Wired
from mediamill.api.file_answer import answer_text, sent_as
from mediamill.api.video_shapes import (
    CategoriesOut,
    FactsIn,
    PriorityIn,
    RetranscodeIn,
    RetriedVideoOut,
    TranscriptOut,
    VideoOut,
    VideosOut,
    VideoState,
)
from mediamill.db.connection import Connection
from mediamill.engine.priority import read_priority
from mediamill.errors import NotFoundError
from mediamill.storage.choose import storage_of
from mediamill.videos import again, edit, look, trash

router = APIRouter(tags=["videos"])

Who = Annotated[
    str, Path(min_length=1, max_length=100, description="Id or slug of a video.", examples=["my-holiday"])
]
Amount = Annotated[int, Query(ge=1, le=500)]
Words = Annotated[
    str | None, Query(max_length=500, description="In title, description, category, or what is said.")
]
Before = Annotated[UUID | None, Query(description="The `next` of the page before.")]


class NoCaptionsError(NotFoundError):
    """There are no captions."""

    code = "no_captions"


@router.get("/api/videos", response_model=VideosOut)
async def list_videos(
    deps: Wired,
    state: VideoState | None = None,
    category: Annotated[str | None, Query(max_length=100)] = None,
    q: Words = None,
    trash: bool = False,
    before: Before = None,
    amount: Amount = 50,
) -> dict[str, Any]:
    """Newest first; with `trash` those that were deleted."""
    async with deps.database.connection() as connection:
        found = await look.list_videos(
            connection,
            state=state,
            category=category,
            words=q or None,
            trash=trash,
            before=before,
            amount=amount,
        )
    return {"videos": found, "next": found[-1]["id"] if len(found) == amount else None}


@router.get("/api/video-categories", response_model=CategoriesOut)
async def list_categories(deps: Wired) -> dict[str, Any]:
    """The categories of videos, with how many are in each."""
    async with deps.database.connection() as connection:
        return {"categories": await look.list_categories(connection)}


@router.delete("/api/video-trash")
async def empty_trash(deps: Wired) -> dict[str, int]:
    """Erase all that is in the trash, for good. How many."""
    return {"erased": await trash.empty_trash(deps.database, storage_of(deps.settings))}


@router.get("/api/videos/{who}", response_model=VideoOut)
async def show_video(deps: Wired, who: Who) -> dict[str, Any]:
    """One video, with its qualities and the job that works on it."""
    async with deps.database.connection() as connection:
        return await look.show_video(connection, who)


@router.patch("/api/videos/{who}", response_model=VideoOut)
async def edit_video(deps: Wired, who: Who, facts: FactsIn) -> dict[str, Any]:
    """Another title, description, category or slug."""
    async with deps.database.transaction() as connection:
        video_id = await look.find_video(connection, who)
        await edit.edit_video(connection, video_id, **facts.model_dump())
        return await look.show_video(connection, video_id)


@router.delete("/api/videos/{who}")
async def delete_video(
    deps: Wired,
    who: Who,
    forever: Annotated[
        bool, Query(description="Erase one that is in the trash already, with its files.")
    ] = False,
) -> dict[str, Any]:
    """To the trash, from where it can be restored."""
    if forever:
        need(Scope.ADMIN)
    async with deps.database.transaction() as connection:
        video_id = await look.find_video(connection, who)
        if forever:
            await trash.erase_video(connection, storage_of(deps.settings), video_id)
        else:
            await trash.delete_video(connection, video_id)
    return {"id": str(video_id), "erased": forever}


@router.post("/api/videos/{who}/restore", response_model=VideoOut)
async def restore_video(deps: Wired, who: Who) -> dict[str, Any]:
    """Back from the trash."""
    async with deps.database.transaction() as connection:
        video_id = await look.find_video(connection, who)
        await trash.restore_video(connection, video_id)
        return await look.show_video(connection, video_id)


@router.post("/api/videos/{who}/retry", response_model=RetriedVideoOut)
async def retry_video(deps: Wired, who: Who) -> dict[str, Any]:
    """What failed is tried again now: the stream, the captions, or both."""
    async with deps.database.transaction() as connection:
        video_id = await look.find_video(connection, who)
        retried = await again.retry_video(connection, deps.engine, deps.enqueuer, deps.settings, video_id)
        return {**await look.show_video(connection, video_id), "retried": retried}


@router.post("/api/videos/{who}/retranscode", status_code=202, response_model=VideoOut)
async def retranscode_video(deps: Wired, who: Who, wish: RetranscodeIn | None = None) -> dict[str, Any]:
    """Make qualities anew, or all of them. What is there plays until they are ready, and stays if they fail."""
    wish = wish or RetranscodeIn()
    async with deps.database.transaction() as connection:
        video_id = await look.find_video(connection, who)
        await again.retranscode_video(
            connection,
            deps.enqueuer,
            deps.settings,
            video_id,
            list(wish.qualities or ()) or None,
            transcript=wish.transcript,
            priority=read_priority(wish.priority),
        )
        return await look.show_video(connection, video_id)


@router.post("/api/videos/{who}/priority", response_model=VideoOut)
async def set_priority(deps: Wired, who: Who, wish: PriorityIn) -> dict[str, Any]:
    """How soon its jobs are claimed: high, normal or low, as long as they wait."""
    async with deps.database.transaction() as connection:
        video_id = await look.find_video(connection, who)
        await edit.set_video_priority(connection, video_id, read_priority(wish.priority))
        return await look.show_video(connection, video_id)


@router.get("/api/videos/{who}/transcript", response_model=TranscriptOut)
async def show_transcript(deps: Wired, who: Who) -> dict[str, Any]:
    """What is said, sentence by sentence. `state` says whether there is more to come."""
    async with deps.database.connection() as connection:
        found = await _transcript(connection, who)
    said = found["transcript"] or {}
    return {
        "state": found["captions_state"],
        "error": found["captions_error"],
        "language": said.get("language"),
        "text": said.get("text"),
        "segments": said.get("segments", []),
    }


@router.get(
    "/api/videos/{who}/captions.vtt",
    response_class=Response,
    responses=sent_as("text/vtt", what="WebVTT.", binary=False),
)
async def show_captions(request: Request, deps: Wired, who: Who) -> Response:
    """The captions for a player. There are none of a video in the trash."""
    async with deps.database.connection() as connection:
        found = await _transcript(connection, who)
    if found["captions"] is None or found["deleted_at"] is not None:
        raise NoCaptionsError
    return answer_text(request, found["captions"], "text/vtt; charset=utf-8")


async def _transcript(connection: Connection, who: str) -> dict[str, Any]:
    return await look.show_transcript(connection, await look.find_video(connection, who))

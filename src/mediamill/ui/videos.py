"""The pages of videos: the list with its upload area, and what can be done with one of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlencode
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Connection, Database
from mediamill.engine.enqueue import Enqueuer
from mediamill.engine.priority import read_priority
from mediamill.engine.rules import Engine
from mediamill.settings import Settings
from mediamill.storage.choose import storage_of
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer
from mediamill.ui.watching import WatchPage
from mediamill.videos.again import retranscode_video, retry_video
from mediamill.videos.edit import set_video_priority
from mediamill.videos.look import list_categories, list_videos
from mediamill.videos.trash import delete_video, erase_video, restore_video

PAGE_VIDEOS = 24
STATES = ("pending", "processing", "ready", "failed")
Words = Annotated[str, Query(max_length=500)]
Act = Callable[[Connection, UUID], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Filter:
    """What the reader wants to see. Empty: all."""

    state: str = ""
    category: str = ""
    q: str = ""
    trash: bool = False
    before: UUID | None = None

    def query(self, **more: Any) -> str:
        """As the end of an address."""
        given = {"state": self.state, "category": self.category, "q": self.q, "trash": int(self.trash)}
        return urlencode({name: value for name, value in {**given, **more}.items() if value})

    @property
    def narrows(self) -> bool:
        """Whether anything may be left out."""
        return bool(self.state or self.category or self.q or self.before)


def add_video_pages(
    router: APIRouter, renderer: Renderer, database: Database, engine: Engine, settings: Settings
) -> None:
    """Their routes."""
    pages = _VideoPages(renderer, database, engine, settings)
    watching = WatchPage(renderer, database)
    router.get("/videos")(pages.all)
    router.get("/videos/{who}")(watching.show)
    router.post("/videos/{video_id}/edit")(watching.edit)
    router.post("/videos/{video_id}/retry")(pages.retry)
    router.post("/videos/{video_id}/retranscode")(pages.retranscode)
    router.post("/videos/{video_id}/priority")(pages.set_priority)
    router.post("/videos/{video_id}/delete")(pages.delete)
    router.post("/videos/{video_id}/restore")(pages.restore)
    router.post("/videos/{video_id}/erase")(pages.erase)


class _VideoPages:
    def __init__(self, renderer: Renderer, database: Database, engine: Engine, settings: Settings) -> None:
        self._renderer, self._database, self._engine, self._settings = renderer, database, engine, settings
        self._enqueuer = Enqueuer(engine.kinds, engine.payload_limit_bytes)

    async def all(
        self,
        state: str = "",
        category: str = "",
        q: Words = "",
        trash: bool = False,
        before: UUID | None = None,
        part: str | None = None,
    ) -> HTMLResponse:
        """The newest videos, or those that are asked for; with `part` only the list."""
        wanted = Filter(state if state in STATES else "", category, q.strip(), trash, before)
        async with self._database.connection() as connection:
            found = await list_videos(
                connection,
                state=wanted.state or None,
                category=wanted.category or None,
                words=wanted.q or None,
                trash=trash,
                before=before,
                amount=PAGE_VIDEOS + 1,
            )
            categories = await list_categories(connection)
        return self._renderer.page(
            "videos/list.html" if part else "videos/all.html",
            videos=found[:PAGE_VIDEOS],
            has_more=len(found) > PAGE_VIDEOS,
            wanted=wanted,
            states=STATES,
            categories=categories,
            limit_bytes=self._settings.video_upload_limit_bytes,
        )

    async def retry(self, video_id: UUID) -> Response:
        """What failed is tried again."""

        async def act(connection: Connection, video_id: UUID) -> None:
            await retry_video(connection, self._engine, self._enqueuer, self._settings, video_id)

        return await self._act(act, video_id)

    async def retranscode(self, request: Request, video_id: UUID) -> Response:
        """The chosen qualities anew, or all."""
        form = await read_form(request)
        qualities, transcript = form.get("quality"), "transcript" in form

        async def act(connection: Connection, video_id: UUID) -> None:
            await retranscode_video(
                connection, self._enqueuer, self._settings, video_id, qualities, transcript=transcript
            )

        return await self._act(act, video_id)

    async def set_priority(self, request: Request, video_id: UUID) -> Response:
        """Sooner or later than others."""
        priority = read_priority((await read_form(request)).get("priority", [""])[0])

        async def act(connection: Connection, video_id: UUID) -> None:
            await set_video_priority(connection, video_id, priority)

        return await self._act(act, video_id)

    async def delete(self, video_id: UUID) -> Response:
        """To the trash."""
        return await self._act(delete_video, video_id)

    async def restore(self, video_id: UUID) -> Response:
        """Out of the trash."""
        return await self._act(restore_video, video_id)

    async def erase(self, video_id: UUID) -> Response:
        """For good; back to the trash."""

        async def act(connection: Connection, video_id: UUID) -> None:
            await erase_video(connection, storage_of(self._settings), video_id)

        return await self._act(act, video_id, "/trash")

    async def _act(self, act: Act, video_id: UUID, then: str | None = None) -> Response:
        async with self._database.transaction() as connection:
            await act(connection, video_id)
        return RedirectResponse(then or f"/videos/{video_id}", 303)

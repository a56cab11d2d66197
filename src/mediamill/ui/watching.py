"""The page of one video: the player with its transcript, facts and qualities, and the form for its texts."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

from fastapi import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Database
from mediamill.errors import MediamillError
from mediamill.ui.forms import read_form
from mediamill.ui.rendering import Renderer, status_of
from mediamill.videos.edit import edit_video
from mediamill.videos.look import list_categories, show_transcript, show_video

# As everywhere, and besides: the player feeds the browser from memory, which has an address of its own kind.
PLAYER_POLICY = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'; "
    "media-src 'self' blob:"
)
EDITED = ("title", "slug", "category", "description")
PARTS = {"live": "videos/live.html", "transcript": "videos/transcript.html"}


class WatchPage:
    """Looking at one video, and editing its texts."""

    def __init__(self, renderer: Renderer, database: Database) -> None:
        self._renderer, self._database = renderer, database

    async def show(self, request: Request, who: str, t: float = 0, part: str | None = None) -> Response:
        """By slug or id; `t` says at which second to begin, `part` what of the page is wanted."""
        video = await self._video(who)
        if part is None and who != video["slug"]:
            query = f"?{request.url.query}" if request.url.query else ""
            return RedirectResponse(f"/videos/{video['slug']}{query}", 307)
        return await self._page(video, PARTS.get(part or ""), start=t if math.isfinite(t) else 0)

    async def edit(self, request: Request, video_id: UUID) -> Response:
        """Title, slug, category and description; a fault is told above the form, with all that was typed in it."""
        form = await read_form(request)
        given = {name: form[name][0].strip() for name in EDITED if name in form}
        try:
            async with self._database.transaction() as connection:
                await edit_video(connection, video_id, **given)
        except MediamillError as error:
            fault = f"{error.message}{f' ({error.fix})' if error.fix else ''}"
            video = await self._video(str(video_id))
            return await self._page(video, status_code=status_of(error), form=given, fault=fault)
        return RedirectResponse(f"/videos/{video_id}", 303)

    async def _video(self, who: str) -> dict[str, Any]:
        async with self._database.connection() as connection:
            return await show_video(connection, who)

    async def _page(
        self,
        video: dict[str, Any],
        template: str | None = None,
        *,
        status_code: int = 200,
        start: float = 0,
        form: dict[str, str] | None = None,
        fault: str | None = None,
    ) -> HTMLResponse:
        async with self._database.connection() as connection:
            said = await show_transcript(connection, UUID(video["id"]))
            categories = await list_categories(connection)
        answer = self._renderer.page(
            template or "videos/one.html",
            status_code,
            video=video,
            lines=(said["transcript"] or {}).get("segments", []),
            language=(said["transcript"] or {}).get("language") or "",
            captions_error=said["captions_error"],
            categories=categories,
            start=start,
            form={**{name: video[name] for name in EDITED}, **(form or {})},
            fault=fault,
        )
        answer.headers["Content-Security-Policy"] = PLAYER_POLICY
        return answer

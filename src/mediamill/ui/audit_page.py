"""The page of the audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse

from mediamill.access.audit import list_entries
from mediamill.db.connection import Database
from mediamill.settings import Settings
from mediamill.ui.rendering import Renderer

AMOUNT = 100
GROUPS = (
    *("login", "scope", "user", "token", "worker", "pool", "configuration"),
    *("job", "dead", "video", "library", "project", "bot"),
)


def add_audit_page(router: APIRouter, renderer: Renderer, database: Database, settings: Settings) -> None:
    """Its route."""

    async def audit(
        who: Annotated[str | None, Query(max_length=300)] = None,
        action: Annotated[str | None, Query(max_length=100)] = None,
        before: Annotated[int | None, Query(ge=1, le=2**63 - 1)] = None,
    ) -> HTMLResponse:
        """What was done, the newest first."""
        async with database.connection() as connection:
            entries = await list_entries(
                connection, who=who or None, action=action or None, before=before, amount=AMOUNT
            )
        return renderer.page(
            "access/audit.html",
            entries=entries,
            who=who or "",
            action=action or "",
            older=entries[-1]["id"] if len(entries) == AMOUNT else None,
            groups=GROUPS,
            keep_days=settings.audit_keep_days,
        )

    router.get("/audit")(audit)

"""What lies where and how much of it, and every setting as it holds: for whoever runs the server."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from mediamill.api.deps import Wired
from mediamill.conversations.configuration import quota_gb
from mediamill.engine.watch import database_facts
from mediamill.settings_facts import explain_settings
from mediamill.staging.quota import GIGABYTE
from mediamill.staging.usage import UsageDesk

router = APIRouter(tags=["storage"])


@router.get("/api/storage")
async def show_storage(deps: Wired, request: Request) -> dict[str, Any]:
    """The folders of the data folder with their sizes, the disk, the database, the quota of media that wait; with a
    bucket, what is in it by the first folder of its names, and when that was counted (`bucket.counted_at`)."""
    desk: UsageDesk = request.app.state.usage_desk
    usage = await desk.usage()
    async with deps.database.connection() as connection:
        database = await database_facts(connection)
        quota = await quota_gb(connection)
    return {**usage.as_dict(), "database": database, "quota_bytes": int(quota * GIGABYTE)}


@router.get("/api/settings")
async def list_settings(deps: Wired) -> dict[str, Any]:
    """Every setting with its value and where it comes from; of secrets only whether they are set."""
    return {"settings": [fact.as_dict() for fact in explain_settings(deps.settings)]}

"""Health at two depths."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from mediamill.api.deps import Wired
from mediamill.api.errors import RETRY_AFTER_SECONDS
from mediamill.db.connection import LOST, Database
from mediamill.db.pgvector import vector_support
from mediamill.engine import watch
from mediamill.storage.examine import bucket_figures

router = APIRouter(tags=["health"])

ANSWER_SECONDS = 1.0


@router.get("/health")
async def health(deps: Wired) -> JSONResponse:
    """Is it well? 503 when the database is away; an answer in seconds in any case. Redis or the bucket may be down."""
    figures: dict[str, int | None] = {"active_workers": None, "pending_jobs": None}
    redis = deps.dispatch.facts()
    beside = {} if redis is None else {"redis": redis["state"], "breaker": redis["breaker"]}
    bucket = await deps.pulse.facts()
    if bucket is not None:
        beside["bucket"] = bucket["state"]
    task = asyncio.create_task(_read_health(deps.database, figures))
    await asyncio.wait({task}, timeout=ANSWER_SECONDS)
    task.cancel()
    if figures["active_workers"] is None:
        body = {"status": "unavailable", "database": "down", **beside, **figures}
        return JSONResponse(body, 503, {"Retry-After": str(RETRY_AFTER_SECONDS)})
    return JSONResponse({"status": "ok", "database": "ok", **beside, **figures})


async def _read_health(database: Database, figures: dict[str, int | None]) -> None:
    """What is cheap first: a database that only takes long to count what waits is not down."""
    with contextlib.suppress(*LOST):
        async with database.connection() as connection:
            workers = await watch.count_workers(connection)
            figures["active_workers"] = sum(workers[state] for state in ("active", "idle", "busy"))
            figures["pending_jobs"] = await watch.count_pending(connection)


@router.get("/api/health")
async def deep_health(deps: Wired) -> dict[str, Any]:
    """Storage, database and processing figures."""
    async with deps.database.connection() as connection:
        database = await watch.database_facts(connection)
        database["search"] = asdict(await vector_support(connection))
        processing = await watch.overview(connection)
        workers = await watch.count_workers(connection)
        totals = await watch.totals(connection)
    storage = await asyncio.to_thread(look_at_disk, deps.settings.data_folder)
    bucket = await deps.pulse.facts()
    if bucket is not None:
        storage["bucket"] = {**bucket, **await bucket_figures(deps.database)}
    return {
        "status": "ok",
        "storage": storage,
        "database": database,
        "dispatch": deps.dispatch.facts() or {"mode": deps.dispatch.mode},
        "processing": {**processing, "workers": workers, "totals": totals},
    }


def look_at_disk(folder: Path) -> dict[str, Any]:
    """Of the data folder, or of where it will be made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    usage = shutil.disk_usage(there)
    return {"folder": str(folder), "total_bytes": usage.total, "free_bytes": usage.free}

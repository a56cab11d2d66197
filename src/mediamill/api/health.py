"""Health at two depths, and metrics for Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import JSONResponse, Response

from mediamill.api.deps import Wired
from mediamill.api.errors import RETRY_AFTER_SECONDS
from mediamill.db.connection import LOST, Database
from mediamill.engine import watch
from mediamill.inputs import counters

router = APIRouter(tags=["health"])

ANSWER_SECONDS = 1.5


@router.get("/health")
async def health(deps: Wired) -> JSONResponse:
    """Is it well? 503 when the database is away; an answer within two seconds in any case."""
    figures: dict[str, int | None] = {"active_workers": None, "pending_jobs": None}
    task = asyncio.create_task(_read_health(deps.database, figures))
    await asyncio.wait({task}, timeout=ANSWER_SECONDS)
    task.cancel()
    if figures["active_workers"] is None:
        body = {"status": "unavailable", "database": "down", **figures}
        return JSONResponse(body, 503, {"Retry-After": str(RETRY_AFTER_SECONDS)})
    return JSONResponse({"status": "ok", "database": "ok", **figures})


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
        processing = await watch.overview(connection)
        workers = await watch.count_workers(connection)
        totals = await watch.totals(connection)
    storage = await asyncio.to_thread(_storage, deps.settings.data_folder)
    return {
        "status": "ok",
        "storage": storage,
        "database": database,
        "processing": {**processing, "workers": workers, "totals": totals},
    }


def _storage(folder: Path) -> dict[str, Any]:
    """Of the data folder, or of where it will be made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    usage = shutil.disk_usage(there)
    return {"folder": str(folder), "total_bytes": usage.total, "free_bytes": usage.free}


@router.get("/metrics")
async def metrics(deps: Wired) -> Response:
    """Jobs and workers from the database at each scrape: every server tells the same. Images: of this server."""
    async with deps.database.connection() as connection:
        overview = await watch.overview(connection)
        workers = await watch.count_workers(connection)
        totals = await watch.totals(connection)
    registry = CollectorRegistry()
    registry.register(_Figures(overview, workers, totals))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


class _Figures(Collector):
    """One scrape."""

    def __init__(self, overview: dict[str, Any], workers: dict[str, int], totals: dict[str, int]) -> None:
        self._overview, self._workers, self._totals = overview, workers, totals

    def collect(self) -> Iterable[Metric]:
        """Gauges for what is, counters for what was."""
        states = {**self._overview["states"], "dead": self._overview["dead"]}
        yield _gauge("mediamill_jobs", "Jobs by state.", "state", states)
        depths = {pool["pool"]: pool["queued"] for pool in self._overview["pools"]}
        yield _gauge("mediamill_queue_depth", "Jobs that are ready to be claimed, by pool.", "pool", depths)
        yield _gauge("mediamill_workers", "Workers by state.", "state", self._workers)
        yield CounterMetricFamily(
            "mediamill_jobs_completed", "Jobs completed.", value=self._totals["completed"]
        )
        yield CounterMetricFamily(
            "mediamill_jobs_failed", "Jobs that went to the dead letter.", value=self._totals["failed"]
        )
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"mediamill_{name}", text, value=self._overview["counters"][name])
        yield from _input_counters()


_COUNTERS = {
    "stale_recovered": "Claims taken back from workers that were gone.",
    "retries_exhausted": "Jobs that used up their attempts.",
    "failures": "Failed attempts.",
}


_INPUT_COUNTERS = {
    counters.INGESTED: "Images that came in for an agent.",
    counters.INGESTED_BYTES: "Bytes of images that came in for an agent.",
    counters.CLAIMED: "Images that waited, and were taken by a text.",
    counters.DELETED: "Images that were deleted because the agent has taken them.",
    counters.PURGED: "Images that nobody took for three days.",
    counters.PURGED_BOUND: "Images of a run that nobody took for three days.",
}


def _input_counters() -> Iterable[Metric]:
    """Of this server since it started: the database keeps no images that are gone."""
    for name, text in _INPUT_COUNTERS.items():
        family = CounterMetricFamily(f"mediamill_{name}", text, labels=["source"])
        for (counted, source), value in sorted(counters.counts.items()):
            if counted == name:
                family.add_metric([source], value)
        yield family
    refused = CounterMetricFamily(
        f"mediamill_{counters.REJECTED}", "Messages and images that were refused.", labels=["source", "code"]
    )
    for (code, source), value in sorted(counters.rejects.items()):
        refused.add_metric([source, code], value)
    yield refused


def _gauge(name: str, text: str, label: str, values: dict[str, int]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        gauge.add_metric([key], value)
    return gauge

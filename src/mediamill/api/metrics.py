"""Metrics for Prometheus. Of jobs, workers and the database every server tells the same; the rest is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response

from mediamill import __version__
from mediamill.api.deps import Deps, Wired
from mediamill.api.event_hub import EventHub
from mediamill.api.file_answer import sent_as
from mediamill.api.health import look_at_disk
from mediamill.api.requests import BOUNDS as ANSWER_BOUNDS
from mediamill.api.requests import Requests
from mediamill.dispatch.breaker import BreakerState
from mediamill.engine.attempts import BOUNDS, TIMED, Ended
from mediamill.engine.figures import Figures, read_figures
from mediamill.inputs import counters

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses=sent_as("text/plain", what="As Prometheus reads it.", binary=False),
)
async def metrics(deps: Wired, request: Request) -> Response:
    """Read at each scrape. Whoever sums over several servers counts jobs and workers once each: take the maximum."""
    async with deps.database.connection() as connection:
        figures = await read_figures(connection)
    own = await _look_at_server(deps, request.app.state.event_hub, request.app.state.requests)
    registry = CollectorRegistry()
    registry.register(_Scrape(figures, own))
    ProcessCollector(namespace="mediamill", registry=registry)
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)


@dataclass(frozen=True, slots=True)
class _Own:
    """What this server alone knows."""

    pool: dict[str, int]
    hub: EventHub
    disk: dict[str, Any]
    redis: dict[str, Any] | None
    requests: Requests


async def _look_at_server(deps: Deps, hub: EventHub, requests: Requests) -> _Own:
    pool = deps.database.pool
    size, idle = pool.get_size(), pool.get_idle_size()
    disk = await asyncio.to_thread(look_at_disk, deps.settings.data_folder)
    connections = {"used": size - idle, "idle": idle, "most": pool.get_max_size()}
    return _Own(connections, hub, disk, deps.dispatch.facts(), requests)


class _Scrape(Collector):
    """One scrape."""

    def __init__(self, figures: Figures, own: _Own) -> None:
        self._figures, self._own = figures, own

    def collect(self) -> Iterable[Metric]:
        """Gauges for what is, counters for what was."""
        yield _info()
        yield from _job_figures(self._figures)
        yield from _attempt_figures(self._figures.ended)
        yield from _house_figures(self._figures)
        yield from _own_figures(self._own)
        if self._own.redis is not None:
            yield from _redis_figures(self._own.redis)
        yield from _input_counters()


def _info() -> Metric:
    info = GaugeMetricFamily("mediamill_build_info", "The version that runs.", labels=["version"])
    info.add_metric([__version__], 1)
    return info


def _job_figures(figures: Figures) -> Iterable[Metric]:
    states = {**figures.states, "dead": sum(figures.dead.values())}
    yield _gauge("mediamill_jobs", "Jobs by state.", "state", states)
    yield _gauge("mediamill_dead_jobs", "The dead letter by reason.", "reason", figures.dead)
    yield _gauge(
        "mediamill_queue_depth", "Jobs that are ready to be claimed, by pool.", "pool", figures.depths
    )
    yield _gauge(
        "mediamill_oldest_waiting_seconds",
        "For how long the oldest job that is ready to be claimed has waited, by pool.",
        "pool",
        figures.oldest_seconds,
    )
    yield _counter("mediamill_claims", "Claims of jobs, by pool.", "pool", figures.claims)
    yield _gauge("mediamill_workers", "Workers by state.", "state", figures.workers)
    yield CounterMetricFamily("mediamill_jobs_completed", "Jobs completed.", value=figures.completed)
    yield CounterMetricFamily(
        "mediamill_jobs_failed", "Jobs that went to the dead letter.", value=figures.failed
    )
    for name, text in _COUNTERS.items():
        yield CounterMetricFamily(f"mediamill_{name}", text, value=figures.counters[name])


_COUNTERS = {
    "stale_recovered": "Claims taken back from workers that were gone, or from attempts that stalled.",
    "stalled": "Attempts that were stopped because they made no progress.",
    "retries_exhausted": "Jobs that used up their attempts.",
    "failures": "Failed attempts.",
}


def _attempt_figures(ended: Iterable[Ended]) -> Iterable[Metric]:
    """By job kind and pool: names that the code and its operator give, never a sender."""
    labels = ["kind", "pool", "outcome"]
    count = CounterMetricFamily("mediamill_attempts", "Attempts at jobs, by how they ended.", labels=labels)
    seconds = HistogramMetricFamily(
        "mediamill_attempt_seconds", "How long attempts took, from their claim to their end.", labels=labels
    )
    for each in ended:
        said = [each.kind, each.pool, str(each.outcome)]
        count.add_metric(said, each.count)
        if each.outcome in TIMED:
            seconds.add_metric(said, _cumulated(BOUNDS, each.buckets), each.seconds)
    yield count
    yield seconds


def _cumulated(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Buckets as Prometheus has them: each counts those before it too."""
    names = [*map(str, bounds), "+Inf"]
    return [(name, float(count)) for name, count in zip(names, accumulate(counts), strict=True)]


def _house_figures(figures: Figures) -> Iterable[Metric]:
    """The database, the chores and the alerts."""
    yield _gauge("mediamill_alerts", "Alerts of the last seven days, by state.", "state", figures.alerts)
    yield _gauge(
        "mediamill_chore_last_run_timestamp_seconds",
        "When a chore was last begun, by any process.",
        "chore",
        figures.chores,
    )
    use = figures.database
    yield GaugeMetricFamily("mediamill_database_bytes", "Size of the database.", value=use["bytes"])
    yield _gauge(
        "mediamill_database_server_connections",
        "Connections to the database server, of everybody, and how many it takes.",
        "state",
        {"used": use["connections"], "most": use["most_connections"]},
    )
    yield GaugeMetricFamily(
        "mediamill_database_oldest_transaction_seconds",
        "For how long the oldest transaction has been open; a long one slows every claim.",
        value=use["oldest_transaction_seconds"],
    )


def _request_figures(requests: Requests) -> Iterable[Metric]:
    count = CounterMetricFamily(
        "mediamill_http_requests", "Requests that this server has answered.", labels=["method", "status"]
    )
    for (method, status), number in requests.counts.items():
        count.add_metric([method, status], number)
    yield count
    yield HistogramMetricFamily(
        "mediamill_http_answer_seconds",
        "How long it took until an answer began.",
        buckets=_cumulated(ANSWER_BOUNDS, requests.buckets),
        sum_value=requests.seconds,
    )


def _own_figures(own: _Own) -> Iterable[Metric]:
    yield from _request_figures(own.requests)
    yield _gauge("mediamill_database_pool", "Connections in the pool of this server.", "state", own.pool)
    yield GaugeMetricFamily(
        "mediamill_event_streams", "Clients that follow live events at this server.", value=own.hub.streams
    )
    yield CounterMetricFamily(
        "mediamill_events_sent", "Live events handed to those clients.", value=own.hub.sent
    )
    yield CounterMetricFamily(
        "mediamill_event_streams_dropped",
        "Clients that did not keep up and were let go.",
        value=own.hub.dropped,
    )
    yield GaugeMetricFamily(
        "mediamill_disk_free_bytes", "Free space in the data folder.", value=own.disk["free_bytes"]
    )
    yield GaugeMetricFamily(
        "mediamill_disk_bytes", "Size of the disk of the data folder.", value=own.disk["total_bytes"]
    )


_REDIS_COUNTERS = {
    "opened": "How often the circuit breaker opened because Redis was away.",
    "hints_published": "Hints of waiting jobs that this server wrote to Redis.",
}


def _redis_figures(facts: dict[str, Any]) -> Iterable[Metric]:
    """Of this server: each process has its own breaker."""
    states = {str(state): int(facts["breaker"] == state) for state in BreakerState}
    yield _gauge("mediamill_redis_breaker", "State of the circuit breaker before Redis.", "state", states)
    yield GaugeMetricFamily("mediamill_redis_up", "Whether Redis answers.", value=facts["state"] == "ok")
    yield GaugeMetricFamily("mediamill_redis_relayed", "Whether hints flow.", value=facts["relayed"])
    for name, text in _REDIS_COUNTERS.items():
        yield CounterMetricFamily(f"mediamill_redis_{name}", text, value=facts[name])


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


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        gauge.add_metric([key], value)
    return gauge


def _counter(name: str, text: str, label: str, values: dict[str, int]) -> CounterMetricFamily:
    counter = CounterMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        counter.add_metric([key], value)
    return counter

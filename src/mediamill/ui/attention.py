"""What needs somebody's attention first, as a few lines at the head of the dashboard. Pure: figures in, words out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mediamill.ui.figures import Figures
from mediamill.ui.words import count, size, span

LEAST_FREE_SHARE = 0.05
LEAST_FREE_BYTES = 2 * 10**9
LONG_WAIT_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Notice:
    """One line: how bad it is, what it is, and where to go."""

    tone: str
    words: str
    path: str = ""
    link: str = ""
    command: str = ""


def needs_attention(figures: Figures) -> list[Notice]:
    """The worst first."""
    found = list(_notices(figures))
    return sorted(found, key=lambda notice: notice.tone != "bad")


def _notices(figures: Figures) -> Iterator[Notice]:
    if not figures.database_ok:
        yield Notice(
            "bad",
            "The database is away. Nothing is lost: jobs wait, and this page comes back by itself.",
            command="mediamill doctor",
        )
    free, total = figures.free_bytes, figures.disk_bytes
    if total and (free < LEAST_FREE_SHARE * total or free < LEAST_FREE_BYTES):
        yield Notice("bad", f"The disk is almost full: {size(free)} left.", "/storage", "What lies where")
    if figures.redis is not None and figures.redis["state"] != "ok":
        yield Notice("warn", "Redis is away. Workers are woken by the database meanwhile; nothing is lost.")
    if figures.database_ok:
        yield from _of_jobs(figures)


def _of_jobs(figures: Figures) -> Iterator[Notice]:
    waiting = figures.states["queued"] + figures.states["scheduled"]
    if waiting and not figures.present:
        yield Notice("warn", "Jobs wait, but no worker is there. Start one:", command="mediamill worker")
    for wait in figures.waits:
        yield Notice("warn", _words_of_wait(wait), "/jobs?state=scheduled", "Jobs that wait")
    for pool in figures.pools:
        if figures.present and pool["oldest_at"] is not None:
            seconds = (datetime.now(UTC) - pool["oldest_at"]).total_seconds()
            if seconds > LONG_WAIT_SECONDS:
                words = f"A job of the pool {pool['pool']} has waited for {span(seconds)}."
                yield Notice("warn", words, "/pools", "Pools")
    if figures.dead_count:
        jobs = "1 job has" if figures.dead_count == 1 else f"{count(figures.dead_count)} jobs have"
        yield Notice("warn", f"{jobs} failed for good.", "/dead", "Dead letter")


def _words_of_wait(wait: dict[str, Any]) -> str:
    jobs = "1 job" if wait["jobs"] == 1 else f"{count(wait['jobs'])} jobs"
    if wait["since"] is None:
        return f"Waiting for the model server at {wait['server']}: {jobs}."
    seconds = (datetime.now(UTC) - wait["since"]).total_seconds()
    return f"Waiting for the model server at {wait['server']}: {jobs}, for {span(seconds)}. Nothing is lost."

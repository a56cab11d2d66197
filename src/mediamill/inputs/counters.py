"""What happened to images, counted for /metrics and told in the log with whose they were."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import Final
from uuid import UUID

from asyncpg import Record

from mediamill.errors import MediamillError
from mediamill.inputs.model import Scope

log = logging.getLogger(__name__)

INGESTED: Final = "images_ingested_count"
INGESTED_BYTES: Final = "images_ingested_bytes"
CLAIMED: Final = "images_claimed_count"
DELETED: Final = "images_deleted_after_delivery_count"
PURGED: Final = "images_purged_expired_count"
PURGED_BOUND: Final = "images_purged_expired_bound_count"
REJECTED: Final = "inputs_rejected_count"
NAMES: Final = (INGESTED, INGESTED_BYTES, CLAIMED, DELETED, PURGED, PURGED_BOUND)

# Of this process, since it began: by name and source, and refusals by source and code.
counts: Counter[tuple[str, str]] = Counter()
rejects: Counter[tuple[str, str]] = Counter()


def count_ingested(scope: Scope, amount: int, size: int, run_id: UUID | None = None) -> None:
    """Images came in."""
    _count(INGESTED, scope, amount, run_id)
    _count(INGESTED_BYTES, scope, size, run_id)


def count_claimed(scope: Scope, amount: int, run_id: UUID) -> None:
    """Images that waited go with a run."""
    _count(CLAIMED, scope, amount, run_id)


def count_deleted(scope: Scope, amount: int, run_id: UUID) -> None:
    """The agent has taken them."""
    _count(DELETED, scope, amount, run_id)


def count_purged(rows: Iterable[Record]) -> None:
    """Nobody took them for three days. Of a run that is bad news."""
    for row in rows:
        scope = Scope(row["source"], row["thread_key"])
        _count(PURGED, scope, 1, row["run_id"])
        if row["run_id"] is not None:
            _count(PURGED_BOUND, scope, 1, row["run_id"], logging.WARNING)


def count_rejected(source: str, error: MediamillError, thread_key: str | None = None) -> None:
    """Something was refused, with the code that was told."""
    rejects[error.code, source] += 1
    words = "%s=1 source=%s thread_key=%r code=%s"
    facts = {"count": 1, "source": source, "thread_key": thread_key, "code": error.code}
    log.info(words, REJECTED, source, thread_key, error.code, extra={"event": REJECTED, "facts": facts})


def _count(name: str, scope: Scope, amount: int, run_id: UUID | None, level: int = logging.INFO) -> None:
    if amount:
        counts[name, scope.source] += amount
        log.log(
            level,
            "%s=%d source=%s thread_key=%r run_id=%s",
            name,
            amount,
            scope.source,
            scope.thread_key,
            run_id,
            extra={"event": name, "facts": {"count": amount, **asdict(scope), "run_id": run_id}},
        )

"""Something to count, so that metrics have labels."""

from __future__ import annotations

from uuid import UUID

from mediamill.engine.attempts import Outcome
from mediamill.engine.recovery.sweep import take_turn
from mediamill.inputs import counters
from mediamill.inputs.model import ImageBufferError, Scope
from tests.api.serving import Served


def count_images() -> None:
    """A counter by source shows its labels when something was counted."""
    scope, run = Scope("api", "a thread"), UUID(int=1)
    counters.count_ingested(scope, 1, 10)
    counters.count_claimed(scope, 1, run)
    counters.count_deleted(scope, 1, run)
    counters.count_purged([{"source": "api", "thread_key": "a thread", "run_id": run}])  # type: ignore[list-item]
    counters.count_rejected("api", ImageBufferError())


async def make_history(served: Served) -> None:
    """Attempts of every outcome, and a sweep: a label is told when there was something to count."""
    await served.run(
        "insert into attempts (kind, pool, outcome, bucket, shard, count, seconds) "
        "select 'scripted.run', 'scripted', outcome, 1, 0, 1, 0.2 from unnest($1::text[]) as outcome",
        [str(outcome) for outcome in Outcome],
    )
    assert await take_turn(served.database, "sweep_turn", 60)

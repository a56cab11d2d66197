"""Outcomes on their way to a server: what became of each job, and whether there may be something to claim."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.kinds import Kinds
from mediamill.engine.model import ClaimedJob, Failure
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.engine.settle import Elsewhere, Finish
from mediamill.worker.remote_source import RemoteSource
from mediamill.worker.server_link import ServerLink
from mediamill.worker.settling import Outcome, Settler
from mediamill.worker.source import Source
from tests.worker.canned import canned

pytestmark = pytest.mark.spec("E5")

JOB = ClaimedJob(7, 3, 5, "test.k", "audio", "o", None, None, 1, 3, "{}", None)
DONE = (200, {"outcome": "completed"})
REFUSED = (422, {"code": "payload_too_large", "detail": "too large"})
LOST = (409, {"code": "claim_lost", "detail": "no"})
AWAY = (503, b"")
AGAIN, DEAD = (200, {"dead": False}), (200, {"dead": True})
OK = (204, b"")
NO = (JOB, Failure("no", False))


@dataclass
class Slots:
    """Whose outcomes they are."""

    source: Source
    pool: Pool
    woken: int = 0

    def wake(self) -> None:
        self.woken += 1


@pytest.mark.parametrize(
    ("outcome", "answers", "asked", "counts", "woken"),
    [
        # counts: completed, failed, lost
        (Finish(JOB, "1"), [DONE], ["complete"], (1, 0, 0), 0),
        (Finish(JOB, "1"), [AWAY, DONE], ["complete"] * 2, (1, 0, 0), 0),
        (Finish(JOB, "1"), [LOST], ["complete"], (0, 0, 1), 0),
        (Finish(JOB, "1"), [REFUSED, AGAIN], ["complete", "fail"], (0, 1, 0), 1),
        (NO, [AGAIN], ["fail"], (0, 1, 0), 1),
        (NO, [AWAY, DEAD], ["fail"] * 2, (0, 1, 0), 1),
        (NO, [LOST], ["fail"], (0, 0, 1), 0),
        (Elsewhere(JOB, "a/b"), [AWAY, OK], ["reroute"] * 2, (0, 0, 0), 0),
        (Elsewhere(JOB, "a/b"), [LOST], ["reroute"], (0, 0, 1), 0),
        (Elsewhere(JOB, "a/b"), [REFUSED, DEAD], ["reroute", "fail"], (0, 1, 0), 1),
    ],
)
async def test_every_outcome_is_said_until_it_is_settled_and_counted_once(
    tmp_path: Path,
    outcome: Outcome,
    answers: list[tuple[int, Any]],
    asked: list[str],
    counts: tuple[int, int, int],
    woken: int,
) -> None:
    settled: list[int] = []
    rests: list[int] = []
    async with canned(*answers) as server:
        source = RemoteSource(ServerLink(server.url, "key"), Engine(Kinds([])), 5, tmp_path)
        slots = Slots(source, Pool("audio"))
        settler = Settler(
            slots,
            settled=lambda jobs: settled.extend(one.id for one in jobs),
            rested=lambda: rests.append(len(settled)),
        )
        settler.add(outcome)
        assert (settler.waiting, settler.jobs, server.asked) == (1, [JOB], [])
        working = asyncio.create_task(settler.settle_forever())
        await settler.settle_all()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await source._link.close()
    assert [one.path.rpartition("/")[2] for one in server.asked] == asked
    assert (settler.completed, settler.failed, settler.lost) == counts
    assert settler.ended == counts[0] + counts[1]
    assert (settler.waiting, settler.jobs, settled, rests, slots.woken) == (0, [], [7], [1], woken)

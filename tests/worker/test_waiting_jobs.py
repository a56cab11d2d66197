"""Jobs that wait for a child: in their order, but no owner's job holds up another's."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from mediamill.worker.failures import SandboxClosedError
from mediamill.worker.waiting_jobs import WaitingJobs
from mediamill.worker.warm_child import WarmChild

CHILDREN = [cast("WarmChild", object()) for _ in range(2)]


async def test_a_job_that_needs_a_fresh_child_does_not_hold_up_those_behind_it() -> None:
    waiting = WaitingJobs()
    jobs = [waiting.add(owner) for owner in ("ann", "bob", "bob")]
    idle = {"bob": list(CHILDREN)}
    waiting.serve(lambda owner: idle[owner].pop(0) if idle.get(owner) else None)
    assert not jobs[0].done()
    assert [job.result() for job in jobs[1:]] == CHILDREN
    assert len(waiting) == 1


async def test_a_job_that_was_cancelled_gets_no_child_and_no_reason() -> None:
    waiting = WaitingJobs()
    served, failed, other = (waiting.add(owner) for owner in ("ann", "bob", "cid"))
    served.cancel()
    waiting.serve(lambda owner: CHILDREN[0] if owner == "ann" else None)
    assert len(waiting) == 2
    failed.cancel()
    waiting.fail(SandboxClosedError())
    with pytest.raises(SandboxClosedError):
        await other
    for job in (served, failed):
        with pytest.raises(asyncio.CancelledError):
            await job

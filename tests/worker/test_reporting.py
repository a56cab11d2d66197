"""Reports of a child on their way home: the newest is enough, unless somebody is told of each."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mediamill.worker.messages import Report
from mediamill.worker.reporting import MOST_WAITING, Reporter
from mediamill.worker.run import LaneRun, Slot


class SlowHome:
    """Whoever saves reports: not before it is let."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.saved: list[dict[str, Any]] = []
        self.job, self.slot = SimpleNamespace(id=1), Slot()

    async def report(self, **told: Any) -> None:
        await self.open.wait()
        self.saved.append(told)


async def send(home: SlowHome, *reports: Report, each: bool) -> list[dict[str, Any]]:
    reporter = Reporter(cast("LaneRun", home), each=each)
    for report in reports:
        reporter.put(report)
        await asyncio.sleep(0)  # the first is on its way
    home.open.set()
    await reporter.close()
    return home.saved


@pytest.mark.spec("E4", "L7")
async def test_every_report_of_a_part_is_saved_in_order_where_somebody_is_told_of_it() -> None:
    reports = [Report(percent=float(number), parts={"scene": number}) for number in range(10)]
    reports.insert(5, Report(percent=4.5))
    saved = await send(SlowHome(), *reports, each=True)
    assert [told["parts"]["scene"] for told in saved] == list(range(10))
    assert saved[4]["percent"] == 4.5


@pytest.mark.spec("E4")
async def test_otherwise_the_newest_of_each_thing_is_saved() -> None:
    reports = [Report(step="look", parts={"at": number}) for number in range(10)]
    saved = await send(SlowHome(), *reports, Report(percent=50.0), each=False)
    assert saved == [reports_as_told(0), {**reports_as_told(9), "percent": 50.0}]


async def test_a_child_that_floods_its_worker_fills_no_memory() -> None:
    reports = [Report(parts={"at": number}) for number in range(2 * MOST_WAITING)]
    saved = await send(SlowHome(), *reports, each=True)
    assert len(saved) <= MOST_WAITING + 1
    assert saved[-1]["parts"] == {"at": 2 * MOST_WAITING - 1}


def reports_as_told(number: int) -> dict[str, Any]:
    return {"step": "look", "parts": {"at": number}}

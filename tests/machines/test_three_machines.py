"""Three machines, with faults of every sort drawn by a seed: nothing is lost, nothing done twice, nobody stays away."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.machines.run import Plan, Run
from bench.machines.site import LEASE_SECONDS
from tests.conftest import server_folder
from tests.machines.sites import skip_unless_possible

SEED = 1935  # it draws one of each sort; the pause is longer than a lease

# Workers show that they are back by ending new jobs: so many are enough for that, and more cost a child process each.
PLAN = Plan(faults=8, modes=("hybrid",), seed=SEED, jobs_per_second=8, patience_seconds=600, owners=2)

SORTS = {
    "kill -9 of a worker",
    "kill -9 of server",
    "kill -9 of postgresql",
    "kill -9 of redis",
    "pause of a worker",
    "cable cut",
    "cable cut one way",
    "late and lost frames",
}


@pytest.mark.timeout(1800)
@pytest.mark.spec("E5", "E8", "E9", "E17", "E23", "E30-redis")
async def test_links_cut_nodes_killed_and_processes_paused_lose_nothing_and_double_nothing() -> None:
    skip_unless_possible()
    with server_folder() as folder:
        run = Run(PLAN, Path(folder))
        figures = await run.run()
    assert (figures["lost"], figures["twice"], figures["stuck"]) == (0, 0, 0), str(figures)
    # Every job has many more attempts than there are faults, and none gives up: one that is dead is a defect.
    assert (figures["dead"], figures["died_of"]) == (0, {}), str(figures)
    # All are back within 15 s if the machine has time for them. One that is busy with other things may need many times
    # that, as a worker shows that it is back by ending a job: so the patience above is long.
    late = [
        f"{each.waited_for}: {'; '.join(map(str, each.faults))}"
        for each in run.recoveries
        if each.seconds is None
    ]
    assert late == [], str(figures)
    assert figures["tracebacks"] == 0
    assert figures["ended_by_themselves"] == {}
    assert figures["jobs"] > 100
    assert figures["of_them_images"] > 0
    faults = [fault for each in run.recoveries for fault in each.faults]
    assert {fault.sort for fault in faults} == SORTS
    assert max(fault.seconds for fault in faults if fault.sort == "pause of a worker") > LEASE_SECONDS

"""The page on many machines: its figures are those of the benchmarks, and its computed table follows its formulas."""

from __future__ import annotations

import re

import pytest

from mediamill.settings import Settings
from tests.deploy.reading import ROOT, of_kind

PAGE = (ROOT / "docs" / "how-to" / "many-machines.md").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()
MACHINES = (1, 2, 5, 10, 20, 50, 100)

CORES = 2
CHILDREN_SECONDS, WORKER_SECONDS = 0.069, 0.0039
DATABASE_SECONDS, FEED_SECONDS = 0.0022, 0.0003
WAL_BYTES, ASSET_BYTES = 2_646, 620 + 292
PHOTOGRAPH_BYTES = 5_000_000
BESIDE_THE_POOL_OF_A_SERVER = 10
BESIDE_THE_POOL = 3
POOLER_SESSIONS = 20
# Where benchmarks.md says so: a change there must be followed here.
CITED = (
    "the children take\n69 ms of CPU, the worker 3.9, the database 2.2, the feed 0.3",
    "2,646 bytes of WAL for a job of this mix",
    "Capacity: 2,108 jobs/s",
    "assets 620 and\n  theirs 292",
    "12 and 24 megapixels (3.7 to 7.3 MB)",
    "| whisper-base | 9.2 % | 15.9 % | 14.6 % | 37.0 % | 0.37 |",
    "| mediamill | 37.8, 33.9, 37.0 | 22 |",
    "| drain, 1 process, jobs/s | 25,309 [19,355 … 25,374] | 27,748 ",
    "6,486 jobs/s",
    "| assets that wait become 1,000 jobs | 62 / 121 / 37 | 71 / 108 / 46 |",
    "(24.0 to 27.0 images a second)",
)


def connections(workers: int) -> int:
    pool = int(Settings.model_fields["database_connections"].default)
    return pool + BESIDE_THE_POOL_OF_A_SERVER + (pool + BESIDE_THE_POOL) * workers


def with_pooler(workers: int) -> int:
    return POOLER_SESSIONS + BESIDE_THE_POOL_OF_A_SERVER + BESIDE_THE_POOL * workers


def compute_row(machines: int) -> str:
    """One row of the table, by the formulas of the page."""
    rate = machines * CORES / (CHILDREN_SECONDS + WORKER_SECONDS)
    cells = (
        f"{machines}",
        f"{rate:,.0f}",
        f"{rate * (DATABASE_SECONDS + FEED_SECONDS):.1f}",
        f"{connections(machines):,}",
        f"{with_pooler(machines):,}",
        f"{rate * 86_400 / 1e6:,.1f}",
        f"{rate * WAL_BYTES / 1e6:.2f}",
        f"{rate * 86_400 * ASSET_BYTES / 1e9:,.1f}",
        f"{rate * PHOTOGRAPH_BYTES / 1e6:,.0f}",
    )
    return f"| {' | '.join(cells)} |"


@pytest.mark.parametrize("figure", CITED)
def test_a_figure_that_the_page_builds_on_is_in_the_benchmarks(figure: str) -> None:
    assert figure in BENCHMARKS


@pytest.mark.parametrize("machines", MACHINES)
def test_a_row_of_the_table_follows_the_formulas(machines: int) -> None:
    assert compute_row(machines) in PAGE.splitlines()


def test_the_table_says_that_it_is_computed() -> None:
    assert "**Computed, not measured.**" in PAGE
    rows = re.findall(r"^\| \d+ \|", PAGE.split("## Formulas")[1], re.MULTILINE)
    assert len(rows) == len(MACHINES)


def test_the_connections_of_all_workers_that_a_scaler_may_start_are_told() -> None:
    most = of_kind("HorizontalPodAutoscaler")[0]["spec"]["maxReplicas"]
    kubernetes = (ROOT / "docs" / "how-to" / "kubernetes.md").read_text()
    assert f"{most} workers need about {round(connections(most), -1)} of PostgreSQL" in kubernetes
    assert f"with a pooler {with_pooler(most)}:" in kubernetes

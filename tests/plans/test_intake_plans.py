"""The statements of intake go by indexes and touch what they take, however many files there are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mediamill.intake.store import queries
from tests.plans.frame import Case, Plans, check_plan, each, explained

TABLES = ("project_files", "analyses", "proposals", "watched_files")
FILES, PROJECTS, FIELDS = 40_000, 100, 3
# 40,000 files in 100 projects, every tenth one a twin; three proposals each, those of every second file decided.
FILL = (
    f"""insert into projects (slug, name) select 'p' || n, 'P' from generate_series(1, {PROJECTS}) n""",
    f"""insert into analyses (sha256, catalog, extractor, mime_type, bytes, state, job_id)
    select sha256(n::text::bytea), sha256('fields'), 'rules@1', 'text/plain', 1,
        case when n > {FILES - 1000} then 'queued' else 'completed' end, n
    from generate_series(1, {FILES}) n""",
    f"""insert into project_files (project_id, analysis_id, name)
    select 1 + n % {PROJECTS}, case when n % 10 = 0 then n - 1 else n end, 'file ' || n
    from generate_series(1, {FILES}) n""",
    f"""insert into proposals (file_id, field, value, confidence, origin, state)
    select n, 'f' || f, 'x', 0.5, 'rules@1', case when n % 2 = 0 then 'accepted' else 'pending' end
    from generate_series(1, {FILES}) n, generate_series(1, {FIELDS}) f""",
    f"""insert into watched_files (project_id, rel_path, mtime_ns, size)
    select 1 + n % {PROJECTS}, n::text::bytea, 1, 1 from generate_series(1, {FILES}) n""",
)
SOME = list(range(1, 51))
PAGE = {"project": 7, "state": None, "before": FILES * 2, "amount": 50}
WAITING = {
    "project": 8,
    "file": None,
    "state": "pending",
    "field": None,
    "after_file": 0,
    "after": 0,
    "amount": 50,
}
CONTENT = {"sha256": "x" * 32, "catalog": "y" * 32, "extractor": "rules@1"}
ENTERED = {"file": 77, "field": "f1", "value": "y", "unit": "", "origin": "person"}
CASES = [
    Case(queries.list_files, PAGE, 51 * 3),
    Case(queries.list_files, PAGE | {"before": FILES // 2}, 51 * 3, "far back"),
    Case(queries.show_file, {"id": FILES // 2}, 3),
    Case(queries.list_proposals, WAITING, 4 * 100),
    Case(queries.list_proposals, WAITING | {"after_file": FILES // 2}, 4 * 100, "far on"),
    Case(queries.list_proposals, WAITING | {"file": 1007}, 10, "of a file"),
    Case(queries.proposals_of_file, {"file": 77}, 10),
    Case(queries.count_proposals, {"files": SOME}, 150),
    Case(queries.best_values, {"files": SOME, "pending": True, "person": "person"}, 150),
    Case(queries.change_entered, ENTERED, 10),
    Case(queries.pick_analysis, CONTENT, 1),
    Case(queries.lock_analysis, {"id": 77, "job": 77}, 1),
    Case(queries.files_of_analysis, {"analysis": 9}, 3),
    Case(queries.drop_pending, {"files": SOME, "person": "person"}, 300),
    Case(queries.drop_orphans, {"ids": SOME}, 100),
    Case(queries.known_contents, {"contents": [chr(65 + n) * 32 for n in range(26)]}, 50),
    Case(queries.known_paths, {"project": 7, "paths": ["6", "106"]}, 2),
    Case(queries.unnamed_outputs, {"outputs": ["a", "b"], "jobs": [1, 2], "ids": [1, 2]}, 4),
    Case(queries.findable_after, {"after": FILES // 2, "batch": 500}, 1000),
]


@pytest.fixture(scope="module")
def plans(server_url: str, template_url: str) -> Iterator[Plans]:
    with explained(server_url, FILL, TABLES, CASES) as plans:
        yield plans


@pytest.mark.spec("P1", "P5", "P6")
@each(CASES)
def test_no_table_is_scanned_and_few_rows_are_looked_at(plans: Plans, number: int, mode: str) -> None:
    check_plan(plans[number, mode], TABLES, CASES[number].examines)

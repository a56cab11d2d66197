"""The record of requirements: what the plugin refuses and writes, and what the tool says about it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.spec import Outcome, Requirement, as_json, as_table, read_requirements, show_requirements

ROOT = Path(__file__).resolve().parents[2]

REQUIREMENTS = """# Requirements

| id | requirement |
|---|---|
| E1 | water is wet |
| E2 | fire is hot |
| E3 | ice is cold |

## Later

| id | requirement |
|---|---|
| E3-steam | steam is dry |
"""

TESTS = """
import pytest

@pytest.mark.spec("E1", "E2")
def test_a_thing_that_holds(): pass

@pytest.mark.spec("E2")
def test_a_thing_that_does_not_hold(): assert False

@pytest.mark.spec("E3")
@pytest.mark.skip(reason="not today")
def test_a_thing_that_was_not_tried(): pass

def test_a_thing_that_nobody_required(): pass
"""


@pytest.fixture
def small_project(tmp_path: Path) -> Path:
    """A made-up project with the real plugin and tool, three requirements for today and one for later."""
    for name in ("conftest.py", "tests/spec_plugin.py", "scripts/spec.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "requirements.md").write_text(REQUIREMENTS)
    (tmp_path / "tests" / "test_things.py").write_text(TESTS)
    markers = "[pytest]\ntestpaths = tests\npythonpath = .\nmarkers =\n    spec(*ids): requirements\n"
    (tmp_path / "pytest.ini").write_text(markers)
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Without the plugins of this project's own tests, which take longer to load than the small project to run."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "xdist.plugin"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def record_of(*tests: tuple[str, list[str], str]) -> list[Outcome]:
    return [{"test": test, "spec": ids, "outcome": outcome} for test, ids, outcome in tests]


def test_every_requirement_of_the_document_has_an_id_of_its_own_and_a_line() -> None:
    rows = read_requirements(ROOT / "docs" / "requirements.md")
    ids = [row.id for row in rows]
    assert len(ids) == len(set(ids))
    assert {"E1", "E17", "E20", "E24", "E30", "E34"} <= set(ids)
    assert not any(row.later for row in rows)
    assert all(row.line for row in rows)


def test_every_requirement_of_the_document_is_on_the_mark_of_a_test() -> None:
    """Whether those tests pass is for a whole run to say (make spec); this says at once that one is missing."""
    marked: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path != Path(__file__):
            marks = re.findall(r"mark\.spec\(([^)]*)\)", path.read_text())
            marked.update(name for mark in marks for name in re.findall(r'"([^"]+)"', mark))
    assert [
        row.id for row in read_requirements(ROOT / "docs" / "requirements.md") if row.id not in marked
    ] == []


def test_a_requirement_is_shown_only_if_it_has_tests_and_all_of_them_pass() -> None:
    rows = [Requirement(name, "a line", later=False) for name in ("E1", "E2", "E3", "E4")]
    record = record_of(
        ("a", ["E1", "E2"], "passed"), ("b", ["E2"], "failed"), ("c", ["E3"], "skipped"), ("d", [], "passed")
    )
    shown = show_requirements(rows, record)
    assert [(each.status, each.passed) for each in shown] == [
        ("pass", True),
        ("fail", False),
        ("missing", False),
        ("missing", False),
    ]
    assert json.loads(as_json(shown))[1] == {"id": "E2", "tests": ["a", "b"], "passed": False}


def test_what_comes_later_is_said_to_be_later_and_is_no_failure() -> None:
    shown = show_requirements([Requirement("E30-redis", "streams", later=True)], [])
    assert as_table(shown).split()[:2] == ["E30-redis", "later"]
    assert json.loads(as_json(shown)) == []


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_a_full_run_records_every_test_and_the_tool_reports_it(
    small_project: Path, workers: list[str]
) -> None:
    run(small_project, "-m", "pytest", "-q", *workers)
    record = json.loads((small_project / ".cache" / "spec.json").read_text())["tests"]
    assert [test["outcome"] for test in record] == ["passed", "failed", "skipped", "passed"]

    answer = run(small_project, "scripts/spec.py", "--json")
    holds, fails = (f"tests/test_things.py::test_a_thing_that_{what}" for what in ("holds", "does_not_hold"))
    skipped = "tests/test_things.py::test_a_thing_that_was_not_tried"
    assert json.loads(answer.stdout) == [
        {"id": "E1", "tests": [holds], "passed": True},
        {"id": "E2", "tests": [holds, fails], "passed": False},
        {"id": "E3", "tests": [skipped], "passed": False},
    ]
    table = run(small_project, "scripts/spec.py")
    assert table.returncode == 1
    assert table.stdout.rstrip().endswith("not shown by passing tests: E2, E3")


@pytest.mark.parametrize(
    "choice", [["-k", "holds"], ["tests/test_things.py"], ["-x"], ["-x", "-n2"], ["--collect-only"]]
)
def test_a_run_of_chosen_tests_leaves_the_record_alone(small_project: Path, choice: list[str]) -> None:
    run(small_project, "-m", "pytest", "-q", *choice)
    assert not (small_project / ".cache" / "spec.json").exists()


def test_a_test_that_ends_its_worker_is_recorded_as_failed(small_project: Path) -> None:
    tests = small_project / "tests" / "test_things.py"
    tests.write_text(TESTS.replace("holds(): pass", "holds(): __import__('os')._exit(1)"))
    run(small_project, "-m", "pytest", "-q", "-n", "2")
    record = json.loads((small_project / ".cache" / "spec.json").read_text())["tests"]
    assert [test["outcome"] for test in record] == ["failed", "failed", "skipped", "passed"]
    assert record[0]["spec"] == ["E1", "E2"]


def test_a_mark_with_an_unknown_id_stops_the_run(small_project: Path) -> None:
    (small_project / "tests" / "test_more.py").write_text(TESTS.replace('"E1"', '"E99"'))
    answer = run(small_project, "-m", "pytest", "-q")
    assert answer.returncode == pytest.ExitCode.USAGE_ERROR
    assert "no such requirement: E99" in answer.stdout + answer.stderr
    assert not (small_project / ".cache" / "spec.json").exists()

"""Prints each requirement of docs/requirements.md with the tests that show it and whether they pass.

Reads the record that tests/spec_plugin.py wrote; `--json` prints a list of {"id", "tests", "passed"}.
"""

import argparse
import json
import re
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\|\s*(?P<id>[A-Z]+[0-9]+[a-z0-9-]*)\s*\|\s*(?P<line>.+?)\s*\|\s*$")


class Outcome(TypedDict):
    """What the record keeps of one test."""

    test: str
    spec: list[str]
    outcome: str


@dataclass(frozen=True)
class Requirement:
    """One row of docs/requirements.md."""

    id: str
    line: str
    later: bool


@dataclass(frozen=True)
class Shown:
    """A requirement with its tests, and which of them passed."""

    requirement: Requirement
    tests: list[str]
    passing: list[str]

    @property
    def passed(self) -> bool:
        return bool(self.tests) and self.tests == self.passing

    @property
    def status(self) -> str:
        if self.passed:
            return "pass"
        if self.requirement.later:
            return "later"
        return "fail" if self.passing else "missing"


def read_requirements(path: Path) -> list[Requirement]:
    """The rows of all tables, in order; those under the heading "Later" are marked so."""
    rows, later = [], False
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            later = line.lstrip("# ").strip() == "Later"
        elif match := ROW.match(line):
            rows.append(Requirement(match["id"], match["line"], later))
    return rows


def show_requirements(rows: Iterable[Requirement], record: list[Outcome]) -> list[Shown]:
    """Joins the requirements with the record of the last full test run."""
    shown = []
    for row in rows:
        mine = [test for test in record if row.id in test["spec"]]
        passing = [test["test"] for test in mine if test["outcome"] == "passed"]
        shown.append(Shown(row, [test["test"] for test in mine], passing))
    return shown


def as_json(shown: Iterable[Shown]) -> str:
    """What scripts read; what is planned for later is no failure and is left out."""
    now = [each for each in shown if not each.requirement.later]
    rows = [{"id": each.requirement.id, "tests": each.tests, "passed": each.passed} for each in now]
    return json.dumps(rows, indent=1)


def as_table(shown: Iterable[Shown]) -> str:
    """What people read: a line per requirement and, below it, its tests."""
    lines = []
    for each in shown:
        lines.append(f"{each.requirement.id:<11} {each.status:<8} {each.requirement.line}")
        for test in each.tests:
            lines.append(f"{'':<20} {'ok  ' if test in each.passing else 'FAIL'} {test}")
    return "\n".join(lines)


def main() -> int:
    """Returns 1 if a requirement of today is not shown by passing tests."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository to read")
    options = parser.parse_args()
    record_path = options.root / ".cache" / "spec.json"
    if not record_path.exists():
        print("no record of a test run yet: run the tests first (make spec does)", file=sys.stderr)
        return 2
    record: list[Outcome] = json.loads(record_path.read_text())["tests"]
    shown = show_requirements(read_requirements(options.root / "docs" / "requirements.md"), record)
    if options.json:
        print(as_json(shown))
        return 0
    print(as_table(shown))
    open_ones = [each.requirement.id for each in shown if each.status in ("fail", "missing")]
    if open_ones:
        print(f"\nnot shown by passing tests: {', '.join(open_ones)}")
    return 1 if open_ones else 0


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make spec | head` ends quietly
    sys.exit(main())

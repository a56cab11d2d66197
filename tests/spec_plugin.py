"""Ties tests to requirements: refuses unknown ids, and records every full run in .cache/spec.json."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scripts.spec import Outcome, read_requirements

RECORD = Path(".cache/spec.json")


def spec_ids(item: pytest.Item) -> list[str]:
    """The requirement ids on a test, its class and its module, each once."""
    return list(dict.fromkeys(str(name) for mark in item.iter_markers("spec") for name in mark.args))


def is_full_run(config: pytest.Config) -> bool:
    """Whether nothing was chosen on the command line: only then does the record speak for the whole suite."""
    chosen = config.args_source is pytest.Config.ArgsSource.ARGS
    narrowed = any(
        config.getoption(name, None)
        for name in ("keyword", "markexpr", "lf", "last_failed", "collectonly", "quick")
    )
    return (
        not chosen
        and not narrowed
        and not config.getoption("ignore", None)
        and not config.getoption("deselect", None)
    )


class SpecRecord:
    """Collects the outcome of each test of one run, also where several worker processes (xdist) share it.

    Workers collect the tests and tell their ids when they end; outcomes reach the process that started them.
    """

    def __init__(self) -> None:
        self.ids: dict[str, list[str]] = {}
        self.outcomes: dict[str, str] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Every id on a test must be a requirement of docs/requirements.md."""
        known = {row.id for row in read_requirements(config.rootpath / "docs" / "requirements.md")}
        for item in items:
            self.ids[item.nodeid] = spec_ids(item)
            unknown = [name for name in self.ids[item.nodeid] if name not in known]
            if unknown:
                raise pytest.UsageError(
                    f"{item.nodeid}: no such requirement: {', '.join(unknown)} (docs/requirements.md)"
                )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Passed means that the call passed and nothing around it failed; an xfail is no pass."""
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            self.outcomes[report.nodeid] = "passed"
        elif report.failed or report.skipped:
            self.outcomes[report.nodeid] = report.outcome

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker has ended: each collected all tests, so that one which died is made up for by another."""
        self.ids.update(getattr(node, "workeroutput", {}).get("spec_ids", {}))

    def write(self, record: Path) -> None:
        """A test that was given up with its worker counts as failed, one that never began as not run."""
        tests: list[Outcome] = [
            {"test": test, "spec": ids, "outcome": self.outcomes.get(test, "not run")}
            for test, ids in self.ids.items()
        ]
        record.parent.mkdir(exist_ok=True)
        draft = record.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"tests": tests}, indent=1) + "\n")
        draft.replace(record)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Writes the record if the run went to its end, whether or not tests failed."""
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["spec_ids"] = self.ids
            return
        finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stopped = bool(session.shouldstop or session.shouldfail)
        if not finished or stopped or not is_full_run(session.config):
            return
        self.write(session.config.rootpath / RECORD)


def pytest_configure(config: pytest.Config) -> None:
    """Hooks the record into this run."""
    config.pluginmanager.register(SpecRecord(), "spec-record")

"""Ties tests to requirements: refuses unknown ids, and records every full run in .cache/spec.json."""

import json
import os
from pathlib import Path

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
        config.getoption(name, None) for name in ("keyword", "markexpr", "lf", "last_failed", "collectonly")
    )
    return (
        not chosen
        and not narrowed
        and not config.getoption("ignore", None)
        and not config.getoption("deselect", None)
    )


class SpecRecord:
    """Collects the outcome of each test of one run."""

    def __init__(self) -> None:
        self.tests: dict[str, Outcome] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Every id on a test must be a requirement of docs/requirements.md."""
        known = {row.id for row in read_requirements(config.rootpath / "docs" / "requirements.md")}
        for item in items:
            ids = spec_ids(item)
            unknown = [name for name in ids if name not in known]
            if unknown:
                raise pytest.UsageError(
                    f"{item.nodeid}: no such requirement: {', '.join(unknown)} (docs/requirements.md)"
                )
            self.tests[item.nodeid] = {"test": item.nodeid, "spec": ids, "outcome": "not run"}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Passed means that the call passed and nothing around it failed; an xfail is no pass."""
        test = self.tests[report.nodeid]
        if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
            test["outcome"] = "passed"
        elif report.failed or report.skipped:
            test["outcome"] = report.outcome

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Writes the record if the run went to its end, whether or not tests failed."""
        finished = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
        stopped = bool(session.shouldstop or session.shouldfail)
        if not finished or stopped or not is_full_run(session.config):
            return
        record = session.config.rootpath / RECORD
        record.parent.mkdir(exist_ok=True)
        draft = record.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"tests": list(self.tests.values())}, indent=1) + "\n")
        draft.replace(record)


def pytest_configure(config: pytest.Config) -> None:
    """Hooks the record into this run."""
    config.pluginmanager.register(SpecRecord(), "spec-record")

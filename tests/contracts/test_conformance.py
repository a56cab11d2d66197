"""The conformance suite finds what breaks its rules."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from mediamill.errors import GiveUpError, RetryLaterError
from mediamill.media.errors import MissingMediaError
from mediamill.processors.contract import ProcessorInput, ProcessorOutput
from mediamill.testing.conformance import MediaConformance

pytestmark = pytest.mark.spec("C25")

GOOD: dict[str, Any] = {"content": "hello", "mime_type": "a/b", "models": ["m@1"], "tags": []}


class Polite:
    """Keeps every rule."""

    def __init__(self, mime_types: Sequence[str], timeout_seconds: float) -> None:
        self.calls = 0

    def process(self, given: ProcessorInput) -> ProcessorOutput:
        self.calls += 1
        path = given.file
        if path is None or not path.exists():
            raise MissingMediaError
        if not path.read_bytes().startswith(b"good"):
            raise GiveUpError("it is not good")
        given.report("reading", percent=50)
        (given.folder / "copy").write_bytes(b"copy")
        return self.answer(given)

    def answer(self, given: ProcessorInput) -> ProcessorOutput:
        return ProcessorOutput(GOOD, {"copy": "copy"})


class Suite(MediaConformance):
    processor = Polite

    def make_sample(self, path: Path) -> None:
        path.write_bytes(b"good file")


CASES = sorted(name for name in dir(Suite) if name.startswith("test_"))


def run_suite(answer: Callable[[Polite, ProcessorInput], Any], place: Path) -> list[str]:
    """The names of the cases that a processor with this answer fails."""

    class Rude(Polite):
        def process(self, given: ProcessorInput) -> ProcessorOutput:
            self.calls += 1
            told: ProcessorOutput | None = answer(self, given)
            return told if told is not None else super().process(given)

    class RudeSuite(Suite):
        processor = Rude

    failed = []
    for case in CASES:
        suite = RudeSuite()
        (place / case).mkdir()
        try:
            run = getattr(suite, case)
            run() if case == "test_it_is_made_with_mime_types_and_a_time_limit" else run(place / case)
        except Exception:
            failed.append(case)
    return failed


def test_a_processor_that_keeps_the_rules_passes(tmp_path: Path) -> None:
    assert run_suite(lambda _polite, _given: None, tmp_path) == []


def _writes_beside(_: Polite, given: ProcessorInput) -> None:
    Path("oops").write_text("in the current folder")


def _leaves_temporary_files(_: Polite, given: ProcessorInput) -> None:
    os.close(tempfile.mkstemp()[0])


def _touches_the_source(_: Polite, given: ProcessorInput) -> None:
    if given.file is not None and given.file.exists():
        os.utime(given.file, ns=(1, 1))


def _claims_too_many_percent(_: Polite, given: ProcessorInput) -> None:
    given.report("reading", percent=101)


def _reports_no_json(_: Polite, given: ProcessorInput) -> None:
    given.report("reading", checkpoint=object())


def _never_fails(_: Polite, given: ProcessorInput) -> ProcessorOutput:
    return ProcessorOutput(GOOD)


def _counts(polite: Polite, given: ProcessorInput) -> ProcessorOutput:
    return ProcessorOutput({**GOOD, "content": f"call {polite.calls}"})


def _sulks(polite: Polite, given: ProcessorInput) -> None:
    """Never recovers from a bad file."""
    if given.file and given.file.exists() and not given.file.read_bytes().startswith(b"good"):
        polite.calls = 1000
    if polite.calls > 1000:
        raise RetryLaterError("once bitten")


def _raises_anything(_: Polite, given: ProcessorInput) -> None:
    if given.file and given.file.exists() and not given.file.read_bytes():
        raise ZeroDivisionError


def _says_nothing(_: Polite, given: ProcessorInput) -> None:
    if given.file and given.file.exists() and not given.file.read_bytes():
        raise GiveUpError(" ")


def _result(**changes: Any) -> Callable[[Polite, ProcessorInput], ProcessorOutput | None]:
    def answer(_: Polite, given: ProcessorInput) -> ProcessorOutput | None:
        good = given.file and given.file.exists() and given.file.read_bytes().startswith(b"good")
        return ProcessorOutput({**GOOD, **changes}) if good else None

    return answer


def _derivative(path: str) -> Callable[[Polite, ProcessorInput], ProcessorOutput | None]:
    def answer(_: Polite, given: ProcessorInput) -> ProcessorOutput | None:
        good = given.file and given.file.exists() and given.file.read_bytes().startswith(b"good")
        return ProcessorOutput(GOOD, {"it": path}) if good else None

    return answer


JSON_CASE = "test_a_good_sample_gives_a_result_that_is_json"


@pytest.mark.parametrize(
    ("answer", "case"),
    [
        (_writes_beside, "test_nothing_is_written_outside_the_folder"),
        (_leaves_temporary_files, "test_nothing_is_written_outside_the_folder"),
        (_touches_the_source, "test_the_file_is_left_as_it_was"),
        (_claims_too_many_percent, "test_reports_are_well_formed"),
        (_reports_no_json, "test_reports_are_well_formed"),
        (_never_fails, "test_a_missing_file_is_final"),
        (_counts, "test_the_same_file_gives_the_same_result"),
        (_sulks, "test_it_works_again_after_a_failure"),
        (_raises_anything, "test_an_empty_file_is_a_result_or_a_reason"),
        (_says_nothing, "test_an_empty_file_is_a_result_or_a_reason"),
        (_derivative("nowhere"), "test_derivatives_are_files_in_the_folder"),
        (_derivative("../source/sample"), "test_derivatives_are_files_in_the_folder"),
        (_result(content=None), JSON_CASE),
        (_result(content="a\0b"), JSON_CASE),
        (_result(content=" "), JSON_CASE),
        (_result(models=["no revision"]), JSON_CASE),
        (_result(tags=[{"label": "cat", "score": 1.5, "model": "m@1"}]), JSON_CASE),
        (_result(tags=[{"label": "cat", "score": 0.5, "model": "other@1"}]), JSON_CASE),
        (_result(facts={"ratio": float("nan")}), JSON_CASE),
        (_result(facts={"thing": object()}), JSON_CASE),
    ],
)
def test_a_broken_rule_is_found(
    answer: Callable[[Polite, ProcessorInput], Any], case: str, tmp_path: Path
) -> None:
    assert case in run_suite(answer, tmp_path)

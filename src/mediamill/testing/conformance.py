"""What every processor keeps to, as tests that the author of one runs against his own.

Subclass `ProcessorConformance` (or `MediaConformance`, for what turns media into text) in a test file, name the
class and make a sample; pytest finds the cases. They run in this process, so a debugger and prints work.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from mediamill.errors import GiveUpError, MediamillError
from mediamill.processors.contract import Processor, ProcessorOutput, RefusedMediaError
from mediamill.testing.attempt import Attempt, Evidence, as_plain_json

MODEL = re.compile(r"[^\s@][^@\n]*@[^\s@]+")


class ProcessorConformance:
    """The cases for any processor that reads a file."""

    processor: ClassVar[type[Processor]]
    mime_types: ClassVar[Sequence[str]] = ()
    timeout_seconds: ClassVar[float] = 60
    mime_type: ClassVar[str | None] = None  # of the sample, as a job would claim it
    payload: ClassVar[Mapping[str, Any]] = {}
    deterministic: ClassVar[bool] = True  # does the same file give the same result?
    needs_file: ClassVar[bool] = True

    # A model may take seconds to load and to ask: the cases share the processor, and what was seen of one attempt.
    _made: ClassVar[dict[type, Processor]] = {}
    _seen: ClassVar[dict[type, Evidence]] = {}
    _samples: ClassVar[dict[type, bytes]] = {}  # made once: an encoder need not write the same bytes twice

    def make_sample(self, path: Path) -> None:
        """Write a small good file to `path`."""
        raise NotImplementedError

    def the_processor(self) -> Processor:
        """One processor for all cases, as in a child process, where it is made once and used again and again."""
        cls = type(self)
        if cls not in self._made:
            self._made[cls] = cls.processor(self.mime_types, self.timeout_seconds)
        return self._made[cls]

    def attempt(self, place: Path) -> Attempt:
        """An attempt at the sample, with room of its own in `place`."""
        attempt = Attempt(place, self.mime_type, self.payload)
        cls = type(self)
        if cls in self._samples:
            attempt.source.write_bytes(self._samples[cls])
        else:
            self.make_sample(attempt.source)
            if attempt.source.is_file():
                self._samples[cls] = attempt.source.read_bytes()
        return attempt

    def run_good(self, attempt: Attempt) -> ProcessorOutput:
        """The sample must succeed."""
        return attempt.run(self.the_processor())

    def evidence(self, place: Path) -> Evidence:
        """What was seen of the first attempt at the sample."""
        cls = type(self)
        if cls not in self._seen:
            self._seen[cls] = self.attempt(place).watch(self.run_good)
        return self._seen[cls]

    def run_any(self, attempt: Attempt) -> MediamillError | None:
        """Whatever the file is: a result or an error of ours that says something, never another exception."""
        failed: MediamillError | None = None
        try:
            attempt.run(self.the_processor())
        except MediamillError as error:
            failed = error
        assert failed is None or failed.message.strip(), f"{type(failed).__name__} says nothing"
        return failed

    def test_it_is_made_with_mime_types_and_a_time_limit(self) -> None:
        assert callable(self.the_processor().process)

    def test_a_good_sample_gives_a_result_that_is_json(self, tmp_path: Path) -> None:
        self.check_result(as_plain_json(self.evidence(tmp_path).output.result))

    def check_result(self, result: Mapping[str, Any]) -> None:
        """More about the result, for subclasses."""

    def test_the_same_file_gives_the_same_result(self, tmp_path: Path) -> None:
        first = self.evidence(tmp_path / "first").output
        second = self.run_good(self.attempt(tmp_path / "second"))
        self.check_same(first, second)

    def check_same(self, first: ProcessorOutput, second: ProcessorOutput) -> None:
        """Two results of the same file."""
        one, other = as_plain_json(first.result), as_plain_json(second.result)
        changed = {name: (one.get(name), other.get(name)) for name in one | other}
        changed = {name: pair for name, pair in changed.items() if pair[0] != pair[1]}
        assert not changed or not self.deterministic, f"another result for the same file: {changed}"

    def test_derivatives_are_files_in_the_folder(self, tmp_path: Path) -> None:
        assert self.evidence(tmp_path).faults == []

    def test_the_file_is_left_as_it_was(self, tmp_path: Path) -> None:
        before, after = self.evidence(tmp_path).source
        assert after == before, "the file, its time or its permissions were changed"

    def test_nothing_is_written_outside_the_folder(self, tmp_path: Path) -> None:
        before, after = self.evidence(tmp_path).surroundings
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        assert changed == [], f"written outside the folder: {', '.join(changed)}"

    def test_reports_are_well_formed(self, tmp_path: Path) -> None:
        for report in self.evidence(tmp_path).reports:
            assert report.step is None or report.step.strip()
            assert report.percent is None or 0 <= report.percent <= 100
            as_plain_json({"parts": report.parts, "checkpoint": report.checkpoint})

    def test_an_empty_file_is_a_result_or_a_reason(self, tmp_path: Path) -> None:
        attempt = self.attempt(tmp_path)
        attempt.source.write_bytes(b"")
        self.run_any(attempt)

    def test_a_truncated_file_is_a_result_or_a_reason(self, tmp_path: Path) -> None:
        for number, tenths in enumerate((1, 6)):
            attempt = self.attempt(tmp_path / str(number))
            whole = attempt.source.read_bytes()
            attempt.source.write_bytes(whole[: len(whole) * tenths // 10])
            self.run_any(attempt)

    def test_a_file_of_noise_is_a_result_or_a_reason(self, tmp_path: Path) -> None:
        attempt = self.attempt(tmp_path)
        attempt.source.write_bytes(random.Random(1).randbytes(4096))  # noqa: S311
        self.run_any(attempt)

    def test_a_damaged_file_is_a_result_or_a_reason(self, tmp_path: Path) -> None:
        attempt = self.attempt(tmp_path)
        damaged = bytearray(attempt.source.read_bytes())
        noise = random.Random(2)  # noqa: S311
        for _ in range(20):
            damaged[noise.randrange(len(damaged))] ^= 1 << noise.randrange(8)
        attempt.source.write_bytes(damaged)
        self.run_any(attempt)

    def test_a_missing_file_is_final(self, tmp_path: Path) -> None:
        attempt = self.attempt(tmp_path)
        attempt.source.unlink()
        error = self.run_any(attempt)
        assert isinstance(error, GiveUpError) or not self.needs_file

    def test_it_works_again_after_a_failure(self, tmp_path: Path) -> None:
        before = self.evidence(tmp_path / "before").output
        broken = self.attempt(tmp_path / "broken")
        broken.source.write_bytes(b"\xff\x00 no medium at all")
        self.run_any(broken)
        after = self.run_good(self.attempt(tmp_path / "after"))
        self.check_same(before, after)


class MediaConformance(ProcessorConformance):
    """The cases for a processor that turns media into text (a subclass of BaseMediaProcessor)."""

    def check_result(self, result: Mapping[str, Any]) -> None:
        """Text, type, and which model said what with which certainty."""
        assert isinstance(result["content"], str)
        assert result["content"].strip(), "the text is empty"
        assert "/" in result["mime_type"]
        for model in result["models"]:
            assert MODEL.fullmatch(model), f"{model!r} is not name@revision"
        for tag in result["tags"]:
            assert tag["label"].strip(), "a tag has no label"
            assert 0 <= tag["score"] <= 1, f"the score of {tag} is not between 0 and 1"
            assert tag["model"] in result["models"], f"the model of {tag} is not among the models"


class RefusalConformance(MediaConformance):
    """The cases for a processor that makes text of nothing: every attempt ends with a notice for the sender."""

    needs_file: ClassVar[bool] = False

    def run_good(self, attempt: Attempt) -> ProcessorOutput:
        """It must refuse, with a notice."""
        try:
            attempt.run(self.the_processor())
        except RefusedMediaError as refused:
            told = {"content": refused.notice, "reason": refused.message}
            return ProcessorOutput({**told, "mime_type": "*/*", "models": [], "tags": []})
        raise AssertionError("it did not refuse")

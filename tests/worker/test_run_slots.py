"""The slot of a job, what its handler is given, and the choice between handler and processor."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.kinds import JobKind, Kinds, Run
from mediamill.engine.model import ClaimedJob
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.errors import RetryLaterError
from mediamill.processors.contract import ProcessorOutput
from mediamill.worker.failures import ProcessorFailedError, ProcessorWaitsError
from mediamill.worker.run import LaneRun, NoProcessorError, Runner, Slot

POOL = Pool("audio", processor="scripted", timeout_seconds=7)
JOB = ClaimedJob(7, 3, 5, "test.k", "audio", "o", None, "a/b", 2, 4, '{"a": 1}', '{"at": 2}')


async def hang() -> None:
    await asyncio.Event().wait()


async def test_a_job_is_interrupted_once_and_its_slot_is_not() -> None:
    slot, ends = Slot(), []

    async def work() -> None:
        for stop in (True, False):
            slot.begin(JOB, 9.0)
            assert (slot.job, slot.deadline, slot.stopped, slot.claim_lost, slot.failure) == (
                *(JOB, 9.0, False, False, None),
            )
            try:
                await (hang() if stop else asyncio.sleep(0))
            except asyncio.CancelledError:
                ends.append(slot.stop_cancelled())
            slot.end()
            assert (slot.job, slot.stopped) == (None, False)

    slot.stop()
    assert not slot.stopped, "nobody works there"
    slot.task = asyncio.create_task(work())
    await asyncio.sleep(0)
    error = ValueError("no")
    slot.stop(claim_lost=True, failure=error)
    slot.stop()
    assert (slot.stopped, slot.claim_lost, slot.failure) == (True, True, error), "the first reason counts"
    await slot.task
    assert ends == [True]
    assert slot.task.cancelling() == 0


async def test_a_cancellation_of_the_slot_itself_is_told_from_one_of_its_job() -> None:
    slot, ends = Slot(), []

    async def work() -> None:
        slot.begin(JOB, 9.0)
        try:
            await hang()
        except asyncio.CancelledError:
            ends.append(slot.stop_cancelled())

    for both in (False, True):
        slot.task = asyncio.create_task(work())
        await asyncio.sleep(0)
        if both:
            slot.stop()
        slot.task.cancel()
        await slot.task
    assert ends == [False, False]


class Played:
    """In the place of a source, and of a sandbox."""

    def __init__(self, end: Any = None, file: Path | None = None) -> None:
        self.end, self.file = end, file
        self.given: list[Any] = []
        self.asked: list[str] = []
        self.kept_files: dict[str, dict[str, Any]] = {"v": {"at": 1}}

    async def input(self, _job: ClaimedJob) -> Path | None:
        return self.file

    async def kept(self, _job: ClaimedJob) -> dict[str, dict[str, Any]]:
        self.asked.append("kept")
        return self.kept_files

    async def keep_derivatives(self, _job: ClaimedJob, folder: Path, files: Any) -> dict[str, Any]:
        self.asked.append(f"keep {sorted(files)} of {folder.name}")
        return {name: {"path": name} for name in files}

    async def run(self, given: Any, _hear: Any, keep: Callable[..., Any], _kept: Any) -> ProcessorOutput:
        self.given.append(given)
        if isinstance(self.end, Exception):
            raise self.end
        output = ProcessorOutput(self.end or {"text": "x"}, {"a": "b"} if self.end else {})
        if output.files:
            await keep(Path("/taken"), output)
        return output


class At:
    """A lane."""

    def __init__(self, source: Played) -> None:
        self.source = source


def runner(folder: Path, played: Played, *kinds: JobKind, monkeypatch: pytest.MonkeyPatch) -> Runner:
    found = Runner(Engine(Kinds([JobKind("test.k"), *kinds])), folder)

    async def sandbox(_pool: Pool) -> Played:
        return played

    monkeypatch.setattr(found, "_sandbox", sandbox)
    return found


def run_of(played: Played, job: ClaimedJob = JOB) -> Any:
    return LaneRun(job, At(played), Slot())  # type: ignore[arg-type]


async def test_a_processor_gets_all_that_is_known_of_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played(file=tmp_path / "a")
    run = runner(tmp_path, played, JobKind("test.keeps", keeps_files=True), monkeypatch=monkeypatch)
    assert await run.run(run_of(played), POOL) == {"text": "x"}
    (given,) = played.given
    assert (given.payload, given.checkpoint, given.attempt) == ({"a": 1}, {"at": 2}, 2)
    assert (given.file, given.owner, given.mime_type) == (tmp_path / "a", "o", "a/b")
    assert (dict(given.kept), played.asked) == ({}, [])
    await run.run(run_of(played, replace(JOB, kind="test.keeps", checkpoint_json=None)), POOL)
    assert dict(played.given[1].kept) == {"v": {"at": 1}}
    assert played.given[1].checkpoint is None
    with pytest.raises(RetryLaterError, match="does not know the job kind"):
        await run.run(run_of(played, replace(JOB, kind="test.newer")), POOL)


async def test_files_that_were_made_are_named_in_the_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = Played({"text": "y"})
    run = runner(tmp_path, played, monkeypatch=monkeypatch)
    assert await run.run(run_of(played), POOL) == {"text": "y", "files": {"a": {"path": "a"}}}
    assert played.asked == ["keep ['a'] of taken"]


@pytest.mark.parametrize(
    ("code", "folder", "error"),
    [
        ("unreadable_file", "gone", ProcessorWaitsError),
        ("unreadable_file", ".", ProcessorFailedError),
        ("other", "gone", ProcessorFailedError),
    ],
)
async def test_a_place_that_does_not_answer_costs_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, folder: str, error: type[Exception]
) -> None:
    played = Played(ProcessorFailedError("no", code=code), tmp_path / folder / "a")
    with pytest.raises(error) as caught:
        await runner(tmp_path, played, monkeypatch=monkeypatch).run(run_of(played), POOL)
    assert type(caught.value) is error
    if error is ProcessorWaitsError:
        assert (caught.value.code, caught.value.fix) == ("source_away", "mount it again")  # type: ignore[attr-defined]
        assert "does not answer: no" in str(caught.value)


async def test_a_handler_is_called_here_and_has_a_deadline(tmp_path: Path) -> None:
    async def handle(run: Run) -> Any:
        return [run.payload, run.job.id]

    run = Runner(Engine(Kinds([JobKind("test.k", handler=handle), JobKind("test.child")])), tmp_path)
    played = Played()
    assert await run.run(run_of(played), POOL) == [{"a": 1}, 7]
    before = time.monotonic()
    assert before + 7 <= run.deadline(JOB, POOL) <= time.monotonic() + 7
    assert run.deadline(replace(JOB, kind="test.child"), POOL) == math.inf, "a child has a watch of its own"
    with pytest.raises(NoProcessorError) as caught:
        await run.run(run_of(played, replace(JOB, kind="test.child")), replace(POOL, processor=None))
    assert caught.value.fix == "mediamill pools set audio processor=NAME"

"""Reports and finished files on their way home: what a refusal, a lost claim or a broken file means for the attempt."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.pools import Pool
from mediamill.errors import ClaimLostError, InvalidError
from mediamill.worker.away import AwayError
from mediamill.worker.failures import InvalidOutputError
from mediamill.worker.messages import KeptFile, Report
from mediamill.worker.reporting import FileKeeper, Reporter
from mediamill.worker.run import Slot
from mediamill.worker.sandbox_job import Take
from tests.worker.harness import wait_until


class Home:
    """Whoever is told: each answer as given, then well."""

    def __init__(self, *answers: Exception) -> None:
        self.answers = [*answers]
        self.told: list[Any] = []
        self.slot, self.source = Slot(), self
        self.job = type("Job", (), {"id": 7})()

    async def report(self, **told: Any) -> None:
        self.told.append(told)
        if self.answers:
            raise self.answers.pop(0)

    async def keep(self, _job: Any, _pool: Pool, new: Any) -> None:
        self.told.append(new)
        if self.answers:
            raise self.answers.pop(0)

    async def working(self) -> None:
        """In the slot."""
        await asyncio.Event().wait()


async def test_a_report_that_is_refused_costs_nothing_but_itself(caplog: pytest.LogCaptureFixture) -> None:
    home: Any = Home(InvalidError("odd"))
    reporter = Reporter(home)
    reporter.put(Report(step="a"))
    await reporter.close()
    reporter.put(Report(step="b", percent=0.0))
    await reporter.close()
    assert home.told == [{"step": "a"}, {"step": "b", "percent": 0.0}]
    assert "a report of job 7 was refused: odd" in caplog.text
    await Reporter(home).close()


async def test_a_lost_claim_stops_the_job_with_its_next_report() -> None:
    home: Any = Home(ClaimLostError("no"))
    home.slot.task = asyncio.create_task(home.working())
    reporter = Reporter(home, each=True)
    reporter.put(Report(parts={"a": 1}))
    reporter.put(Report(parts={"a": 2}))
    await reporter.close()
    assert (len(home.told), home.slot.stopped, home.slot.claim_lost, home.slot.failure) == (
        1,
        True,
        True,
        None,
    )
    await asyncio.gather(home.slot.task, return_exceptions=True)


class TakeInPlace(Take):
    """The files stay where they are."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, folder)

    def __call__(self, files: Mapping[str, str]) -> Path:
        assert {*files} == {*files.values()}
        return self._taken


def take_from(folder: Path) -> Take:
    return TakeInPlace(folder)


async def test_files_are_kept_one_after_the_other_with_size_and_hash(tmp_path: Path) -> None:
    home: Any = Home(AwayError("not now"))
    keeper = FileKeeper(home, Pool("audio"))
    await keeper.finish()
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(name.encode() * 3)
        keeper.put(KeptFile(name, name, {"at": name}), take_from(tmp_path))
    await keeper.finish()
    await keeper.close()
    assert [(new.name, new.path, new.bytes, dict(new.facts)) for new in home.told] == [
        (name, tmp_path / name, 3, {"at": name}) for name in ("a", "a", "b")
    ], "the first was tried again"
    assert home.told[2].sha256 == hashlib.sha256(b"bbb").hexdigest()


@pytest.mark.parametrize(
    ("name", "answer", "error", "lost"),
    [
        ("a", ClaimLostError("no"), ClaimLostError, True),
        ("a", InvalidError("full"), InvalidError, False),
        ("missing", None, FileNotFoundError, False),
        ("link", None, OSError, False),
        ("../a", None, InvalidError, False),
    ],
)
async def test_a_file_that_cannot_be_kept_ends_the_attempt_and_no_other_is_taken(
    tmp_path: Path, name: str, answer: Exception | None, error: type[Exception], lost: bool
) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "link").symlink_to("a")
    home: Any = Home(*([answer] if answer else []))
    home.slot.task = asyncio.create_task(home.working())
    keeper = FileKeeper(home, Pool("audio"))
    keeper.put(KeptFile(name, name, {}), take_from(tmp_path))
    keeper.put(KeptFile("a", "a", {}), take_from(tmp_path))
    with pytest.raises(error) as caught:
        await keeper.finish()
    assert (home.slot.stopped, home.slot.claim_lost, home.slot.failure) == (True, lost, caught.value)
    told = len(home.told)
    keeper.put(KeptFile("a", "a", {}), take_from(tmp_path))
    await keeper.close()
    assert len(home.told) == told, "the child works for nothing"
    await asyncio.gather(home.slot.task, return_exceptions=True)


async def test_a_file_that_goes_with_its_attempt_is_not_why_the_attempt_fails(tmp_path: Path) -> None:
    """A child that was killed: its folders are removed, and its death is what counts, after which it is tried again."""
    home: Any = Home()
    home.slot.task = asyncio.create_task(home.working())
    keeper = FileKeeper(home, Pool("audio"))
    take = Take(tmp_path / "removed", tmp_path / "taken")
    take.abandoned = True
    keeper.put(KeptFile("a", "a", {}), take)
    await keeper.finish()
    await keeper.close()
    assert (home.slot.stopped, home.slot.failure, home.told) == (False, None, [])
    take.abandoned = False
    keeper.put(KeptFile("a", "a", {}), take)
    with pytest.raises(InvalidOutputError):
        await keeper.finish()
    await asyncio.gather(home.slot.task, return_exceptions=True)


async def test_what_is_not_kept_when_the_attempt_ends_is_let_go(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    home: Any = Home(*[AwayError("not now")] * 999)
    keeper = FileKeeper(home, Pool("audio"))
    (tmp_path / "a").write_bytes(b"x")
    keeper.put(KeptFile("a", "a", {}), take_from(tmp_path))
    await wait_until(lambda: len(home.told) > 0, "it is tried")
    await asyncio.wait_for(keeper.close(), 30)
    assert keeper._task is not None
    assert keeper._task.cancelled()

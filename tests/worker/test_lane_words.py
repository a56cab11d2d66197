"""A lane and what it says to a server: what it claims, runs, gives back, extends and settles, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.kinds import JobKind, Kinds, Run
from mediamill.engine.model import ClaimedJob
from mediamill.engine.pools import Pool
from mediamill.engine.rules import Engine
from mediamill.errors import ClaimLostError, GiveUpError
from mediamill.worker import lane as lane_file
from mediamill.worker.failures import WrongPoolError
from mediamill.worker.lane import Lane, _seconds_until
from mediamill.worker.pace import MOST_AHEAD
from mediamill.worker.remote_source import RemoteSource
from mediamill.worker.run import Runner
from mediamill.worker.server_link import ServerLink
from tests.worker.canned import Asked, Canned, canned
from tests.worker.harness import wait_until

pytestmark = pytest.mark.spec("E5")
AWAY = (503, b"")


@dataclass
class Hinted:
    """Keeps what a lane says of itself."""

    said: list[str] = field(default_factory=list)

    def look(self, pool: str) -> None:
        self.said.append(f"{pool} looks")

    def idle(self, pool: str) -> None:
        self.said.append(f"{pool} idle")

    def full(self, pool: str) -> None:
        self.said.append(f"{pool} full")


@dataclass
class Served:
    """A lane at a server that has these jobs."""

    server: Canned
    waiting: list[int] = field(default_factory=list)
    begun: list[int] = field(default_factory=list)
    interrupted: list[int] = field(default_factory=list)
    let_go: dict[int, asyncio.Event] = field(default_factory=dict)
    raising: dict[int, Exception] = field(default_factory=dict)
    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    due_in_seconds: float | None = None
    crashes: list[BaseException] = field(default_factory=list)
    hints: Hinted = field(default_factory=Hinted)
    changes: int = 0
    at_once: bool = False  # jobs end by themselves
    claimed: Callable[[], Awaitable[None]] | None = None  # before a claim is answered
    lane: Lane = field(init=False)

    async def run(self, run: Run) -> int:
        """The handler of each job: until it is let go."""
        id_ = run.job.id
        self.begun.append(id_)
        try:
            if id_ in self.reports:
                await run.report(**self.reports[id_])
            if not self.at_once:
                await self.let_go.setdefault(id_, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.interrupted.append(id_)
            raise
        if id_ in self.raising:
            raise self.raising[id_]
        return id_

    def release(self, *ids: int) -> None:
        for id_ in ids:
            self.let_go.setdefault(id_, asyncio.Event()).set()

    async def claim(self, asked: Asked) -> tuple[Any, ...]:
        if self.claimed is not None:
            await self.claimed()
        amount = asked.word["amount"]
        taken, self.waiting = self.waiting[:amount], self.waiting[amount:]
        return 200, {"jobs": [job(id_) for id_ in taken], "due_in_seconds": self.due_in_seconds}

    async def extend(self, asked: Asked) -> tuple[Any, ...]:
        return 200, {"lost": [one["job_id"] for one in asked.word["claims"] if one["job_id"] in self.lost]}

    async def complete(self, asked: Asked) -> tuple[Any, ...]:
        if asked.word["job_id"] in self.lost:
            return 409, {"code": "claim_lost", "detail": "no"}
        return 200, {"outcome": "completed"}

    async def fail(self, _: Asked) -> tuple[Any, ...]:
        return 200, {"dead": True}

    def words(self, verb: str) -> list[Any]:
        return [one.word for one in self.server.asked if one.verb == verb]

    def ids(self, verb: str) -> list[int]:
        """Of the jobs that it said this of."""
        found = []
        for word in self.words(verb):
            found += [one["job_id"] for one in word.get("claims", [word])]
        return found

    def amounts(self) -> list[int]:
        return [word["amount"] for word in self.words("claim")]

    async def until_begun(self, *ids: int) -> None:
        await wait_until(lambda: set(ids) <= set(self.begun), f"{ids} have begun")

    async def until_said(self, verb: str, *ids: int) -> None:
        await wait_until(lambda: set(ids) <= set(self.ids(verb)), f"{verb} {ids}")


def job(id_: int) -> dict[str, Any]:
    return {
        **{"id": id_, "token": 3, "kind": "test.k", "pool": "audio", "owner": "o", "subject_id": None},
        **{"mime_type": None, "attempts": 1, "max_attempts": 3, "payload": {}, "checkpoint": None},
        "keeps_files": False,
    }


@asynccontextmanager
async def served(folder: Path, *ids: int, **more: Any) -> AsyncIterator[Served]:
    """A lane that has begun; at the end of the block it is stopped at once."""
    pool = Pool("audio", **more.pop("pool", {}))
    async with canned() as server:
        found = Served(server, list(ids), **more)
        server.by_verb |= {verb: getattr(found, verb) for verb in ("claim", "extend", "complete", "fail")}
        engine = Engine(Kinds([JobKind("test.k", handler=found.run)]))
        source = RemoteSource(ServerLink(server.url, "key"), engine, 5, folder)

        def change() -> None:
            found.changes += 1

        found.lane = Lane(
            *(pool, source, engine, Runner(engine, folder)),
            changed=change,
            crashed=found.crashes.append,
            poll_seconds=3_600,
            hints=found.hints,
        )
        found.lane.start()
        try:
            yield found
        finally:
            if not all(task.done() for task in found.lane._tasks):
                await found.lane.abort()
            await source._link.close()


async def test_as_many_jobs_run_as_there_are_slots_and_each_that_ends_makes_room(tmp_path: Path) -> None:
    async with served(tmp_path, *range(1, 6), pool={"concurrency": 2}) as at:
        await at.until_begun(1, 2)
        assert at.amounts() == [2], "no more than can run"
        assert sorted(one.id for one in at.lane.running) == [1, 2]
        assert (at.changes > 0, at.hints.said[:2]) == (True, ["audio looks", "audio full"])
        at.release(2)
        await at.until_begun(3)
        assert at.amounts() == [2, 1]
        at.release(1, 3, 4, 5)
        await at.until_said("complete", 1, 2, 3, 4, 5)
        await wait_until(lambda: not at.lane.held, "all is settled")
        assert sorted(word["result"] for word in at.words("complete")) == [1, 2, 3, 4, 5]
        await wait_until(lambda: at.hints.said[-1] == "audio idle", "there is nothing")
        assert (at.lane.settler.completed, at.lane.settler.failed, at.lane.settler.lost) == (5, 0, 0)
        assert at.lane._claimed_at == {}
        at.waiting = [6]
        at.lane.wake()
        await at.until_begun(6)
        assert at.crashes == []


async def test_short_jobs_are_claimed_ahead_and_in_larger_amounts(tmp_path: Path) -> None:
    async with served(tmp_path, *range(1, 200), at_once=True) as at:
        await wait_until(lambda: at.lane.settler.completed == 199, "all are done")
        assert at.amounts()[0] == 1
        assert 3 < max(at.amounts()) <= MOST_AHEAD + 1
        assert len(at.amounts()) < 100, "not one by one"


async def test_a_paused_lane_claims_nothing_and_a_claim_under_way_goes_back(tmp_path: Path) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await answer.wait()

    async with served(tmp_path, 1, claimed=wait) as at:
        await asked.wait()
        await at.lane.pause()
        answer.set()
        await at.until_said("release", 1)
        at.lane.wake()
        await wait_until(lambda: at.hints.said[-1] == "audio full", "it rests")
        assert (at.begun, at.amounts(), at.lane.held) == ([], [1], [])
        at.waiting = [2]
        at.lane.resume()
        await at.until_begun(2)


async def test_what_has_not_begun_goes_back_with_a_pause_and_what_runs_ends(tmp_path: Path) -> None:
    async with served(tmp_path, 1, 2) as at:
        await at.until_begun(1)
        at.lane._buffer.extend(await _more(at))
        await at.lane.pause()
        assert (at.ids("release"), at.lane.held) == ([2], at.lane.running)
        at.release(1)
        await at.until_said("complete", 1)
        assert at.begun == [1]


async def _more(at: Served) -> list[ClaimedJob]:
    """Claimed as a lane claims ahead."""
    jobs, _ = await at.lane.source.claim(at.lane.pool, 1)
    at.lane._claimed_at |= {one.id: 0.0 for one in jobs}
    return jobs


async def test_jobs_that_cannot_be_given_back_now_are_run_after_all(tmp_path: Path) -> None:
    async with served(tmp_path, 1, 2) as at:
        await at.until_begun(1)
        at.lane._buffer.extend(await _more(at))
        at.server.answers = [AWAY]
        await at.lane.pause()
        assert [one.id for one in at.lane._buffer] == [2]
        at.release(1, 2)
        await at.until_said("complete", 1, 2)


async def test_a_lane_that_finishes_settles_what_runs_and_hands_back_the_rest(tmp_path: Path) -> None:
    async with served(tmp_path, 1, 2, 3) as at:
        await at.until_begun(1)
        at.lane._buffer.extend(await _more(at))
        finishing = [asyncio.create_task(at.lane.finish()) for _ in range(2)]
        await at.until_said("release", 2)
        finishing[1].cancel()  # whoever asked has no time: it goes on all the same
        at.release(1)
        await finishing[0]
        assert (at.ids("complete"), at.begun, at.waiting) == ([1], [1], [3])
        assert at.hints.said[-1] == "audio full"
        assert all(task.done() for task in at.lane._tasks)
        assert at.crashes == []


async def test_a_lane_that_is_stopped_at_once_hands_back_what_runs_and_settles_what_ended(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, 1, 2, 3) as at:
        await at.until_begun(1)
        at.lane._buffer.extend(await _more(at))
        await at.lane.abort()
        assert (at.interrupted, sorted(at.ids("release")), at.lane.held) == ([1], [1, 2], [])
        assert at.words("release")[0] == {"claims": [{"job_id": 1, "token": 3}, {"job_id": 2, "token": 3}]}
        assert (at.ids("complete"), at.ids("fail"), at.waiting) == ([], [], [3])
        assert all(task.done() for task in at.lane._tasks)


async def test_a_server_that_is_gone_keeps_no_lane_from_stopping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lane_file, "LAST_WORDS_SECONDS", 1.0)  # enough for one word
    async with served(tmp_path, 1, 2, pool={"concurrency": 2}) as at:
        await at.until_begun(1, 2)

        async def away(_: Asked) -> tuple[Any, ...]:
            return AWAY

        at.server.by_verb |= dict.fromkeys(("complete", "release", "claim"), away)
        at.release(1)
        await at.until_said("complete", 1)
        await asyncio.wait_for(at.lane.abort(), 30)
        assert at.ids("release") == [2]
        assert "1 jobs could not be handed back" in caplog.text


async def test_an_edited_pool_has_more_or_fewer_slots(tmp_path: Path) -> None:
    async with served(tmp_path, *range(1, 7)) as at:
        await at.until_begun(1)
        at.lane.resize(replace(at.lane.pool, concurrency=3))
        await at.until_begun(1, 2, 3)
        at.lane.resize(replace(at.lane.pool, concurrency=1))
        at.lane.resize(replace(at.lane.pool, concurrency=2))
        at.release(1, 2, 3)
        await at.until_begun(4, 5)
        await wait_until(lambda: len(at.lane._slots) == 2, "the third slot is gone")
        assert 6 not in at.begun
        assert at.crashes == []


async def test_a_claim_that_fails_is_tried_again_and_a_fault_of_ours_is_told(tmp_path: Path) -> None:
    async with served(tmp_path, pool={"lease_seconds": 2}) as at:
        await wait_until(lambda: at.amounts() == [1], "it has asked")
        answers: list[tuple[Any, ...]] = [AWAY, (200, {"jobs": [job(1)]}), (200, {"no jobs": []})]

        async def answer(_: Asked) -> tuple[Any, ...]:
            return answers.pop(0)

        at.server.by_verb["claim"] = answer
        at.lane.wake()
        await wait_until(lambda: len(answers) == 2, "it was away")
        at.lane.wake()
        await at.until_begun(1)
        at.release(1)
        await wait_until(lambda: bool(at.crashes), "it is told")
        assert [type(one) for one in at.crashes] == [KeyError]


async def test_a_job_that_comes_due_soon_is_claimed_then(tmp_path: Path) -> None:
    async with served(tmp_path, due_in_seconds=0.05) as at:
        await wait_until(lambda: len(at.amounts()) > 1, "it looks again")
        at.waiting = [1]
        await at.until_begun(1)


@pytest.mark.parametrize(
    ("due_in", "at_most", "low", "high"),
    [(None, 5.0, 5.0, 5.0), (60, 5.0, 5.0, 5.0), (3, 5.0, 2, 3), (-9, 5.0, 0.02, 0.02)],
)
def test_how_long_a_lane_waits_for_a_job_that_comes_due(
    due_in: float | None, at_most: float, low: float, high: float
) -> None:
    due_at = None if due_in is None else datetime.now(UTC) + timedelta(seconds=due_in)
    assert low <= _seconds_until(due_at, at_most) <= high


ENDS: list[tuple[Exception, str, dict[str, Any]]] = [
    (ValueError("boom"), "fail", {"error": "boom", "permanent": False}),
    (GiveUpError("never"), "fail", {"error": "never", "permanent": True}),
    (WrongPoolError("a/b"), "reroute", {"mime_type": "a/b"}),
]


@pytest.mark.parametrize(("raised", "verb", "said"), ENDS)
async def test_a_job_that_fails_is_said_to_and_its_slot_goes_on(
    tmp_path: Path, raised: Exception, verb: str, said: dict[str, Any]
) -> None:
    async with served(tmp_path, 1, 2, raising={1: raised}) as at:
        at.release(1)
        await at.until_said(verb, 1)
        (word,) = at.words(verb)
        assert {name: word[name] for name in said} == said
        if verb == "fail":
            assert "Traceback" in word["traceback"]
        await at.until_begun(2)
        assert at.words("complete") == []


async def test_a_failure_that_has_a_traceback_of_its_own_keeps_it(tmp_path: Path) -> None:
    error = ValueError("boom")
    error.traceback = "of the child"  # type: ignore[attr-defined]
    async with served(tmp_path, 1, raising={1: error}) as at:
        at.release(1)
        await at.until_said("fail", 1)
        assert at.words("fail")[0]["traceback"] == "of the child"


async def test_a_job_of_somebody_else_is_not_settled(tmp_path: Path) -> None:
    async with served(tmp_path, 1, 2, raising={1: ClaimLostError("no")}) as at:
        at.release(1)
        await at.until_begun(2)
        assert (at.lane.settler.lost, at.words("complete"), at.words("fail")) == (1, [], [])
        assert set(at.lane._claimed_at) == {2}


async def test_a_job_over_its_time_is_interrupted_and_fails(tmp_path: Path) -> None:
    async with served(tmp_path, 1, 2, pool={"timeout_seconds": 0.08}) as at:
        await at.until_said("fail", 1, 2)
        assert at.interrupted == [1, 2]
        first = at.words("fail")[0]
        assert first["error"] == "TIMEOUT: test.k processing exceeded 0.08s"
        assert (first["permanent"], first["notice"]) == (False, "[Processing timed out]")


async def test_leases_are_extended_and_lost_jobs_are_stopped_or_not_begun(tmp_path: Path) -> None:
    async with served(tmp_path, 1, 2, 3, pool={"lease_seconds": 0.4, "concurrency": 2}) as at:
        await at.until_begun(1, 2)
        at.lane._buffer.extend(await _more(at))
        at.server.by_verb["extend"], extend = _away, at.server.by_verb["extend"]
        await at.until_said("extend", 1, 2, 3)
        assert (at.interrupted, len(at.lane.held)) == ([], 3), "who cannot ask goes on"
        at.lost = [1, 3]
        at.server.by_verb["extend"] = extend
        await wait_until(lambda: at.interrupted == [1], "it is stopped")
        assert at.lane.settler.lost == 2
        assert [one.id for one in at.lane.held] == [2]
        assert at.lane._claimed_at[2] > 0
        assert at.words("fail") == at.words("complete") == []
        said = len(at.words("extend"))
        await wait_until(lambda: len(at.words("extend")) > said + 1, "it goes on with the other")
        assert at.words("extend")[-1] == {"claims": [{"job_id": 2, "token": 3}]}


async def _away(_: Asked) -> tuple[Any, ...]:
    return AWAY


async def test_progress_is_saved_and_no_job_stops_because_it_cannot_be(tmp_path: Path) -> None:
    reports = {number: {"step": f"step {number}", "percent": 5.0} for number in (1, 2, 3)}
    async with served(tmp_path, 1, 2, 3, reports=reports) as at:
        at.server.answers = [(204, b""), AWAY, (409, {"code": "claim_lost", "detail": "no"})]
        at.release(1, 2)
        await at.until_said("complete", 1, 2)
        await wait_until(lambda: at.lane.settler.lost == 1, "the third was somebody else's")
        assert at.words("progress") == [
            {"job_id": number, "token": 3, "step": f"step {number}", "percent": 5.0} for number in (1, 2, 3)
        ]


async def test_what_was_claimed_ahead_of_long_jobs_goes_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_file, "IDLE_AHEAD_SECONDS", 0.05)
    async with served(tmp_path, 1, 2) as at:
        await at.until_begun(1)
        at.lane._buffer.extend(await _more(at))
        await at.until_said("release", 2)
        assert (at.interrupted, [one.id for one in at.lane.held]) == ([], [1])
        assert 2 not in at.lane._claimed_at


@pytest.mark.parametrize("at_once", [False, True])
async def test_jobs_that_come_while_a_lane_stops_are_not_forgotten(tmp_path: Path, at_once: bool) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        asked.set()
        await answer.wait()

    async with served(tmp_path, 1, claimed=wait) as at:
        await asked.wait()
        stopping = asyncio.create_task(at.lane.abort() if at_once else at.lane.finish())
        await wait_until(lambda: at.lane._stopping, "it stops")
        answer.set()
        await stopping
        assert (at.ids("release"), at.begun, at.lane.held) == ([1], [], [])

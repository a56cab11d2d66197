"""A whole worker, and a server that a test speaks for: how it starts, serves pools, beats, obeys and leaves."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mediamill.engine.flight_log import FlightLog, forensics
from mediamill.engine.kinds import JobKind, Kinds, Run
from mediamill.engine.rules import Engine
from mediamill.worker import loop as loop_file
from mediamill.worker.away import RefusedError
from mediamill.worker.home import ANYTHING, JOBS, POOLS, WORKER, WorkerPlan
from mediamill.worker.loop import Worker
from mediamill.worker.remote_home import RemoteHome
from mediamill.worker.supervisor import SUPERVISED, SUPERVISOR_GONE
from tests.worker.canned import Asked, Canned, canned
from tests.worker.harness import wait_until

pytestmark = pytest.mark.spec("E22")
AWAY = (503, b"")
REFUSED = (403, {"code": "worker_revoked", "detail": "no"})
POOL = {"name": "audio", "processor": "scripted", "matches": ["audio/*"], "concurrency": 1, "waiting": 0}


@dataclass
class Served:
    """A worker at a server that has these pools, jobs and commands."""

    server: Canned
    pools_now: list[dict[str, Any]] = field(default_factory=lambda: [POOL])
    waiting: dict[str, list[int]] = field(default_factory=dict)
    commands: list[str | None] = field(default_factory=list)
    before: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)  # answers before the usual ones
    lost: list[int] = field(default_factory=list)
    heartbeat_seconds: float = 0.02
    begun: list[int] = field(default_factory=list)
    interrupted: list[int] = field(default_factory=list)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    error: Exception | None = None
    worker: Worker = field(init=False)
    task: asyncio.Task[None] = field(init=False)

    async def run(self, run: Run) -> int:
        self.begun.append(run.job.id)
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.interrupted.append(run.job.id)
            raise
        if self.error is not None:
            raise self.error
        return run.job.id

    async def answer(self, asked: Asked) -> tuple[Any, ...]:
        if given := self.before.get(asked.verb):
            return given.pop(0)
        found = getattr(self, asked.verb, None)
        return (204, b"") if found is None else (200, found(asked))

    def hello(self, _: Asked) -> dict[str, Any]:
        return {"name": "far", "heartbeat_seconds": self.heartbeat_seconds, "worker_id": 5}

    def pools(self, _: Asked) -> dict[str, Any]:
        return {"pools": self.pools_now}

    def heartbeat(self, _: Asked) -> dict[str, Any]:
        command = self.commands.pop(0) if self.commands else None
        return {"heartbeat_seconds": self.heartbeat_seconds, "command": command, "lost": self.lost}

    def claim(self, asked: Asked) -> dict[str, Any]:
        (name,) = asked.word["pools"]
        there = self.waiting.get(name, [])
        taken, self.waiting[name] = there[: asked.word["amount"]], there[asked.word["amount"] :]
        return {"jobs": [job(id_, name) for id_ in taken]}

    def complete(self, _: Asked) -> dict[str, Any]:
        return {"outcome": "completed"}

    def fail(self, _: Asked) -> dict[str, Any]:
        return {"dead": True}

    def said(self, *verbs: str) -> list[str]:
        """These, in the order in which they were said."""
        return [one.verb for one in self.server.asked if one.verb in verbs]

    def words(self, verb: str) -> list[Any]:
        return [one.word for one in self.server.asked if one.verb == verb]

    async def until_said(self, verb: str, times: int = 1) -> None:
        await wait_until(lambda: len(self.said(verb)) >= times, f"{verb} {times} times")

    async def until_begun(self, *ids: int) -> None:
        await wait_until(lambda: set(ids) <= set(self.begun), f"{ids} have begun")

    async def until_beat(self, **word: Any) -> None:
        await wait_until(lambda: word.items() <= self.words("heartbeat")[-1].items(), f"it says {word}")

    def add(self, *ids: int, pool: str = "audio") -> None:
        self.waiting.setdefault(pool, []).extend(ids)
        self.worker._hear(JOBS, pool)


def job(id_: int, pool: str) -> dict[str, Any]:
    return {
        **{"id": id_, "token": 3, "kind": "test.k", "pool": pool, "owner": "o", "subject_id": None},
        **{"mime_type": None, "attempts": 1, "max_attempts": 3, "payload": {}, "checkpoint": None},
        "keeps_files": False,
    }


@asynccontextmanager
async def served(folder: Path, plan: dict[str, Any] | None = None, **more: Any) -> AsyncIterator[Served]:
    """A worker that is starting; at the end of the block it is stopped at once."""
    async with canned() as server:
        found = Served(server, **more)
        verbs = ("hello", "pools", "heartbeat", "claim", "complete", "fail", "release", "leave", "extend")
        server.by_verb |= dict.fromkeys(verbs, found.answer)
        server.by_verb["wakes"] = _say_nothing
        engine = Engine(Kinds([JobKind("test.k", handler=found.run)]))
        given = WorkerPlan("near", data_folder=folder, **(plan or {}))
        home = RemoteHome(server.url, "key", engine, given)
        home.poll_seconds = 3_600.0
        found.worker = Worker(home, engine, given)
        found.task = asyncio.create_task(found.worker.run())
        try:
            yield found
        finally:
            found.worker.stop()
            found.worker.stop()
            await asyncio.gather(found.task, return_exceptions=True)


async def _say_nothing(_: Asked) -> tuple[Any, ...]:
    return AWAY


async def test_a_worker_starts_when_its_server_does_and_leaves_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = {"hello": [AWAY, AWAY], "pools": [AWAY], "heartbeat": [AWAY, (500, b"<html>")]}
    with caplog.at_level(logging.DEBUG):
        async with served(tmp_path, before=before) as at:
            await at.until_said("heartbeat", 4)
            assert not at.worker.is_leaving
            assert at.said("hello", "pools")[:5] == ["hello"] * 3 + ["pools"] * 2
            at.worker.stop()
            assert at.worker.is_leaving
            await asyncio.wait_for(at.task, 60)
            assert at.said("hello", "claim", "leave")[-1] == "leave"
            assert at.worker._tasks == set()
    waits = [one for one in caplog.records if one.getMessage().startswith("start: waiting")]
    assert [one.levelname for one in waits[:2]] == ["WARNING", "DEBUG"], "said once"
    assert "the pool" not in caplog.text


async def test_a_worker_that_is_told_to_leave_while_it_starts_does(tmp_path: Path) -> None:
    async with served(tmp_path, before={"hello": [AWAY] * 99}) as at:
        await at.until_said("hello")
        at.worker.stop()
        await asyncio.wait_for(at.task, 60)
        assert at.said("pools", "heartbeat", "claim") == []


async def test_a_worker_that_is_refused_ends_and_leaves_no_flight_log(tmp_path: Path) -> None:
    flight = FlightLog()
    for before in ({"hello": [REFUSED]}, {"heartbeat": [REFUSED]}):
        async with served(tmp_path, {"flight": flight}, before=before) as at:
            with pytest.raises(RefusedError):
                await asyncio.wait_for(asyncio.shield(at.task), 60)
    assert not forensics(tmp_path).exists()


async def test_a_fault_of_ours_hands_the_jobs_back_and_goes_home_with_its_flight_log(tmp_path: Path) -> None:
    async with served(tmp_path, {"flight": FlightLog()}) as at:
        at.waiting["audio"] = [1]
        await at.until_begun(1)
        at.before["claim"] = [(200, {"nothing": []})]
        at.let_go.set()
        with pytest.raises(KeyError):
            await asyncio.wait_for(asyncio.shield(at.task), 60)
        assert at.said("leave") == ["leave"]
        (dump,) = forensics(tmp_path).iterdir()
        assert dump.name.startswith("5_")
        assert [one.path for one in at.server.asked if "/dumps/" in one.path] == [
            f"/api/worker/dumps/{dump.name}"
        ]


async def test_flight_logs_of_before_are_brought_home_the_latest_three_alone(tmp_path: Path) -> None:
    folder = forensics(tmp_path)
    folder.mkdir(parents=True)
    names = [f"5_2026010{number}T000000.000000Z.log" for number in range(1, 6)]
    for name in names:
        (folder / name).write_bytes(b"{}\n")
    async with served(tmp_path) as at:
        at.server.by_verb[names[3]] = _say_nothing  # one that does not arrive keeps no other from it

        def brought() -> list[str]:
            return [one.verb for one in at.server.asked if "/dumps/" in one.path]

        await wait_until(lambda: len(brought()) == 3, "they are brought")
        await at.until_said("heartbeat", 3)
        assert brought() == [names[4], names[3], names[2]]


async def test_a_flight_log_that_takes_too_long_does_not_hold_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop_file, "BRING_SECONDS", 0.02)
    path = tmp_path / "5_x.log"
    path.write_bytes(b"{}\n")

    async def hang(_: Asked) -> tuple[Any, ...]:
        await asyncio.Event().wait()
        return AWAY

    async with served(tmp_path) as at:
        at.server.by_verb[path.name] = hang
        await at.until_said("heartbeat")
        await asyncio.wait_for(at.worker._bring_home(path), 30)
    assert "flight_log_stays" in [getattr(one, "event", None) for one in caplog.records]


async def test_pools_come_change_and_go_and_what_runs_in_them_ends(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    other = {**POOL, "name": "other", "concurrency": 2}
    async with served(tmp_path, {"pools": ("audio", "other", "third")}, pools_now=[POOL]) as at:
        at.add(1)
        await at.until_begun(1)
        assert [*at.worker._lanes] == ["audio"]
        at.pools_now = [other, {**POOL, "name": "not ours"}]
        at.worker._hear(POOLS, "")
        await wait_until(lambda: [*at.worker._lanes] == ["other"], "the new one is served")
        await wait_until(
            lambda: [lane.pool.name for lane in at.worker._all_lanes()] == ["other", "audio"], "it finishes"
        )
        await at.until_beat(current_job_id=1, state="busy")
        at.add(2, 3, pool="other")
        await at.until_begun(2, 3)
        at.pools_now = [{**other, "concurrency": 3}]
        at.add(4, pool="other")
        await at.until_begun(4)
        at.let_go.set()
        await wait_until(lambda: not at.worker._retired, "it has ended")
        assert len(at.said("complete")) >= 1
        await wait_until(lambda: [*at.worker._runner._sandboxes] == ["other"], "its sandbox went with it")
    missing = [one.getMessage() for one in caplog.records if "no pool named" in one.getMessage()]
    assert sorted(text.split()[5].rstrip(";") for text in missing) == ["audio", "other", "third"], "once each"


async def test_an_edit_of_pools_that_nobody_can_read_is_read_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path) as at:
        await at.until_said("heartbeat")
        at.before["pools"] = [AWAY, (200, {"nothing": []})]
        at.pools_now = [POOL, {**POOL, "name": "new"}]
        await wait_until(lambda: [*at.worker._lanes] == ["audio", "new"], "the heartbeat reads them")
        assert "pools could not be read" in caplog.text
        assert not at.worker.is_leaving


async def test_a_word_that_may_be_about_anything_wakes_every_lane(tmp_path: Path) -> None:
    two = [POOL, {**POOL, "name": "other"}]
    async with served(tmp_path, pools_now=two, heartbeat_seconds=3_600) as at:
        await at.until_said("claim", 2)
        at.waiting = {"audio": [1], "other": [2]}
        at.worker._hear(JOBS, "nobody's")
        at.worker._hear(JOBS, "other")
        await at.until_begun(2)
        assert at.begun == [2]
        at.pools_now = [*two, {**POOL, "name": "new"}]
        at.worker._hear(ANYTHING, "")
        await at.until_begun(1)
        await wait_until(lambda: "new" in at.worker._lanes, "pools may have changed as well")
        beats = len(at.said("heartbeat"))
        at.worker._beat.clear()
        at.worker._hear(WORKER, "6")
        assert not at.worker._beat.is_set()
        at.worker._hear(WORKER, "5")
        await at.until_said("heartbeat", beats + 1)


async def test_what_a_server_says_on_its_stream_is_acted_on(tmp_path: Path) -> None:
    said: asyncio.Queue[bytes] = asyncio.Queue()

    async def say(_: Asked) -> tuple[Any, ...]:
        return 200, await said.get()

    two = [POOL, {**POOL, "name": "other"}]
    async with served(tmp_path, heartbeat_seconds=3_600) as at:
        at.server.by_verb["wakes"] = say
        await at.until_said("claim")
        await at.until_said("heartbeat")
        at.pools_now = two
        said.put_nowait(b'{"pools": ""}\n')
        await wait_until(lambda: [*at.worker._lanes] == ["audio", "other"], "a new pool is served")
        await at.until_said("claim", 2)
        at.waiting = {"audio": [1], "other": [2]}
        said.put_nowait(b'{"jobs": "other"}\n')
        await at.until_begun(2)
        assert at.begun == [2]
        said.put_nowait(b'{"": ""}\n')
        await at.until_begun(1)
        await at.until_beat(state="busy")
        beats = len(at.said("heartbeat"))
        said.put_nowait(b'{"worker": 5}\n')
        await at.until_said("heartbeat", beats + 1)


async def test_a_command_is_obeyed_and_its_effect_said_at_once(tmp_path: Path) -> None:
    async with served(tmp_path, {"flight": FlightLog()}) as at:
        await at.until_said("heartbeat")
        at.commands = ["pause"]
        await at.until_beat(state="paused")
        at.pools_now = [POOL, {**POOL, "name": "other"}]
        await wait_until(lambda: len(at.worker._lanes) == 2, "a new pool")
        at.waiting = {"audio": [1], "other": [2]}
        at.add()
        at.add(pool="other")
        await at.until_said("heartbeat", len(at.said("heartbeat")) + 2)
        assert (at.begun, [lane.paused for lane in at.worker._lanes.values()]) == ([], [True, True])
        at.commands = ["resume"]
        await at.until_begun(1, 2)
        await at.until_beat(state="busy")
        at.commands = ["forensic_dump"]
        await wait_until(lambda: any("/dumps/" in one.path for one in at.server.asked), "it is home")
        assert len([*forensics(tmp_path).iterdir()]) == 1
        at.let_go.set()
        at.commands = ["shutdown"]
        await asyncio.wait_for(at.task, 60)
        assert (len(at.said("complete")), at.said("release"), at.said("leave")) == (2, [], ["leave"])


async def test_a_worker_that_is_disabled_or_paused_rests_until_it_is_neither(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        await at.until_said("heartbeat")
        lane = at.worker._lanes["audio"]
        for paused, disabled in ((True, False), (True, True), (False, True)):
            await at.worker._rest(paused=paused, disabled=disabled)
            assert lane.paused
        await at.worker._rest(paused=False, disabled=False)
        assert not lane.paused


async def test_a_second_word_to_stop_interrupts_what_runs(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        at.add(1)
        await at.until_begun(1)
        at.worker.stop()
        await wait_until(lambda: at.worker._lanes["audio"]._stopping, "it finishes what runs")
        assert at.interrupted == []
        at.worker.stop()
        await asyncio.wait_for(at.task, 60)
        assert at.interrupted == [1]
        assert at.words("release") == [{"claims": [{"job_id": 1, "token": 3}]}]
        assert at.said("complete", "fail") == []


async def test_a_heartbeat_says_what_it_does_and_drops_what_it_lost(tmp_path: Path) -> None:
    async with served(tmp_path) as at:
        await at.until_said("heartbeat")
        assert at.words("heartbeat")[0]["state"] == "idle"
        at.add(1)
        await at.until_beat(state="busy", current_job_id=1, claims=[{"job_id": 1, "token": 3}])
        assert at.words("heartbeat")[-1]["stats"]["running"] == 1
        at.lost = [1]
        await wait_until(lambda: at.interrupted == [1], "it is somebody else's")
        await at.until_beat(state="idle", current_job_id=None, claims=[])
        at.let_go.set()
        at.add(2)
        await at.until_said("complete")
        at.error = ValueError("no")
        at.add(3)
        await at.until_said("fail")
        await wait_until(lambda: at.words("heartbeat")[-1]["stats"]["failed"] == 1, "it is counted")
        stats = at.words("heartbeat")[-1]["stats"]
        assert {name: stats[name] for name in ("running", "completed", "failed", "claims_lost")} == {
            **{"running": 0, "completed": 1, "failed": 1, "claims_lost": 1}
        }
        assert 1 << 20 < stats["memory_bytes"] < 1 << 40


@pytest.mark.spec("E22")
def test_a_loop_without_signals_starts_and_works_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In a thread, as in a program that embeds a worker; loops of Windows have no signal handlers either."""
    caplog.set_level(logging.WARNING, "mediamill.signals")

    async def embed() -> None:
        async with served(tmp_path, heartbeat_seconds=3_600) as at:
            at.worker.obey_signals()
            await at.until_said("heartbeat")

    thread = ThreadPoolExecutor(1)
    thread.submit(asyncio.run, embed()).result(60)
    thread.shutdown()
    (line,) = [each.getMessage() for each in caplog.records if each.name == "mediamill.signals"]
    assert line.startswith("signals cannot be obeyed here")


async def test_signals_are_the_same_as_the_command_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setenv(SUPERVISED, "1")
    signals = (signal.SIGINT, signal.SIGTERM, SUPERVISOR_GONE)
    before = [signal.getsignal(number) for number in signals]
    async with served(tmp_path, heartbeat_seconds=3_600) as at:
        await at.until_said("heartbeat")
        at.worker.obey_signals()
        try:
            os.kill(os.getpid(), SUPERVISOR_GONE)
            await wait_until(lambda: at.worker.is_leaving, "its supervisor is gone")
            assert at.worker._signals == 0, "which may come more than once"
            for count, number in enumerate(signals[:2], 1):
                os.kill(os.getpid(), number)
                await wait_until(lambda seen=count: at.worker._signals == seen, "heard")  # type: ignore[misc]
            assert at.worker._aborting.is_set()
        finally:
            for number, handler in zip(signals, before, strict=True):
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

"""Which job gets which child, and how many there are: the children are shells, which load nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from mediamill.worker import warm_child
from mediamill.worker.failures import ProcessorStartError, SandboxClosedError
from mediamill.worker.messages import Done, Ready, frame
from mediamill.worker.process_tree import MARK
from mediamill.worker.scratch_removal import ScratchRemoval
from mediamill.worker.spawn import ChildPlan, Limits, Started
from mediamill.worker.warm_child import WarmChild
from mediamill.worker.warm_children import WarmChildren
from tests.worker.harness import everything_in, wait_until

LIMITS = Limits(timeout_seconds=60, memory_bytes=1 << 30)


@dataclass
class Starter:
    """Starts shells; what they say is up to the test."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    started: list[WarmChild] = field(default_factory=list)
    lines: dict[WarmChild, socket.socket] = field(default_factory=dict)
    shells: list[subprocess.Popen[bytes]] = field(default_factory=list)
    at_once: bool = True  # they are ready
    failing: bool = False
    successes: int = 0
    closed: bool = False
    resume: Callable[[], None] | None = None

    @property
    def paused(self) -> bool:
        return self.resume is not None

    def start(self, limits: Limits, on_ready: Any, on_gone: Any) -> WarmChild:
        if self.failing:
            raise ProcessorStartError("no memory")
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        noise, noise_in = os.pipe()
        os.set_blocking(noise, False)
        number = len(self.started) + 1
        folder = self.folder / f"child-{number}"
        folder.mkdir()
        plan = ChildPlan("p", "a:B", f"{os.getpid()}-served.{number}.", limits, 60, folder)
        environment = {"PATH": os.environ["PATH"], MARK: plan.mark}
        shell = subprocess.Popen(["sleep", "600"], stderr=noise_in, start_new_session=True, env=environment)
        os.close(noise_in)
        self.monkeypatch.setattr(warm_child, "start_child", lambda _: Started(shell, ours, noise, None))
        child = WarmChild(plan, on_ready, on_gone)
        self.started.append(child)
        self.shells.append(shell)
        self.lines[child] = theirs
        if self.at_once:
            self.make_ready(child)
        return child

    def make_ready(self, child: WarmChild) -> None:
        self.lines[child].sendall(frame(Ready()))

    def note_success(self) -> None:
        self.successes += 1

    def pause(self, then: Callable[[], None]) -> None:
        self.resume = then

    def close(self) -> None:
        self.closed = True


@dataclass
class Served:
    """Children, and who starts them."""

    children: WarmChildren
    starter: Starter

    @property
    def alive(self) -> list[int]:
        """By their numbers, as they were started."""
        return [at for at, child in enumerate(self.starter.started, 1) if child in set(self.children)]

    async def take(self, owner: str = "o") -> WarmChild:
        async with asyncio.timeout(60):
            return await self.children.take(owner)

    async def work(self, child: WarmChild) -> None:
        """One job, and back."""
        work = child.assign(1, bytearray(b"j"), (), LIMITS, lambda _: None)
        self.starter.lines[child].sendall(frame(Done(1, {}, {}, False)))
        await work
        self.children.put_back(child)

    def number(self, child: WarmChild) -> int:
        return self.starter.started.index(child) + 1

    def die(self, child: WarmChild) -> None:
        child.end(child.crash_error("died"))

    async def until_ready(self, count: int) -> None:
        await wait_until(lambda: sum(child.ready for child in self.children) == count, f"{count} are ready")


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    @asynccontextmanager
    async def serve(**more: Any) -> AsyncIterator[Served]:
        starting = {name: more.pop(name) for name in ("at_once", "failing") if name in more}
        given = {
            "limits": LIMITS,
            "size": 1,
            "spare": 1,
            "max_jobs_per_child": 99,
            "idle_seconds": 60,
            **more,
        }
        removal = ScratchRemoval()
        found = Served(WarmChildren(removal, **given), Starter(tmp_path, monkeypatch, **starting))
        found.children.open(found.starter)  # type: ignore[arg-type]
        try:
            yield found
        finally:
            await found.children.close()
            await removal.finish()
            for line in found.starter.lines.values():
                line.close()
            assert everything_in(tmp_path) == [], "the folders go with the children"
            assert all(shell.poll() is not None for shell in found.starter.shells)

    return serve


Serve = Callable[..., Any]


async def test_children_are_started_for_jobs_alone_and_the_last_used_is_used_first(serve: Serve) -> None:
    async with serve(size=3) as at:
        assert (at.alive, at.children.free_slots) == ([], 3)
        first, second = await at.take(), await at.take()
        assert (at.alive, at.children.free_slots, len(at.children)) == ([1, 2], 1, 2)
        at.children.put_back(first)
        at.children.put_back(second)
        assert at.children.free_slots == 3
        for _ in range(2):
            assert await at.take() is second
            at.children.put_back(second)
        assert at.alive == [1, 2]
        assert at.starter.successes == 2


async def test_a_job_too_many_waits_for_a_slot_in_its_turn(serve: Serve) -> None:
    async with serve(size=1) as at:
        child = await at.take()
        waiting = [asyncio.create_task(at.take()) for _ in range(3)]
        await asyncio.sleep(0)
        assert at.children.free_slots == 0
        waiting[0].cancel()
        at.children.put_back(child)
        assert await waiting[1] is child
        assert not waiting[2].done()
        at.children.put_back(child)
        assert await waiting[2] is child
        at.children.put_back(child)
        assert (at.alive, at.children.free_slots) == ([1], 1)


async def test_a_child_given_to_a_job_that_is_cancelled_just_then_is_free_again(serve: Serve) -> None:
    async with serve(size=1) as at:
        child = await at.take()
        waiting = asyncio.create_task(at.take())
        await asyncio.sleep(0)
        at.children.put_back(child)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert at.children.free_slots == 1
        assert await at.take() is child


async def test_a_child_works_for_one_owner_and_makes_room_for_another(serve: Serve) -> None:
    async with serve(size=2, spare=0) as at:
        ann = await at.take("ann")
        at.children.put_back(ann)
        bob = await at.take("bob")
        at.children.put_back(bob)
        assert (ann.owner, bob.owner, at.alive) == ("ann", "bob", [1, 2])
        assert await at.take("ann") is ann
        carl = await at.take("carl")
        assert carl not in (ann, bob)
        assert at.alive == [1, 3], "one of nobody else's is replaced"
        at.children.put_back(ann)
        at.children.put_back(carl)
        assert await at.take("carl") is carl


async def test_a_child_that_is_spent_is_not_used_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serve(max_jobs_per_child=2, spare=0) as at:
        for number in (1, 1, 2, 2, 3):
            child = await at.take()
            assert at.number(child) == number
            await at.work(child)
        child = await at.take()
        child.worn = True
        at.children.put_back(child)
        child = await at.take()
        assert at.number(child) == 4
        monkeypatch.setattr(WarmChild, "has_outgrown_half_its_limit", lambda _: True)
        at.children.put_back(child)
        assert (at.number(await at.take()), at.alive) == (5, [5])


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        (replace(LIMITS), True),
        (replace(LIMITS, timeout_seconds=1, output_bytes=1, written_bytes=1), True),
        (replace(LIMITS, memory_bytes=2 << 30), False),
        (replace(LIMITS, file_bytes=1), False),
    ],
)
async def test_children_whose_own_limits_changed_are_replaced(
    serve: Serve, limits: Limits, kept: bool
) -> None:
    async with serve(size=2, spare=0) as at:
        one, two = await at.take(), await at.take()
        at.children.put_back(one)
        at.children.limits = limits
        at.children.resize()
        assert one.alive is kept
        assert two.alive, "its job goes on"
        at.children.put_back(two)
        assert two.alive is kept
        assert (await at.take()).plan.limits.memory_bytes == limits.memory_bytes


async def test_the_number_of_children_follows_the_size(serve: Serve) -> None:
    async with serve(size=1, spare=0) as at:
        one = await at.take()
        waiting = [asyncio.create_task(at.take()) for _ in range(2)]
        await asyncio.sleep(0)
        at.children.size = 3
        at.children.resize()
        two, three = [await each for each in waiting]
        assert (len({one, two, three}), at.alive) == (3, [1, 2, 3])
        for child in (one, two):
            at.children.put_back(child)
        at.children.size = 2
        at.children.resize()
        assert at.alive == [2, 3], "the longest unused goes"
        at.children.size = 1
        at.children.resize()
        assert at.alive == [3]
        at.children.put_back(three)
        assert (at.alive, at.children.free_slots) == ([3], 1)


async def test_a_loss_brings_a_spare_and_a_replacement_does_not(serve: Serve) -> None:
    async with serve(size=1) as at:
        child = await at.take()
        at.die(child)
        at.children.put_back(child)
        await at.until_ready(2)
        assert at.alive == [2, 3], "it is replaced, and one waits"
        assert at.children.free_slots == 1, "a spare is no slot"
        taken = await at.take()
        waiting = asyncio.create_task(at.take())
        await asyncio.sleep(0)
        assert not waiting.done()
        at.children.put_back(taken)
        at.children.put_back(await waiting)
    async with serve(size=1, max_jobs_per_child=1) as at:
        await at.work(await at.take())
        await at.until_ready(1)
        assert len(at.alive) == 1


async def test_a_job_that_is_late_brings_a_spare_before_it_is_killed(serve: Serve) -> None:
    async with serve(size=2) as at:
        child = await at.take()
        child.assign(1, bytearray(b"j"), (), LIMITS, lambda _: None)
        at.children._tend()
        assert at.alive == [1]
        child._deadline -= 40
        at.children._tend()
        assert at.alive == [1, 2]
        at.children._tend()
        assert at.alive == [1, 2]
        assert at.children._tending is not None
        child.end(SandboxClosedError())
        at.children.put_back(child)


async def test_children_that_nobody_needs_are_ended_and_not_started_again(serve: Serve) -> None:
    async with serve(size=2) as at:
        one, two = await at.take(), await at.take()
        at.die(one)
        at.children.put_back(one)
        await at.until_ready(3)
        at.children.put_back(two)
        at.children._tend()
        assert len(at.alive) == 3
        for child in at.children:
            child.idle_since -= 60
        two.idle_since += 30
        at.children._tend()
        assert at.alive == [2]
        two.idle_since -= 60
        at.children._tend()
        assert at.alive == []
        assert at.number(await at.take()) == 5, "and come back with the next job"


async def test_they_are_looked_at_while_there_are_any(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mediamill.worker.warm_children.TEND_SECONDS", 0.01)
    async with serve(size=1, idle_seconds=0.02) as at:
        assert at.children._tending is None
        at.children.put_back(await at.take())
        await wait_until(lambda: at.alive == [], "it idled")
        await wait_until(lambda: at.children._tending is None, "there is nobody to look at")


async def test_jobs_hear_why_no_child_can_be_started_and_the_next_tries_again(serve: Serve) -> None:
    async with serve(size=2, failing=True) as at:
        for _ in range(2):
            with pytest.raises(ProcessorStartError, match="no memory"):
                await at.take()
            if at.starter.paused:
                break
        waiting = asyncio.create_task(at.take())
        await asyncio.sleep(0)
        assert not waiting.done(), "it pauses"
        at.starter.failing = False
        resume, at.starter.resume = at.starter.resume, None
        resume()
        assert at.number(await waiting) == 1


async def test_while_another_child_serves_a_failed_start_costs_no_job(serve: Serve) -> None:
    async with serve(size=2) as at:
        one = await at.take()
        at.starter.at_once = False
        waiting = asyncio.create_task(at.take())
        await wait_until(lambda: at.alive == [1, 2], "one loads")
        at.die(at.starter.started[1])
        assert (at.starter.paused, at.alive) == (True, [1])
        await asyncio.sleep(0)
        assert not waiting.done()
        at.children.put_back(one)
        assert await waiting is one
        at.starter.resume = None


async def test_a_child_that_cannot_load_is_said_to_whoever_waits_and_no_spare_comes(serve: Serve) -> None:
    async with serve(size=2, at_once=False) as at:
        waiting = asyncio.create_task(at.take())
        await wait_until(lambda: at.alive == [1], "it loads")
        at.die(at.starter.started[0])
        with pytest.raises(ProcessorStartError, match="died"):
            await waiting
        assert (at.alive, at.starter.paused, at.starter.successes) == ([], True, 0)


async def test_an_idle_child_that_died_is_not_given_to_a_job(serve: Serve) -> None:
    async with serve(size=1, spare=0) as at:
        child = await at.take()
        at.children.put_back(child)
        at.die(child)
        other = await at.take()
        assert other is not child


async def test_closed_is_closed(serve: Serve) -> None:
    async with serve(size=1) as at:
        child = await at.take()
        work = child.assign(1, bytearray(b"j"), (), LIMITS, lambda _: None)
        waiting = asyncio.create_task(at.take())
        await asyncio.sleep(0)
        await at.children.close()
        for each in (work, waiting):
            with pytest.raises(SandboxClosedError):
                await each
        at.children.put_back(child)
        assert (at.alive, at.starter.closed) == ([], True)
        with pytest.raises(SandboxClosedError):
            await at.take()
        assert len(at.starter.started) == 1
        await at.children.close()


async def test_after_a_start_that_failed_no_spare_is_started_before_a_job_comes(serve: Serve) -> None:
    async with serve(size=2) as at:
        child = await at.take()
        at.starter.failing = True
        at.die(child)
        at.children.put_back(child)
        assert (at.alive, at.starter.paused) == ([], True)
        at.starter.failing = False
        resume, at.starter.resume = at.starter.resume, None
        resume()
        assert at.alive == []
        assert at.number(await at.take()) == 2
        assert at.alive == [2]

"""Between attempts to start a child that fails there are pauses, which grow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from mediamill.processors.registry import find_processor
from mediamill.worker import child_starter
from mediamill.worker.child_starter import LONGEST_PAUSE_SECONDS, ChildStarter, pause_seconds
from mediamill.worker.scratch import Home


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[ChildStarter]:
    home = Home(tmp_path)
    yield ChildStarter("scripted", find_processor("scripted"), home, mime_types=(), start_seconds=60)
    home.remove()


def test_pauses_double_up_to_the_longest() -> None:
    assert [pause_seconds(failures) for failures in (1, 2, 3)] == [0.2, 0.4, 0.8]
    assert [pause_seconds(failures) for failures in (8, 9, 5000)] == [25.6, *[LONGEST_PAUSE_SECONDS] * 2]


async def test_pauses_grow_until_a_child_is_ready(
    starter: ChildStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[int] = []

    def no_pause(count: int) -> float:
        failures.append(count)
        return 0

    monkeypatch.setattr(child_starter, "pause_seconds", no_pause)
    for _ in range(3):
        await pause(starter)
    starter.note_success()
    await pause(starter)
    assert failures == [1, 2, 3, 1]


async def pause(starter: ChildStarter) -> None:
    over = asyncio.Event()
    starter.pause(then=over.set)
    assert starter.paused
    await over.wait()
    assert not starter.paused


async def test_children_that_fail_at_once_cause_one_pause(
    starter: ChildStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_starter, "pause_seconds", lambda _: 0)
    tried, over = [], asyncio.Event()
    for note in (lambda: tried.append("first"), lambda: tried.append("second")):
        starter.pause(then=note)
    asyncio.get_running_loop().call_later(0, over.set)
    await over.wait()
    assert tried == ["first"]


async def test_after_closing_nothing_is_tried_again(
    starter: ChildStarter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_starter, "pause_seconds", lambda _: 0)
    tried, over = asyncio.Event(), asyncio.Event()
    starter.pause(then=tried.set)
    starter.close()
    asyncio.get_running_loop().call_later(0, over.set)
    await over.wait()
    assert not tried.is_set()

"""What a child may use: up to each limit it is left alone, above it it is ended, and the reason is said."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mediamill.worker import child_watch
from mediamill.worker.child_watch import IDLE_BYTES, MOST_THREADS, ChildWatch
from mediamill.worker.failures import (
    MemoryLimitError,
    ProcessorCrashedError,
    TooManyThreadsError,
    TooMuchWrittenError,
)
from mediamill.worker.process_tree import Use
from tests.worker.harness import opened_now

MEMORY = 1_000


@dataclass
class Measured:
    """What a child uses, as the kernel would say it."""

    memory: int = 0
    exact: int = 0
    threads: int = 1
    written: int = 0
    cpu: float = 0.0


Watching = tuple[ChildWatch, Measured]


@pytest.fixture
def watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    """This process is the child."""
    used = Measured()
    figures: dict[str, Callable[..., Any]] = {
        "measure_use": lambda *_, **__: Use(used.memory, used.threads),
        "measure_memory": lambda *_, exact: used.exact if exact else used.memory,
        "measure_writes": lambda *_, **__: used.written,
        "measure_cpu": lambda *_, **__: used.cpu,
    }
    for name, figure in figures.items():
        monkeypatch.setattr(child_watch, name, figure)
    monkeypatch.setattr(child_watch, "MOST_FILES", 3)
    watch = ChildWatch(os.getpid(), tmp_path, MEMORY, alone=True)
    yield watch, used
    watch.close()


def look(watch: ChildWatch, *, busy: bool = True, ready: bool = True) -> Exception | None:
    return watch.look(busy=busy, ready=ready)


def test_memory_is_that_of_the_exact_measure_and_only_above_the_limit_too_much(watching: Watching) -> None:
    watch, used = watching
    used.memory = used.exact = MEMORY
    assert look(watch) is None
    used.memory = MEMORY + 1
    assert look(watch) is None, "shared pages were counted twice"
    used.memory, used.exact = MEMORY, MEMORY + 1
    assert look(watch) is None, "it is not looked at closer"
    used.memory = MEMORY + 1
    error = look(watch)
    assert isinstance(error, MemoryLimitError)
    assert str(error) == "the processor used more than its limit of 1000 bytes of memory"


def test_threads_are_limited(watching: Watching) -> None:
    watch, used = watching
    used.threads = MOST_THREADS
    assert look(watch) is None
    used.threads += 1
    error = look(watch)
    assert isinstance(error, TooManyThreadsError)
    assert f"more than {MOST_THREADS} threads" in str(error)
    assert 500 + (os.cpu_count() or 1) <= MOST_THREADS


def test_files_are_limited(watching: Watching, tmp_path: Path) -> None:
    watch, _ = watching
    for name in "abc":
        (tmp_path / name).touch()
    assert look(watch) is None
    (tmp_path / "d").touch()
    error = look(watch)
    assert isinstance(error, TooMuchWrittenError)
    assert "more than 3 files" in str(error)


def test_what_a_job_may_write_is_counted_from_its_beginning(watching: Watching) -> None:
    watch, used = watching
    used.written = 10 * IDLE_BYTES
    assert look(watch, ready=False) is None, "what it writes while it loads is not looked at"
    watch.end_job()
    watch.begin_job(500)
    used.written += 500
    assert look(watch) is None
    assert watch.end_job() is None
    watch.begin_job(500)
    used.written += 501
    for error in (look(watch), watch.end_job()):
        assert isinstance(error, TooMuchWrittenError)
        assert str(error) == "the processor wrote more than its limit of 500 bytes"
    used.written += IDLE_BYTES
    assert look(watch, busy=False) is None, "libraries log a little"
    used.written += 1
    assert isinstance(look(watch, busy=False), TooMuchWrittenError)


def test_a_child_that_goes_on_computing_is_ended_but_not_for_what_its_job_computes(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, used = watching
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    used.cpu = 50.0
    assert look(watch, busy=False) is None
    used.cpu = 51.0
    assert look(watch, busy=False) is None, "a second of it is allowed"
    now[0] += 20
    used.cpu = 52.0
    assert look(watch, busy=False) is None, "and a twentieth of the time"
    used.cpu = 52.1
    assert look(watch, busy=True) is None
    assert look(watch, busy=False, ready=False) is None
    assert isinstance(look(watch, busy=False), ProcessorCrashedError)
    watch.begin_job(500)
    assert watch._idle_from is None
    watch.end_job()
    assert look(watch, busy=False) is None, "it counts from here"
    used.cpu += 1.1
    assert isinstance(look(watch, busy=False), ProcessorCrashedError)


def test_its_figures_are_read_from_one_file_that_is_closed_with_it(tmp_path: Path) -> None:
    watch = ChildWatch(os.getpid(), tmp_path, MEMORY, alone=True)
    assert f"/proc/{os.getpid()}/io" in opened_now()
    watch.end_job()
    (tmp_path / "a").write_bytes(b"x" * 700)
    watch.begin_job(1 << 40)
    assert watch.end_job() is None
    assert watch._written_before >= 700
    for _ in range(2):
        watch.close()
        assert f"/proc/{os.getpid()}/io" not in opened_now()
    gone = ChildWatch(1 << 30, tmp_path, MEMORY, alone=True)  # no such process
    assert gone.look(busy=True, ready=True) is None
    gone.close()

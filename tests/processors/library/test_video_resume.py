"""A video whose worker dies anywhere: the next attempt goes on, and in the end all is as if nothing had happened."""

from __future__ import annotations

import os
import shutil
import signal
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from mediamill.media.frames import Footage
from mediamill.processors.library.resume import Earlier
from mediamill.worker.messages import KeptFile, Report
from mediamill.worker.sandbox import Limits, ProcessorCrashedError, Sandbox, SandboxJob, Take
from tests.media.clips import dissolve, encode, flash, pan, still
from tests.processors.library.homes import Crash, Home

pytestmark = pytest.mark.spec("L7")


def make_source(path: Path) -> Path:
    """Cuts, drift, a flash, a fade and a scene that is longer than scenes may be."""
    parts = [
        pan(1, 5, 4.0),
        flash(2, 6, 3.0),
        pan(3, 12, 6.0),
        dissolve(3, 4, 3),
        still(5, 33),
        pan(6, 0.7),
        pan(7, 5),
    ]
    return encode(path, chain.from_iterable(parts), gop=40)


@pytest.fixture(scope="module", params=["mp4", "mkv", "ts", "avi"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Home, Any]:
    """A source, and what an attempt that nothing befell made of it."""
    place = tmp_path_factory.mktemp(request.param)
    source = make_source(place / f"a.{request.param}")
    home = Home(place / "kept")
    return source, home, home.attempt(source)


def same(home: Home, other: Home) -> None:
    assert home.scenes == other.scenes
    assert home.names() == other.names()
    for name in home.names():
        if name != "clip.mp4":  # its encoder's threads need not agree to the bit
            assert (home.folder / name).read_bytes() == (other.folder / name).read_bytes(), name


def test_a_crash_at_any_point_changes_nothing(whole: tuple[Path, Home, Any], tmp_path: Path) -> None:
    source, expected, result = whole
    assert len(expected.scenes) >= 7
    for crash_at in range(1, expected.calls + 1, 1 if source.suffix == ".mp4" else 5):
        home = Home(tmp_path / f"kept-{crash_at}")
        with pytest.raises(Crash):
            home.attempt(source, crash_at=crash_at)
        before = set(home.facts)
        assert home.attempt(source) == result
        assert not before & set(home.kept), "something was made twice"
        same(home, expected)


def test_a_crash_in_every_attempt_still_comes_to_an_end(
    whole: tuple[Path, Home, Any], tmp_path: Path
) -> None:
    source, expected, result = whole
    home = Home(tmp_path / "kept")
    made: list[str] = []
    while True:
        try:
            told = home.attempt(source, crash_at=5)
            break
        except Crash:
            made += home.kept
    assert told == result
    assert sorted(made + home.kept) == expected.names()
    same(home, expected)


def test_only_two_seconds_are_decoded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, home = make_source(tmp_path / "a.mp4"), Home(tmp_path / "kept")
    with pytest.raises(Crash):
        home.attempt(source, crash_at=14)
    until = home.checkpoint["until"]
    times: list[float] = []
    frames = Footage.frames

    def watched(self: Footage, start_seconds: float | None = None) -> Any:
        for at, frame in frames(self, start_seconds):
            times.append(at)
            yield at, frame

    monkeypatch.setattr(Footage, "frames", watched)
    home.attempt(source)
    assert until > 10
    assert until - 2 - 40 / 12 <= times[0] <= until - 2  # from the keyframe before


def test_a_source_that_changed_or_a_file_that_is_gone_is_begun_anew(tmp_path: Path) -> None:
    source, home = make_source(tmp_path / "a.mp4"), Home(tmp_path / "kept")
    expected = Home(tmp_path / "expected")
    expected.attempt(source)
    with pytest.raises(Crash):
        home.attempt(source, crash_at=14)
    del home.facts["scene-00002.jpg"]
    home.attempt(source)
    assert "scene-00002.jpg" in home.kept
    assert "scene-00001.jpg" not in home.kept
    same(home, expected)
    os.utime(source, ns=(5, 5))
    home.attempt(source)
    assert sorted(home.kept) == home.names()


@pytest.mark.parametrize("nonsense", [{}, [], "x", {"stamp": 1}, {"state": {"rules": "other"}}])
def test_a_checkpoint_that_makes_no_sense_is_none(tmp_path: Path, nonsense: Any) -> None:
    home = Home(tmp_path / "kept", checkpoint=nonsense)
    result = home.attempt(encode(tmp_path / "a.mp4", still(1, 1)))
    assert result["scene_count"] == 1


def test_a_state_of_other_rules_is_not_used(tmp_path: Path) -> None:
    source, home = make_source(tmp_path / "a.mp4"), Home(tmp_path / "kept")
    with pytest.raises(Crash):
        home.attempt(source, crash_at=14)
    home.checkpoint["version"] = "scenes-0"
    stamp = home.checkpoint["stamp"]
    given: Any = type("Given", (), {"kept": home.facts, "checkpoint": home.checkpoint})
    assert Earlier.read(given, stamp, 100, 60.0).until == 0.0


class Worker:
    """Takes files and reports, as a worker does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.facts = folder, dict[str, dict[str, Any]]()
        self.checkpoint: Any = None
        self.scenes: dict[int, Any] = {}

    def take(self, kept: KeptFile, take_out: Take) -> None:
        shutil.move(take_out({kept.name: kept.path}) / kept.path, self.folder / kept.name)
        self.facts[kept.name] = {**kept.facts, "bytes": (self.folder / kept.name).stat().st_size}

    def hear(self, report: Report) -> None:
        if report.parts is not None:
            self.scenes.setdefault(report.parts["scene"]["number"], report.parts["scene"])
        self.checkpoint = report.checkpoint or self.checkpoint


async def test_after_kill_9_of_the_child_another_goes_on(tmp_path: Path) -> None:
    source = make_source(tmp_path / "a.mp4")
    expected = Home(tmp_path / "expected")
    result = expected.attempt(source)
    limits = Limits(timeout_seconds=300, memory_bytes=3 << 30)  # as the pool has it
    sandbox = Sandbox("library-video", size=1, limits=limits, scratch=tmp_path / "scratch")
    await sandbox.start()
    try:
        worker = await killed_in_the_middle(sandbox, source, tmp_path)
        again = SandboxJob({}, file=source, checkpoint=worker.checkpoint, kept=worker.facts, attempt=2)
        output = await sandbox.run(again, worker.hear, on_kept=worker.take)
    finally:
        await sandbox.close()
    assert output.result == result
    assert worker.scenes == expected.scenes


async def killed_in_the_middle(sandbox: Sandbox, source: Path, folder: Path) -> Worker:
    """A child that had ended when the signal came, because this process got no CPU in time, proves nothing."""
    for number in range(10):
        worker = Worker(folder / f"kept-{number}")
        worker.folder.mkdir()

        def hear(report: Report, worker: Worker = worker) -> None:
            worker.hear(report)
            if len(worker.scenes) == 3:
                os.kill(next(iter(sandbox._children)).pid, signal.SIGKILL)

        try:
            await sandbox.run(SandboxJob({}, file=source), hear, on_kept=worker.take)
        except ProcessorCrashedError:
            return worker
    raise AssertionError("no child could be killed before it had ended")

"""The bench of videos, with a small film and without ffmpeg beside it: every part of ours gives its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.video import clips, ladders, quality, uploads
from bench.video.__main__ import PARTS, Ground, Sizes
from bench.video.ladders import OURS, clip_rungs, look_at, run_way
from bench.video.resuming import is_seamless

TINY = Sizes(film_seconds=4, files=4, upload_bytes=1 << 20, upload_rounds=1)


@pytest.mark.timeout(300)
def test_every_part_of_the_video_bench_runs(bench_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clips, ladders, quality):
        monkeypatch.setattr(module, "WIDTH", 640)
        monkeypatch.setattr(module, "HEIGHT", 360)
    for pause in ("SETTLE_SECONDS", "REST_SECONDS"):
        monkeypatch.setattr(uploads, pause, 0)
    ground = Ground(bench_folder, 1, TINY)
    rungs = [rung.name for rung in clip_rungs()]

    ladder = run_way(OURS, ground.clip("film"), bench_folder / "ladder")
    assert ladder["cpu_seconds"] > 0
    looks = look_at(OURS, ground.clip("film"), bench_folder / "ladder")
    assert looks.keys() == set(rungs)
    assert all(look["ssim"] > 0.5 and look["vmaf"] > 10 for look in looks.values())

    found = {name: PARTS[name](ground) for name in PARTS if name != "ladders"}
    assert found["sandboxed"]["qualities"] == rungs
    assert is_seamless(found["resuming"], TINY.film_seconds * clips.FPS)
    assert found["checkpoints"]["share_of_the_ladders_cpu"] > 0
    assert found["upload"]["vs_copy"] > 0

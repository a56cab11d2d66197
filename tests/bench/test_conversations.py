"""The bench of conversations, at a tiny size: every measurement runs and gives its figures."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.conversations.__main__ import Sizes, measure

TINY = Sizes(texts=5, bots=2, each=2, noise=4, waiting=(5, 10))


@pytest.mark.timeout(300)
async def test_every_measurement_of_conversations_runs(
    bench_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DATA", "STUB_AUDIO_SECONDS", "LOG_LEVEL"):  # it sets them, for its workers too
        monkeypatch.setenv(f"MEDIAMILL_{name}", "")
    figures = await measure(bench_folder, TINY)
    assert figures["delay"]["alone_ms"]["p50"] > 0
    assert figures["delay"]["behind_video_ms"]["p50"] > 0
    for burst in ("burst_small_files", "burst_large_files"):
        assert figures[burst]["messages"] == TINY.bots * TINY.each
        assert figures[burst]["finished_s"] > 0
    assert figures["noisy"]["noisy_messages"] == TINY.noise
    assert figures["noisy"]["quiet_messages"] == 2
    assert [step["waiting"] for step in figures["waiting"]["steps"]] == list(TINY.waiting)

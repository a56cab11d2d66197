"""Servers of models are asked again at once: the tests look at how often, not at how long the pauses are."""

from __future__ import annotations

import pytest

from mediamill.processors.models import endpoint, gemini_video


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pauses are short."""
    monkeypatch.setattr(endpoint, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(gemini_video, "FIRST_POLL_SECONDS", 0.01)

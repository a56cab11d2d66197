"""Threads of pi that nobody used for long are deleted, and no other."""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from mediamill.agents.contract import Turn, answer_text
from mediamill.agents.pi_forget import forget_old_threads
from mediamill.agents.pi_setup import pi_folder
from mediamill.agents.pi_thread import PiThread, lock_folder
from mediamill.testing.openai_server import OpenAiServer
from tests.agents.conftest import MakePi, MakeSettings, said

MONTH = timedelta(days=30)


def age(folder: Path, days: float) -> None:
    """As if it had last been used so long ago."""
    at = time.time() - days * 86400
    for path in [*folder.iterdir(), folder]:
        os.utime(path, (at, at))


async def test_a_thread_that_is_long_unused_is_deleted_and_begins_anew(
    make_pi: MakePi, server: OpenAiServer
) -> None:
    agent = make_pi()
    for key in ("old", "new"):
        await answer_text(agent.session(key).prompt("one", (), "run-1"))
    await agent.close()
    old, new = (PiThread(pi_folder(agent.settings), key).folder for key in ("old", "new"))
    age(old, 31)
    age(new, 29)
    assert forget_old_threads(agent.settings, MONTH) == 1
    assert not old.exists()
    assert forget_old_threads(agent.settings, MONTH) == 0
    again = make_pi()
    await answer_text(again.session("old", [Turn("user", "hi"), Turn("assistant", "ho")]).prompt("two"))
    assert said(server) == [("user", "hi"), ("assistant", "ho"), ("user", "two")]
    await answer_text(again.session("new").prompt("two"))
    assert said(server)[0] == ("user", "one")


async def test_a_thread_whose_pi_lives_is_kept(make_pi: MakePi, server: OpenAiServer) -> None:
    agent = make_pi()
    await answer_text(agent.session("t").prompt("one"))
    folder = PiThread(pi_folder(agent.settings), "t").folder
    age(folder, 31)
    assert forget_old_threads(agent.settings, MONTH) == 0
    await answer_text(agent.session("t").prompt("two"))
    assert len(said(server)) == 3


def test_what_is_no_thread_is_kept(make_settings: MakeSettings) -> None:
    settings = make_settings()
    assert forget_old_threads(settings, MONTH) == 0
    config = pi_folder(settings) / "config"
    config.mkdir(parents=True)
    age(pi_folder(settings), 365)
    assert forget_old_threads(settings, MONTH) == 0
    assert config.exists()


def test_a_lock_of_a_folder_that_was_deleted_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def opened_too_early(path: Path, *more: int) -> int:
        found = real(path, *more)
        path.unlink()
        return found

    monkeypatch.setattr(os, "open", opened_too_early)
    assert lock_folder(tmp_path) is None

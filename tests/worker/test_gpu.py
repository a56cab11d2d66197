"""Which encoders in hardware a machine has: asked of another process, which may crash."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from mediamill.worker import gpu
from mediamill.worker.gpu import find_encoders


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shell in the place of Python, which does what is in this file; and a card."""
    program, script = tmp_path / "python", tmp_path / "script"
    program.write_text(f'#!/bin/sh\nprintf "%s " "$@" > {tmp_path}/words\nenv > {tmp_path}/env\n. {script}\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(gpu, "DEVICES", ("nowhere", "null"))
    return script


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("""echo '["h264_nvenc", "libx264", "h264_qsv"]'""", ("h264_nvenc", "h264_qsv")),
        ("""echo '["libx264"]'""", ()),
        ("echo nothing", ()),
        ("""echo '["h264_nvenc"]'; exit 1""", ()),
        ("kill -SEGV $$", ()),
    ],
)
def test_a_driver_that_crashes_has_no_encoders(answer: Path, script: str, found: tuple[str, ...]) -> None:
    answer.write_text(script)
    assert find_encoders() == found


def test_a_driver_that_hangs_is_not_waited_for(answer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LIMIT_SECONDS", 0.05)
    answer.write_text("exec sleep 600")
    started = time.monotonic()
    assert find_encoders() == ()
    assert time.monotonic() - started < 60


def test_no_secret_goes_to_the_driver(answer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDIAMILL_ADMIN_SECRET", "s3cret")
    answer.write_text("echo '[]'")
    find_encoders()
    assert "s3cret" not in (answer.parent / "env").read_text()
    words = (answer.parent / "words").read_text()
    assert words.startswith("-c ")
    compile(words.removeprefix("-c "), "question", "exec")
    assert "print(json.dumps(" in words


def test_where_there_is_no_card_nobody_is_asked(answer: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "DEVICES", ("nowhere",))
    answer.write_text("""echo '["h264_nvenc"]'""")
    assert find_encoders() == ()
    assert not (answer.parent / "words").exists()
    monkeypatch.undo()
    assert {"dri", "nvidia0"} < set(gpu.DEVICES)

"""Models are fetched by a process that children wait for: what it is given, and what its end means."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import psutil
import pytest

from mediamill.processors.models.fetch_hub import NEVER
from mediamill.worker.failures import ProcessorFailedError, ProcessorGaveUpError
from mediamill.worker.fetch_models import fetch_hub_models
from tests.worker.harness import wait_until


def put(script: Path, text: str) -> None:
    script.write_text(text)


@pytest.fixture
def answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shell in the place of Python, which does what is in this file."""
    program, script = tmp_path / "python", tmp_path / "script"
    program.write_text(f'#!/bin/sh\necho "$$ $@" > {tmp_path}/words\nenv > {tmp_path}/env\n. {script}\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return script


async def test_it_knows_the_way_and_what_is_wanted_and_no_secrets(
    answer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        **{"MEDIAMILL_SPEECH_MODEL": "wanted", "MEDIAMILL_MODELS": "wanted", "HF_TOKEN": "wanted"},
        **{"MEDIAMILL_DATABASE_URL": "s3cret", "MEDIAMILL_OPENAI_KEY": "s3cret", "XHF_TOKEN": "s3cret"},
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    put(answer, 'read -r word; test -z "$word" || exit 9\necho a page of progress')
    await fetch_hub_models()
    environment = (answer.parent / "env").read_text()
    assert environment.count("=wanted") == 3
    assert "s3cret" not in environment
    words = (answer.parent / "words").read_text().split()[1:]
    assert words == ["-P", "-m", "mediamill.processors.models.fetch_hub"]


@pytest.mark.parametrize(
    ("script", "error", "says"),
    [
        ("echo ' no such model ' >&2; exit {never}", ProcessorGaveUpError, "^no such model$"),
        ("echo 'no answer' >&2; exit 1", ProcessorFailedError, "^no answer$"),
        ("exit 9", ProcessorFailedError, "^the models could not be fetched$"),
        ("printf 'x%03000d' 7 >&2; exit 1", ProcessorFailedError, "^0{1999}7$"),
        ("kill -9 $$", ProcessorFailedError, "^the models could not be fetched$"),
    ],
)
async def test_its_end_says_whether_to_try_again(
    answer: Path, script: str, error: type[Exception], says: str
) -> None:
    put(answer, script.format(never=NEVER))
    with pytest.raises(error, match=says) as caught:
        await fetch_hub_models()
    assert type(caught.value) is error
    assert caught.value.fix == "mediamill models fetch"  # type: ignore[attr-defined]


async def test_it_ends_with_whoever_waits_for_it(answer: Path) -> None:
    put(answer, "exec sleep 600")
    fetching = asyncio.create_task(fetch_hub_models())
    words = answer.parent / "words"
    await wait_until(lambda: words.exists() and words.read_text().endswith("\n"), "it runs")
    pid = int(words.read_text().split()[0])
    assert psutil.Process(pid).ppid() == os.getpid()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert not psutil.pid_exists(pid), "it is reaped, too"

"""Starting children: what cannot be loaded is told clearly, and what they inherit is no secret."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import psutil
import pytest
from pydantic import SecretStr

from mediamill import processors
from mediamill.processors.registry import UnknownProcessorError
from mediamill.processors.settings import GIVEN, KEYS
from mediamill.settings import Settings
from mediamill.worker.sandbox import ProcessorCrashedError, ProcessorStartError, Sandbox
from mediamill.worker.spawn import PROCESSOR_SETTINGS
from tests.worker.harness import GENEROUS, LIMIT_SECONDS, do, everything_in, opened, pid_of


async def test_an_unknown_processor_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(UnknownProcessorError, match="did you mean 'scripted'"):
        await Sandbox("scriptet", size=1, limits=GENEROUS, scratch=tmp_path).start()


class Moody:
    """A plugin `moody` that can be made to fail when it is loaded."""

    def __init__(self, flag: Path) -> None:
        self._flag = flag

    def fail(self) -> None:
        self._flag.touch()

    def recover(self) -> None:
        self._flag.unlink()


@pytest.fixture
def moody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Moody:
    flag, info = tmp_path / "out-of-order", tmp_path / "moody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mediamill.processors]\nmoody = moody:make\n")
    (tmp_path / "moody.py").write_text(MOODY.format(flag=str(flag)))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return Moody(flag)


MOODY = """
from pathlib import Path
from mediamill.testing.scripted import ScriptedProcessor

def make(mime_types, timeout_seconds):
    if Path({flag!r}).exists():
        raise RuntimeError("the model is missing")
    return ScriptedProcessor(mime_types, timeout_seconds)
"""


async def test_a_processor_that_cannot_be_loaded_says_so_to_the_first_job(
    tmp_path: Path, moody: Moody
) -> None:
    moody.fail()
    sandbox = Sandbox("moody", size=2, limits=GENEROUS, scratch=tmp_path / "scratch")
    await sandbox.start()
    async with asyncio.timeout(LIMIT_SECONDS):
        with pytest.raises(ProcessorStartError, match="the model is missing") as caught:
            await do(sandbox)
    assert "moody.py" in (caught.value.traceback or "")
    await sandbox.close()
    assert everything_in(tmp_path / "scratch") == []


async def test_a_processor_that_cannot_be_loaded_again_is_tried_until_it_can(
    tmp_path: Path, moody: Moody
) -> None:
    sandbox = Sandbox("moody", size=1, spare=0, limits=GENEROUS, scratch=tmp_path / "scratch")
    await sandbox.start()
    try:
        await do(sandbox)
        moody.fail()
        with pytest.raises(ProcessorCrashedError, match="exit code"):
            await do(sandbox, "exit")
        async with asyncio.timeout(LIMIT_SECONDS):
            with pytest.raises(ProcessorStartError, match="the model is missing"):
                await do(sandbox)
            moody.recover()
            assert await do(sandbox, result={"n": 1}) == {"n": 1}
    finally:
        await sandbox.close()


async def test_secrets_of_the_worker_are_not_in_the_childs_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", "postgresql://user:hidden@nowhere/x")
    monkeypatch.setenv("MEDIAMILL_BUCKET_SECRET", "hidden")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("SOME_OTHER_PROGRAMS_TOKEN", "hidden")
    monkeypatch.setenv("MEDIAMILL_DOCUMENT_PAGES", "7")
    monkeypatch.setenv("MEDIAMILL_SPEECH_LANGUAGE", "de")
    monkeypatch.setenv("OF_A_PLUGIN", "wanted")
    monkeypatch.setenv("MEDIAMILL_SANDBOX_ENVIRONMENT", "OF_ANOTHER, OF_A_PLUGIN")
    async with opened(tmp_path) as sandbox:
        environment = psutil.Process(await pid_of(sandbox)).environ()
    assert environment["MEDIAMILL_DOCUMENT_PAGES"] == "7"
    given = json.loads(environment[GIVEN])
    assert (given["document_pages"], given["speech_language"]) == (7, "de")
    assert environment["OF_A_PLUGIN"] == "wanted"
    assert "hidden" not in " ".join(environment.values())


def test_a_child_is_given_every_setting_that_processors_read() -> None:
    assert processors.__file__ is not None
    found: set[str] = set()
    for path in Path(processors.__file__).parent.rglob("*.py"):
        found |= set(re.findall(r"settings(?:\(\))?\.(\w+)", path.read_text()))
    read = found & Settings.model_fields.keys()
    assert {"speech_language", "vision"} <= read
    assert read - {*PROCESSOR_SETTINGS, *KEYS} == {"model_servers"}  # which only the caller goes by


@pytest.mark.spec("E30-redis")
async def test_a_child_can_read_its_settings_whatever_was_kept_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, field in Settings.model_fields.items():
        if SecretStr in (field.annotation, *get_args(field.annotation)):
            monkeypatch.setenv(f"MEDIAMILL_{name.upper()}", "redis://nowhere")
    monkeypatch.setenv("MEDIAMILL_QUEUE_MODE", "hybrid")
    async with opened(tmp_path) as sandbox:
        environment = psutil.Process(await pid_of(sandbox)).environ()
    words = [sys.executable, "-c", "from mediamill.settings import Settings; Settings()"]
    done = await asyncio.to_thread(subprocess.run, words, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

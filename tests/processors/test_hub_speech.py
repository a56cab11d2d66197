"""Whisper from a model hub on this machine: the pinned files are fetched once, then it hears as the local one does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mediamill.processors.models.fetch_hub import missing_hub_models
from mediamill.processors.models.hub import fetch_hub_model
from mediamill.processors.models.hub_speech import KNOWN, HubSpeech, chosen_model
from mediamill.processors.models.installed import model_folder
from mediamill.settings import Settings
from mediamill.testing.hub_server import HubServer
from mediamill.worker.sandbox import Limits, Sandbox, SandboxJob
from tests.media.speech import AMIABLE, AMIABLE_WORDS

pytestmark = pytest.mark.spec("C26")

COMMIT = "0d3d19a32d3338f10357c0889762bd8d64bbdeba"
NAME = "Systran/faster-whisper-base"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        server.publish(NAME, COMMIT, model_folder("whisper-base"))
        yield server


def test_a_whisper_of_the_hub_is_fetched_once_and_hears(hub: HubServer, tmp_path: Path) -> None:
    settings = Settings(speech="hub", speech_model=f"{NAME}@{COMMIT}", models=tmp_path)
    fetch_hub_model(chosen_model(settings), tmp_path)
    speech = HubSpeech(settings)
    wanted = ("config.json", "model.bin", "tokenizer.json", "vocabulary.txt")
    assert hub.fetched == {f"{COMMIT}/{name}" for name in wanted}
    assert speech.model == f"{NAME}@{COMMIT[:12]}"
    assert speech.network is False
    heard = speech.transcribe(AMIABLE, language="en", on_segment=lambda _: None)
    words = " ".join(each.text for each in heard.segments).lower().strip(" .")
    assert words == AMIABLE_WORDS
    assert heard.model == speech.model
    asked = len(hub.seen)
    fetch_hub_model(chosen_model(settings), tmp_path)
    assert len(hub.seen) == asked


async def test_a_confined_child_hears_with_a_model_that_was_fetched_before_it_started(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_SPEECH", "hub")
    monkeypatch.setenv("MEDIAMILL_SPEECH_MODEL", f"{NAME}@{COMMIT}")
    monkeypatch.setenv("MEDIAMILL_MODELS", str(tmp_path / "models"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)  # another test may have loaded a model here
    fetched = await asyncio.to_thread(run_fetch)
    assert (fetched.returncode, fetched.stdout, fetched.stderr) == (0, "", "")
    assert f"{COMMIT}/model.bin" in hub.fetched
    limits = Limits(timeout_seconds=120, memory_bytes=2 << 30)
    sandbox = Sandbox("audio", size=1, spare=0, limits=limits, scratch=tmp_path / "scratch")
    await sandbox.start()
    try:
        done = await sandbox.run(SandboxJob(mime_type="audio/ogg", file=AMIABLE))
    finally:
        await sandbox.close()
    assert AMIABLE_WORDS in str(done.result["content"]).lower()
    assert f"{NAME}@{COMMIT[:12]}" in done.result["models"]


def run_fetch() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "mediamill.processors.models.fetch_hub"]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        (f"nobody/nothing@{COMMIT}", 2, "the hub does not give nobody/nothing"),
        ("nonsense", 2, "MEDIAMILL_SPEECH_MODEL names no hub model"),
    ],
)
def test_a_model_that_cannot_be_had_is_told_with_an_exit_code(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int, said: str
) -> None:
    monkeypatch.setenv("MEDIAMILL_SPEECH", "hub")
    monkeypatch.setenv("MEDIAMILL_SPEECH_MODEL", name)
    monkeypatch.setenv("MEDIAMILL_MODELS", str(tmp_path))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    fetched = run_fetch()
    assert (fetched.returncode, fetched.stdout) == (code, "")
    assert said in fetched.stderr


def test_a_hub_that_cannot_be_asked_is_another_exit_code(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_SPEECH", "hub")
    monkeypatch.setenv("MEDIAMILL_MODELS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    fetched = run_fetch()
    assert (fetched.returncode, fetched.stdout) == (1, "")
    assert "could not be fetched" in fetched.stderr


def test_only_what_the_settings_choose_and_is_not_there_is_missing(tmp_path: Path) -> None:
    settings = Settings(speech="hub", speech_model="tiny", embedding="hub", models=tmp_path)
    speech, embedder = missing_hub_models(settings)
    assert (speech.name, embedder.name) == ("tiny", "ViT-B-32__laion2b-s34b-b79k")
    speech.folder(tmp_path).mkdir(parents=True)
    assert missing_hub_models(settings) == [embedder]
    assert missing_hub_models(Settings(models=tmp_path)) == []
    assert missing_hub_models(Settings(speech="hub", speech_model="nonsense", models=tmp_path)) == []


def test_the_default_is_the_turbo_model_at_a_pinned_commit() -> None:
    model = chosen_model(Settings(speech="hub"))
    assert model.id == "large-v3-turbo@0a363e9161cb"
    assert model.sha256
    assert all(len(each.revision) == 40 for each in KNOWN)

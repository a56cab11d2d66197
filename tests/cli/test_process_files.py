"""`mediamill process`: files in, text out; nothing done twice, nothing lost when it is killed."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from mediamill.db.connection import Database
from tests.cli.conftest import Mediamill, Said, finish_process, start_process
from tests.conftest import wait_until
from tests.ui.terminals import picture_terminal

SAMPLES = Path(__file__).parents[2] / "samples"
FIELDS = ("file", "mime_type", "status", "text", "tags", "models", "seconds", "error")


async def process_files(*words: object) -> Said:
    """As a process of its own; models take their time on a busy machine."""
    return await asyncio.to_thread(finish_process, start_process("process", *words), 250)


def lines(said: Said) -> dict[str, dict[str, Any]]:
    """The objects by the name of their file."""
    found = [json.loads(line) for line in said.out.splitlines()]
    assert all(tuple(one) == FIELDS for one in found)
    return {Path(one["file"]).name: one for one in found}


@pytest.mark.spec("C26")
async def test_the_samples_become_text_that_a_person_finds_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    said = await process_files(SAMPLES, "--json", "--out", out)
    files = lines(said)
    assert (said.code, said.err) == (0, "")
    text = {name: one["text"] for name, one in files.items()}
    assert "espresso" in text["photo.jpg"]
    assert {"label", "score"} == files["photo.jpg"]["tags"][0].keys()
    assert "Booking reference K7QX2M" in text["screenshot.png"]
    assert "he was not an ill-disposed young man" in text["voice.ogg"].lower()
    assert "3 scenes" in text["video.mp4"]
    assert "more amiable woman" in text["video.mp4"]
    assert "240 rye loaves" in text["scan.pdf"]
    assert "Book the brass band | Wei | 15 April" in text["notes.docx"]
    assert "cat" in text["sticker.webp"]
    assert all(one["models"] for name, one in files.items() if name not in ("notes.docx", "README.md"))
    assert {path.name for path in (out / "video.mp4").iterdir()} >= {
        "poster.jpg",
        "captions.vtt",
        "result.json",
    }
    assert (out / "photo.jpg" / "thumbnail.jpg").stat().st_size > 1_000
    assert (out / "scan.pdf" / "text.txt").read_text().strip() == text["scan.pdf"].strip()
    again = await process_files(SAMPLES, "--json", "--out", out)
    assert again.out == said.out  # the same jobs, with the same times
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(SAMPLES.parent)
    shown = [f"samples/{name}" for name in ("photo.jpg", "screenshot.png", "video.mp4", "voice.ogg")]
    seen = await process_files(*shown, "--out", out)
    assert "more amiable woman" in seen.out
    command = f"mediamill process {' '.join(shown)}"
    texts = seen.out.rpartition("\n\n")[0]  # without the last line, which tells how long asking again took
    await picture_terminal(command, texts, SAMPLES.parent / "tests" / "screenshots" / "process.png")


@pytest.mark.spec("C26")
async def test_killed_in_the_middle_it_goes_on_where_it_was(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDIAMILL_DATABASE_URL", database.url)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        (folder / f"{number}.txt").write_text(f"text number {number}\n")
    (folder / "last.mp4").write_bytes((SAMPLES / "video.mp4").read_bytes())

    async def rows(sql: str) -> list[Any]:
        async with database.connection() as connection:
            return list(await connection.fetch(sql))

    async def half_done() -> bool:
        finished = await rows("select 1 from finished_jobs")
        return len(finished) >= 3 and bool(await rows("select 1 from jobs where state = 'running'"))

    process = start_process("process", folder, "--json")
    try:
        await wait_until(half_done)
    finally:
        process.kill()
        process.communicate()
    before = {
        row["id"]: row["finished_at"] for row in await rows("select id, finished_at from finished_jobs")
    }
    said = await process_files(folder, "--json")
    assert said.code == 0, said.err
    assert [one["status"] for one in lines(said).values()] == ["completed"] * 6
    assert [one["text"] for name, one in lines(said).items() if name.endswith(".txt")] == [
        f"text number {number}" for number in range(5)
    ]
    after = {row["id"]: row["finished_at"] for row in await rows("select id, finished_at from finished_jobs")}
    assert len(after) == 6
    assert before.items() <= after.items()  # what was done was not done again


async def test_a_file_that_fails_is_told_with_its_reason_and_the_exit_code(
    mediamill: Mediamill, tmp_path: Path
) -> None:
    (tmp_path / "good.txt").write_text("good words\n")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7\nnothing more")
    (tmp_path / "none.bin").touch()
    files = [tmp_path / name for name in ("good.txt", "bad.pdf", "none.bin")]
    said = await mediamill("process", *files)
    assert said.code == 1
    assert "good words" in said.out
    assert "failed: the PDF" in said.out
    assert "failed: the file is empty (0 bytes)" in said.out
    assert "3 files: 1 done, 2 failed" in said.out
    told = [json.loads(line) for line in (await mediamill("process", *files, "--json")).out.splitlines()]
    assert [one["status"] for one in told] == ["completed", "failed", "failed"]
    assert told[2]["text"] == "[The file is empty (0 bytes)]"
    assert told[2]["error"] == "the file is empty (0 bytes)"


async def test_odd_names_hidden_files_and_links_in_a_folder_do_no_harm(
    mediamill: Mediamill, tmp_path: Path
) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "config").write_text("hidden\n")
    (folder / "link.txt").symlink_to("/etc/hostname")
    names = [b"new\nline.txt", b"quote'\".txt", b"-dash.txt", b"\xff\xfe.txt", b"n" * 251 + b".txt"]
    for name in names:
        (folder / os.fsdecode(name)).write_text("words inside\n")
    said = await mediamill("process", folder, "--json", "--out", out)
    told = [json.loads(line) for line in said.out.splitlines()]
    assert [(one["status"], one["text"]) for one in told] == [("completed", "words inside")] * len(names)
    assert sorted(os.fsencode(path.name) for path in out.iterdir()) == sorted(names)
    assert {path.name for path in (out / "-dash.txt").iterdir()} == {"text.txt", "result.json"}


async def test_two_files_of_one_name_do_not_share_an_output_folder(
    mediamill: Mediamill, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.txt").write_text(f"of {name}\n")
    out = tmp_path / "out"
    await mediamill("process", tmp_path / "a/note.txt", tmp_path / "b/note.txt", "--out", out)
    assert (out / "note.txt/text.txt").read_text() == "of a\n"
    assert (out / "note.txt (2)/text.txt").read_text() == "of b\n"


async def test_a_changed_file_is_processed_anew_and_the_same_one_only_when_asked(
    mediamill: Mediamill, tmp_path: Path
) -> None:
    file = tmp_path / "note.txt"
    file.write_text("first\n")
    first = (await mediamill("process", file, "--json")).json
    assert (await mediamill("process", file, "--json")).json == first
    file.write_text("second, longer\n")
    assert (await mediamill("process", file, "--json")).json["text"] == "second, longer"
    count = len((await mediamill("jobs", "list", "--json")).json)
    await mediamill("process", file, "--again", "--json")
    assert len((await mediamill("jobs", "list", "--json")).json) == count + 1


@pytest.mark.parametrize(
    ("words", "complaint"), [(["nowhere.txt"], "there is no file nowhere.txt"), ([], "Missing")]
)
async def test_a_wrong_call_is_refused_before_anything_starts(
    mediamill: Mediamill, words: list[str], complaint: str
) -> None:
    said = await mediamill("process", *words)
    assert said.code in (1, 2)
    assert complaint in said.err


async def test_a_folder_without_files_is_said_to_be_one(mediamill: Mediamill, tmp_path: Path) -> None:
    said = await mediamill("process", tmp_path)
    assert said.code == 1
    assert "there is no file to process" in said.err


async def test_what_died_of_a_passing_trouble_is_tried_again_and_what_was_thrown_away_is_new(
    mediamill: Mediamill, new_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "bad.pdf"
    file.write_bytes(b"%PDF-1.7\nnothing more")
    await mediamill("process", file)
    connection = await asyncpg.connect(new_url)
    try:
        died = "select failed_at from dead_jobs where id = 1"
        first = await connection.fetchval(died)
        await mediamill("process", file)
        assert await connection.fetchval(died) == first  # the same bytes would fail again
        await connection.execute("update dead_jobs set reason = 'max_attempts_exhausted'")
        assert (await mediamill("process", file, file)).code == 1
        assert await connection.fetchval(died) > first
        await connection.execute("delete from dead_jobs")
        assert (await mediamill("process", file)).code == 1
        (fresh,) = await connection.fetch("select id from dead_jobs")
        assert fresh["id"] > 1
    finally:
        await connection.close()

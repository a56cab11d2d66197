"""`mediamill message` and `mediamill runs`, as processes and in a terminal, against a server on loopback."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mediamill.cli.command import run
from mediamill.cli.message import default_thread
from mediamill.cli.message_screen import AnswerPrinter
from tests.cli.conftest import Said, finish_process, run_process, start_process
from tests.client.loopback import CUT, RUN_ID, Loopback, event, problem, serve_loopback
from tests.stories.terminals import Terminal

SAMPLES = Path(__file__).parents[2] / "samples"
FIRST = RUN_ID.format(1)


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A server that the command finds."""
    with serve_loopback() as loopback:
        monkeypatch.setenv("MEDIAMILL_PORT", loopback.url.rpartition(":")[2])
        yield loopback


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Any:
    """The command as a call in this process."""

    def call(*words: object) -> Said:
        code = run([str(word) for word in words])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return Said(code, out, err)

    return call


@pytest.mark.spec("I9")
def test_images_are_sent_in_order_with_their_true_types_and_the_answer_is_printed(
    loopback: Loopback, tmp_path: Path
) -> None:
    lying = tmp_path / "really a webp.jpg"
    shutil.copy(SAMPLES / "sticker.webp", lying)
    loopback.answer = ["A bridge, ", "a page ", "and a smile."]
    words = (
        "describe these",
        "-i",
        SAMPLES / "photo.jpg",
        "--image",
        SAMPLES / "screenshot.png",
        "-i",
        lying,
    )
    said = run_process("message", *words, MEDIAMILL_ADMIN_SECRET="s3cret")
    assert (said.code, said.out, said.err) == (0, "A bridge, a page and a smile.\n", "")
    [sent] = loopback.asked("/v1/messages")
    assert [(image["mime_type"], image["filename"]) for image in sent.json["images"]] == [
        ("image/jpeg", "photo.jpg"),
        ("image/png", "screenshot.png"),
        ("image/webp", "really a webp.jpg"),
    ]
    assert b64decode(sent.json["images"][0]["data_base64"]) == (SAMPLES / "photo.jpg").read_bytes()
    assert (sent.json["thread_key"], sent.json["delivery_mode"]) == (default_thread(), "prompt")
    assert sent.headers["authorization"] == "Bearer s3cret"


@pytest.mark.spec("I9")
def test_the_answer_is_printed_before_it_has_ended(loopback: Loopback) -> None:
    loopback.answer = ["one\n", "two"]
    loopback.hold.clear()
    process = start_process("message", "count", "--thread", "a", "--mode", "steer", "--key", "k")
    assert process.stdout is not None
    assert process.stdout.readline() == "one\n"
    assert loopback.runs[FIRST]["state"] == "queued"  # it has not been told the end
    loopback.hold.set()
    assert process.stdout.read() == "two\n"  # not by communicate: it does not know what was read ahead
    assert process.wait(60) == 0
    sent = loopback.asked("/v1/messages")[0].json
    assert sent == {"idempotency_key": "k", "thread_key": "a", "text": "count", "delivery_mode": "steer"}


def test_the_text_comes_from_stdin(loopback: Loopback) -> None:
    command = [sys.executable, "-m", "mediamill", "message", "-"]
    text = "línea 1\nlínea 2\n"
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=60, check=True)
    assert done.stdout == b"Hello\n"
    assert loopback.asked("/v1/messages")[0].json["text"] == text.removesuffix("\n")
    for wrong, complaint in (
        (b"\xff", b"no text in UTF-8"),
        (b" \n", b"no text"),
        (b"x" * 300_000, b"too long"),
    ):
        refused = subprocess.run(command, input=wrong, capture_output=True, timeout=60, check=False)
        assert refused.returncode == 1
        assert complaint in refused.stderr
    assert len(loopback.asked("/v1/messages")) == 1


@pytest.mark.spec("I2", "I9")
def test_what_the_server_would_refuse_is_told_before_it_is_sent(
    loopback: Loopback, tmp_path: Path, call: Any
) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "empty.png").touch()
    (tmp_path / "note.png").write_text("not a picture at all")
    with (tmp_path / "large.png").open("wb") as large:
        large.write((SAMPLES / "screenshot.png").read_bytes())
        large.truncate(30 * 1024**2)
    photo = SAMPLES / "photo.jpg"
    for names, complaint in (
        ([photo] * 11, "11 images are too many: a message may have 10 (image_count_exceeded)"),
        ([tmp_path / "large.png"] * 2, "(image_total_bytes_exceeded)"),
        (
            [SAMPLES / "video.mp4"],
            "video.mp4 is video/mp4, no JPEG, PNG, WebP or GIF (image_mime_type_unsupported)",
        ),
        ([tmp_path / "note.png"], "note.png is text/plain, no JPEG"),
        ([tmp_path / "none.jpg"], "there is no file "),
        ([tmp_path], "is a folder"),
        ([tmp_path / "empty.png"], "empty.png is empty"),
        ([tmp_path / "pipe.jpg"], "it is not a regular file"),
        ([tmp_path / "none.jpg", photo, tmp_path / "empty.png"], "empty.png is empty"),
    ):
        said = call("message", "look", *(word for name in names for word in ("-i", name)))
        assert (said.code, said.out) == (1, ""), said
        assert complaint in said.err
    assert loopback.received == []


def test_what_the_server_refuses_is_told_with_its_code_and_what_to_do(loopback: Loopback, call: Any) -> None:
    detail = "the idempotency key was used before, for something else"
    loopback.first.append(problem(409, "idempotency_payload_mismatch", detail=detail, fix="use a new key"))
    said = call("message", "hi", "--key", "k")
    assert (said.code, said.out) == (1, "")
    assert said.err == f"error: {detail} (idempotency_payload_mismatch)\n  fix: use a new key\n"


def test_where_no_server_is_it_says_how_to_start_one(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_loopback() as gone:
        pass
    monkeypatch.setenv("MEDIAMILL_PORT", gone.url.rpartition(":")[2])
    for words in (("message", "hi"), ("runs", "list"), ("runs", "show", FIRST)):
        said = call(*words)
        assert said.code == 1
        assert said.err == f"error: no mediamill runs at {gone.url}\n  fix: start it: mediamill up\n"


def test_for_scripts_there_is_one_json_object(loopback: Loopback, call: Any) -> None:
    loopback.answer = ["1", "2"]
    done = call("message", "hi", "--json").json
    assert (done["run_id"], done["state"], done["answer"]) == (FIRST, "completed", "12")
    assert done["created_at"] == "2030-01-02T03:04:05+00:00"
    sent = call("message", "hi", "--json", "--no-wait").json
    assert (sent["run_id"], sent["state"]) == (RUN_ID.format(2), "queued")
    assert len(loopback.asked(f"/v1/runs/{sent['run_id']}/events")) == 0
    plain = call("message", "hi", "--no-wait")
    assert (plain.code, plain.out) == (0, f"run {RUN_ID.format(3)} is queued\n")


def test_a_run_that_fails_is_exit_code_1_and_says_how_to_try_again(loopback: Loopback, call: Any) -> None:
    loopback.add_run(key="k")
    failed = loopback.finished(FIRST, state="failed", error="no model", error_code="agent_down")
    loopback.streams.extend([[event("text", {"text": "I thi"}, "1-5"), failed], [failed]])
    said = call("message", "hi", "--key", "k")
    assert (said.code, said.out) == (1, "I thi\n")
    assert "this was sent before with the same key" in said.err
    assert "error: the run failed: no model (agent_down)" in said.err
    assert f"fix: try it again: mediamill runs retry {FIRST}" in said.err
    as_json = call("message", "hi", "--key", "k", "--json")
    assert as_json.code == 1
    assert json.loads(as_json.out)["error_code"] == "agent_down"


def test_an_answer_that_begins_anew_is_written_once_if_it_is_the_same(loopback: Loopback, call: Any) -> None:
    loopback.add_run(key="k")
    loopback.streams.append(
        [
            event("text", {"text": "one two"}, "1-7"),
            event("restart", {}),
            event("text", {"text": "one"}, "2-3"),
            CUT,
        ]
    )
    loopback.streams.append([event("text", {"text": " two three"}, "2-13"), _end(loopback, "one two three")])
    said = call("message", "hi", "--key", "k")
    assert said.out == "one two three\n"
    assert "anew" not in said.err


def test_an_answer_that_begins_anew_otherwise_is_written_whole(loopback: Loopback, call: Any) -> None:
    loopback.add_run(key="k")
    loopback.streams.append(
        [
            event("text", {"text": "one tw"}),
            event("restart", {}),
            event("text", {"text": "two"}),
            _end(loopback, "two"),
        ]
    )
    said = call("message", "hi", "--key", "k")
    assert said.out == "one tw\ntwo\n"
    assert "the answer begins anew" in said.err


def _end(loopback: Loopback, answer: str) -> str:
    loopback.answer = [answer]
    return loopback.finished(FIRST)


@pytest.mark.parametrize(
    ("pieces", "answer", "out"),
    [
        (["a", None, "a"], "a", "a\n"),
        (["a\n"], "a\n", "a\n"),
        (["ab", None, "a"], "a", "ab\na\n"),
        ([], "only at the end", "only at the end\n"),
        (["half"], "half and the rest", "half and the rest\n"),
        (["half"], None, "half\n"),
        (["\x1b[31mred\r\n"], None, "�[31mred\n"),
        ([], "", ""),
    ],
)
def test_what_stands_in_the_end_is_the_whole_answer(
    capsys: pytest.CaptureFixture[str], pieces: list[str | None], answer: str | None, out: str
) -> None:
    printer = AnswerPrinter()
    for piece in pieces:
        printer.begin_anew() if piece is None else printer.add(piece)
    printer.end(answer)
    assert capsys.readouterr().out == out


def test_ctrl_c_leaves_the_run_going_and_says_how_to_look_at_it(loopback: Loopback) -> None:
    loopback.hold.clear()
    loopback.answer = ["begun\n", "more"]
    process = start_process("message", "hi")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    said = finish_process(process)
    assert said.code == 130
    assert said.err == f"the run goes on; to see its answer: mediamill runs show {FIRST}\n"


def test_whoever_closes_the_pipe_ends_it_quietly(loopback: Loopback) -> None:
    loopback.answer = ["line\n"] * 50_000
    process = start_process("message", "hi")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.wait(60)
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


async def test_in_a_terminal_something_moves_until_the_answer_comes(
    loopback: Loopback, environment: dict[str, str], tmp_path: Path
) -> None:
    large = tmp_path / "large.png"
    with large.open("wb") as out:
        out.write((SAMPLES / "screenshot.png").read_bytes())
        out.truncate(20 * 1024**2)
    loopback.add_run(key="k")
    loopback.hold.clear()
    settings = {**environment, "MEDIAMILL_PORT": loopback.url.rpartition(":")[2]}
    terminal = Terminal("message", "look", "-i", str(large), "--key", "k", environment=settings)
    try:
        await asyncio.to_thread(terminal.until, "sending 1 image")
        await asyncio.to_thread(terminal.until, "thinking …")
        await asyncio.to_thread(terminal.until, "Hello")
        loopback.hold.set()
        assert await asyncio.to_thread(terminal.until_gone) == 0
        assert f"thread t, run {FIRST}" in terminal.shown
    finally:
        terminal.close()


def test_runs_are_listed_shown_and_tried_again(loopback: Loopback, call: Any) -> None:
    mine = default_thread()
    empty = call("runs", "list")
    assert (empty.code, empty.out) == (0, f"no runs on thread {mine}; mediamill message makes one\n")
    loopback.add_run(thread_key=mine, text="what is\nthis?", image_count=2, image_bytes=3_000, tries=1)
    failed = loopback.add_run(thread_key=mine, state="failed", error="no \x1bmodel", error_code="agent_down")
    loopback.add_run(thread_key="other")
    listed = call("runs", "list")
    assert [line.split()[:2] for line in listed.out.splitlines()[2:]] == [
        [failed["run_id"], "failed"],
        [FIRST, "queued"],
    ]
    assert "what is this?" in listed.out
    assert "\x1b" not in listed.out
    assert [run["thread_key"] for run in call("runs", "list", "--thread", "other", "--json").json] == [
        "other"
    ]
    shown = call("runs", "show", FIRST).out
    assert "images   2 (3.0 kB)" in shown
    assert "what is\nthis?" in shown
    assert "no �model (agent_down)" in call("runs", "show", failed["run_id"]).out
    assert call("runs", "show", FIRST, "--json").json["text"] == "what is\nthis?"
    again = call("runs", "retry", failed["run_id"], RUN_ID.format(99), "--json")
    assert again.code == 1
    assert json.loads(again.out) == {"retried": [failed["run_id"]], "refused": ["no (unknown_run)"]}
    assert call("runs", "show", FIRST, "--follow").out == "Hello\n"
    assert call("runs", "show", "no-id").code == 2

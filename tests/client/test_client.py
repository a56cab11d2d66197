"""Both clients against a real HTTP server: what they send, what they read, and how they go on when it breaks."""

from __future__ import annotations

import asyncio
import doctest
import tracemalloc
from base64 import b64decode
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import mediamill.client
from mediamill.client import (
    Client,
    Finished,
    Image,
    NoServerError,
    ProblemError,
    Restarted,
    RunFailedError,
    StateChanged,
    TextPiece,
    awaiting,
    blocking,
)
from tests.client.conftest import JPEG, PNG, Either
from tests.client.loopback import CUT, NOBODY, RUN_ID, Loopback, event, hold_port, problem, serve_loopback

FIRST = RUN_ID.format(1)


async def test_text_and_images_arrive_in_order_with_the_types_that_their_bytes_show(
    client: Either, loopback: Loopback, files: list[Path]
) -> None:
    told: list[tuple[int, int]] = []
    images = [*files, JPEG, Image(PNG, "image/gif", "claimed.gif"), str(files[0])]
    run = await client(
        "send_message", "a/b", "was ist “das”?\n", images, progress=lambda *so: told.append(so)
    )
    [got] = loopback.received
    sent = got.json
    assert int(got.headers["content-length"]) == len(got.body)
    assert (sent["thread_key"], sent["text"], sent["delivery_mode"]) == ("a/b", "was ist “das”?\n", "prompt")
    assert [(each["mime_type"], each.get("filename")) for each in sent["images"]] == [
        ("image/png", "a é.png"),
        ("image/jpeg", "b.jpg"),
        ("image/jpeg", None),
        ("image/gif", "claimed.gif"),
        ("image/png", "a é.png"),
    ]
    assert [b64decode(each["data_base64"]) for each in sent["images"]] == [PNG, JPEG, JPEG, PNG, PNG]
    assert got.headers["authorization"] == "Bearer a token"
    assert told[-1] == (len(got.body), len(got.body))
    assert (run.run_id, run.thread_key, run.state, run.image_count) == (FIRST, "a/b", "queued", 5)
    assert not run.repeated


async def test_text_alone_is_sent_without_images(client: Either, loopback: Loopback) -> None:
    await client("send_message", "t", "\ud800 lone", delivery_mode="steer", idempotency_key="k")
    assert loopback.received[0].json == {
        "idempotency_key": "k",
        "thread_key": "t",
        "text": "\ud800 lone",
        "delivery_mode": "steer",
    }


async def test_large_files_are_never_whole_in_memory(loopback: Loopback, tmp_path: Path) -> None:
    file = tmp_path / "large.png"
    with file.open("wb") as out:
        out.write(PNG)
        out.truncate(30_000_001)
    body = mediamill.client.body.Body({"text": "x"}, [Image(file)] * 3)
    tracemalloc.start()
    assert sum(len(piece) for piece in body.pieces()) == body.length > 120_000_000
    assert tracemalloc.get_traced_memory()[1] < 3_000_000
    tracemalloc.stop()


async def test_a_file_that_gets_shorter_meanwhile_breaks_the_sending_off(
    client: Either, tmp_path: Path
) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(PNG * 10_000)

    def shorten(_sent: int, _total: int) -> None:
        file.write_bytes(PNG)

    with pytest.raises(mediamill.client.ImageChangedError):
        await client("send_message", "t", "x", [file], progress=shorten)


async def test_a_file_that_is_none_is_told_before_anything_is_sent(
    client: Either, loopback: Loopback, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        await client("send_message", "t", "x", [tmp_path / "none.png"])
    with pytest.raises(OSError, match="not a regular file"):
        await client("send_message", "t", "x", [tmp_path])
    assert loopback.received == []


@pytest.mark.parametrize(
    "first",
    [
        [NOBODY, NOBODY],
        [problem(503, "database_down", headers={"retry-after": "0.05"}), problem(502, "x")],
    ],
    ids=["the answer is lost", "the server cannot now"],
)
async def test_sending_is_tried_again_with_the_same_key_and_the_same_bytes(
    client: Either, loopback: Loopback, files: list[Path], first: list[dict[str, object]]
) -> None:
    loopback.first.extend(first)
    run = await client("send_message", "t", "x", files)
    bodies = [each.body for each in loopback.received]
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert len(loopback.received[0].json["idempotency_key"]) == 32
    assert run.run_id == FIRST


async def test_what_is_sent_again_with_its_key_is_known_to_be_repeated(client: Either) -> None:
    runs = [await client("send_message", "t", "x", idempotency_key="k") for _ in range(2)]
    assert [run.repeated for run in runs] == [False, True]
    assert runs[0].run_id == runs[1].run_id


async def test_a_wait_that_is_longer_than_patience_is_an_error_at_once(
    client: Either, loopback: Loopback
) -> None:
    loopback.first.append(problem(503, "database_down", headers={"retry-after": "3600"}, fix="wait"))
    with pytest.raises(ProblemError) as caught:
        await client("send_message", "t", "x")
    assert (caught.value.code, caught.value.status, caught.value.fix) == ("database_down", 503, "wait")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (413, "image_count_exceeded"),
        (413, "image_total_bytes_exceeded"),
        (422, "image_mime_type_unsupported"),
        (422, "image_base64_invalid"),
        (409, "idempotency_payload_mismatch"),
        (401, "unauthenticated"),
    ],
)
async def test_a_refusal_comes_with_its_code_and_is_not_tried_again(
    client: Either, loopback: Loopback, status: int, code: str
) -> None:
    loopback.first.append(problem(status, code, detail="too much", fix="less"))
    with pytest.raises(ProblemError, match=rf"too much \({code}\)") as caught:
        await client("send_message", "t", "x")
    assert (caught.value.code, caught.value.status) == (code, status)
    assert (caught.value.detail, caught.value.fix) == ("too much", "less")
    assert len(loopback.received) == 1


async def test_what_is_no_mediamill_is_told_so(client: Either, loopback: Loopback) -> None:
    strange: list[dict[str, Any]] = [{"body": b"<html>"}, {"status": 404, "body": b"no"}, {"json": []}]
    for what in strange:
        loopback.first.append(what)
        with pytest.raises(NoServerError, match="is not a mediamill"):
            await client("run", FIRST)
    loopback.first.append({"body": b"<html>"})
    with pytest.raises(NoServerError, match="is not a mediamill"):
        await client.events(FIRST)


async def test_where_nobody_listens_the_address_is_named(client: Either) -> None:
    with hold_port() as port:
        url = f"http://127.0.0.1:{port}"
        nowhere = Either(type(client.client)(url, patience=0.05))
        for call in (nowhere("send_message", "t", "x"), nowhere.events(FIRST), nowhere("retry", FIRST)):
            with pytest.raises(NoServerError, match=f"no mediamill runs at {url}") as caught:
                await call
            assert caught.value.fix == "start it: mediamill up"


async def test_a_server_that_starts_a_little_later_gets_the_message(client: Either) -> None:
    with hold_port() as port:
        early = Client(f"http://127.0.0.1:{port}", patience=60)
        sending = asyncio.create_task(asyncio.to_thread(early.send_message, "t", "x"))
        with serve_loopback(port) as later:
            assert (await sending).run_id == FIRST
            assert len(later.received) == 1
    early.close()


async def test_a_run_is_read_with_its_times(client: Either, loopback: Loopback) -> None:
    loopback.add_run(state="failed", error="away", error_code="agent_down", news="of a newer server")
    run = await client("run", FIRST)
    assert (run.state, run.error_code, run.has_ended) == ("failed", "agent_down", True)
    assert run.created_at == datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert run.started_at is None
    with pytest.raises(ProblemError) as caught:
        await client("run", "../../health")
    assert caught.value.code == "unknown_run"
    assert loopback.received[-1].path == "/v1/runs/..%2F..%2Fhealth"


async def test_the_runs_of_a_thread_are_read_page_by_page(client: Either, loopback: Loopback) -> None:
    for _ in range(150):
        loopback.add_run(thread_key="a/../b c")
    assert [run.run_id for run in await client("runs", "a/../b c", limit=130)] == [
        RUN_ID.format(number) for number in range(150, 20, -1)
    ]
    assert len(await client("runs", "a/../b c", limit=1000)) == 150
    assert await client("runs", "..") == []
    assert loopback.received[-1].path == "/v1/threads/%2E%2E/runs"


async def test_a_failed_run_is_tried_again_once(client: Either, loopback: Loopback) -> None:
    loopback.add_run(state="failed")
    assert (await client("retry", FIRST)).state == "queued"
    loopback.first.append(NOBODY)
    with pytest.raises(NoServerError, match="does not answer"):
        await client("retry", FIRST)
    assert len(loopback.asked(f"/v1/runs/{FIRST}/retry")) == 2


async def test_the_answer_comes_in_pieces_and_ends_with_the_run(client: Either, loopback: Loopback) -> None:
    loopback.add_run()
    loopback.answer = ["Grü", "ße,\n", "🙂"]
    *pieces, last = await client.events(FIRST)
    assert pieces == [StateChanged("running"), *(TextPiece(text) for text in loopback.answer)]
    assert isinstance(last, Finished)
    assert last.run.answer == "Grüße,\n🙂"


async def test_a_stream_that_breaks_off_goes_on_where_it_was(client: Either, loopback: Loopback) -> None:
    loopback.add_run()
    loopback.streams.extend(
        [
            [
                ": hello\n\n",
                event("text", {"text": "one "}, "1-4"),
                event("text", {"text": "two "}, "1-8")[:-1],
                CUT,
            ],
            [],
            [event("text", {"text": "two "}, "1-8"), event("unknown", {}), CUT],
            [event("restart", {"tries": 2}), CUT],
            [event("restart", {"tries": 2}, "2-0"), event("text", {"text": "new"}, "2-3"), CUT],
        ]
    )
    loopback.first.append(problem(503, "database_down"))
    events = await client.events(FIRST)
    assert events[:-3] == [
        TextPiece("one "),
        TextPiece("two "),
        Restarted(),
        Restarted(),
        TextPiece("new"),
    ]
    assert isinstance(events[-1], Finished)
    places = [each.headers.get("last-event-id") for each in loopback.received]
    assert places == [None, None, "1-4", "1-4", "1-8", "1-8", "2-3"]


async def test_a_stream_of_a_run_that_is_not_there_is_refused(client: Either, loopback: Loopback) -> None:
    loopback.first.append(problem(404, "unknown_run"))
    with pytest.raises(ProblemError) as caught:
        await client.events(FIRST)
    assert caught.value.code == "unknown_run"


async def test_a_stream_that_never_says_anything_ends_when_patience_does(
    client: Either, loopback: Loopback
) -> None:
    loopback.streams.extend([[]] * 1000)
    hasty = Either(type(client.client)(loopback.url, patience=0.1))
    with pytest.raises(NoServerError, match="broke off"):
        await hasty.events(FIRST)


async def test_asking_waits_for_the_answer_and_a_failure_is_raised(
    client: Either, loopback: Loopback
) -> None:
    loopback.answer = ["forty", "-two"]
    assert (await client("ask", "t", "x")).answer == "forty-two"
    run = loopback.add_run(key="k")
    failed = loopback.finished(run["run_id"], state="failed", error="no model", error_code="agent_down")
    loopback.streams.append([failed])
    with pytest.raises(RunFailedError, match=r"the run failed: no model \(agent_down\)") as caught:
        await client("ask", "t", "hi", idempotency_key="k")
    assert caught.value.run.error == "no model"
    assert caught.value.fix == f"try it again: mediamill runs retry {run['run_id']}"


@pytest.mark.parametrize("module", [blocking, awaiting])
def test_the_examples_in_the_docstrings_do_what_they_say(
    loopback: Loopback, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beach.jpg").write_bytes(JPEG)
    Path("dog.png").write_bytes(PNG)
    client = getattr(module, "Client", None) or module.AsyncClient  # type: ignore[attr-defined]
    names = {**vars(mediamill.client), "asyncio": asyncio, "url": loopback.url}
    [example] = doctest.DocTestFinder(recurse=False).find(client, client.__name__, globs=names)
    assert example.examples
    loopback.answer = ["A beach,", " and a dog."]
    assert doctest.DocTestRunner().run(example).failed == 0

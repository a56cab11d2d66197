from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.db.connection import Database
from mediamill.inputs import counters
from mediamill.inputs.model import BODY_LIMIT_BYTES, MAX_IMAGE_BYTES
from mediamill.inputs.spool import Spool, spool_folder
from tests.api.messaging import JSON, incoming, runs
from tests.api.serving import SECRET, Served, make_app, serve
from tests.inputs.bodies import BOUNDARY, FORM_TYPE, GIF, JPEG, PNG, body_of, form_of, image, message

MEGABYTE = 1024**2


async def send(served: Served, body: Any, headers: dict[str, str] | None = None) -> httpx.Response:
    return await served.client.post("/v1/messages", content=body, headers=headers or JSON)


async def stored(served: Served) -> list[tuple[bytes, str, str | None]]:
    async with served.database.connection() as connection:
        rows = await connection.fetch(
            "select image_bytes, mime_type, filename from input_images order by position"
        )
    return [tuple(row) for row in rows]


async def pieces(body: bytes, size: int = 65_536) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


@pytest.mark.spec("I1")
async def test_a_text_is_kept_as_a_run(served: Served, tmp_path: Path) -> None:
    answer = await send(served, body_of(delivery_mode="follow_up"))
    assert answer.status_code == 202, answer.text
    told = answer.json()
    run_id = told.pop("run_id")
    assert told == {
        "thread_key": "t",
        "delivery_mode": "follow_up",
        "state": "queued",
        "repeated": False,
        "image_count": 0,
        "links": {"run": f"/v1/runs/{run_id}", "events": f"/v1/runs/{run_id}/events"},
    }
    run = (await served.client.get(told["links"]["run"])).json()
    assert (run["text"], run["source"], run["state"], run["image_count"]) == ("look", "api", "queued", 0)
    assert not spool_folder(tmp_path).exists()


@pytest.mark.spec("I1", "I5")
async def test_images_are_stored_in_order_as_json_and_as_a_form(served: Served, tmp_path: Path) -> None:
    wanted = [(PNG, "image/png", "b.png"), (GIF, "image/gif", None), (JPEG, "image/jpeg", "a.jpg")]
    images = [image(data, kind, **({"filename": name} if name else {})) for data, kind, name in wanted]
    form = form_of([("thread_key", "t"), ("text", "look")], wanted)
    for body, headers in ((body_of(*images), JSON), (form, {"Content-Type": FORM_TYPE})):
        answer = await send(served, body, headers | {"Idempotency-Key": "the same"})
        assert answer.status_code == 202, answer.text
        assert answer.json()["image_count"] == 3
        assert await stored(served) == wanted
    assert answer.json()["repeated"]
    assert incoming(tmp_path) == []


REFUSED: dict[str, tuple[bytes, int, str]] = {
    "no JSON": (b"{'text': 1}", 422, "json_invalid"),
    "cut short": (body_of(image())[:-9], 422, "json_invalid"),
    "a bad escape": (b'{"thread_key": "t", "text": "\\x"}', 422, "json_invalid"),
    "deep": (b'{"text": ' + b"[" * 500_000, 422, "invalid"),
    "no text": (b'{"thread_key": "t"}', 422, "invalid"),
    "bad base64": (
        body_of(image(), {"mime_type": "image/gif", "data_base64": "R0l"}),
        422,
        "image_base64_invalid",
    ),
    "no image": (body_of(image(), image(b"text")), 422, "image_mime_type_unsupported"),
    "eleven": (body_of(*[image()] * 11), 413, "image_count_exceeded"),
    "too many bytes": (
        body_of(image(GIF + bytes(MAX_IMAGE_BYTES - len(GIF))), image()),
        413,
        "image_total_bytes_exceeded",
    ),
    "too long": (body_of() + b" " * BODY_LIMIT_BYTES, 413, "body_too_large"),
}


@pytest.mark.spec("I2")
@pytest.mark.parametrize("case", REFUSED)
async def test_a_refusal_is_a_problem_that_the_sender_sees_and_leaves_nothing(
    served: Served, tmp_path: Path, case: str
) -> None:
    body, status, code = REFUSED[case]
    for content in (body, pieces(body)):  # announced, and in chunks
        answer = await send(served, content)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert incoming(tmp_path) == []
    assert await runs(served) == 0
    assert (await served.client.get("/health")).status_code == 200


async def test_other_types_of_bodies_are_not_taken(served: Served) -> None:
    gzip = JSON | {"Content-Encoding": "gzip"}
    for headers in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        gzip,
    ):
        answer = await send(served, body_of(), headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "media_type_unsupported")
    assert (
        await send(served, body_of(), {"Content-Type": "APPLICATION/JSON; charset=utf-8"})
    ).status_code == 202


@pytest.mark.spec("I3")
async def test_a_key_makes_one_run_of_many_identical_messages(served: Served, tmp_path: Path) -> None:
    body = body_of(image(PNG, "image/png"), idempotency_key="once")
    answers = await asyncio.gather(*(send(served, body) for _ in range(200)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert [answer.json()["repeated"] for answer in answers].count(False) == 1
    assert await runs(served) == 1
    assert await stored(served) == [(PNG, "image/png", None)]
    assert incoming(tmp_path) == []


@pytest.mark.spec("I3")
async def test_a_key_that_was_used_for_something_else_is_a_conflict(served: Served) -> None:
    first = message(image(), idempotency_key="k")
    assert (await send(served, json.dumps(first))).status_code == 202
    others = (
        {**first, "text": "else"},
        {**first, "thread_key": "else"},
        {**first, "delivery_mode": "steer"},
        {**first, "images": [image(PNG, "image/png")]},
        {**first, "images": []},
    )
    for other in others:
        answer = await send(served, json.dumps(other))
        assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_payload_mismatch")
    answer = await send(served, json.dumps(first), JSON | {"Idempotency-Key": "another"})
    assert (answer.status_code, answer.json()["code"]) == (422, "idempotency_keys_differ")
    assert await runs(served) == 1


async def test_too_many_images_at_once_are_told_to_come_again(served: Served, tmp_path: Path) -> None:
    served.app.state.inbox.spool = Spool(spool_folder(tmp_path), limit_bytes=MEGABYTE)
    answer = await send(served, body_of(image(GIF + bytes(2 * MEGABYTE))))
    assert (answer.status_code, answer.json()["code"]) == (503, "inputs_busy")
    assert int(answer.headers["Retry-After"]) > 0
    assert (await send(served, body_of(image()))).status_code == 202
    assert incoming(tmp_path) == []


@pytest.mark.spec("I15")
async def test_images_that_are_turned_off_are_refused_by_code_and_texts_are_taken(
    database: Database, tmp_path: Path
) -> None:
    async with serve(database, tmp_path, image_input=False) as served:
        answer = await send(served, body_of(image()))
        assert (answer.status_code, answer.json()["code"]) == (422, "image_input_disabled")
        assert (await send(served, body_of())).status_code == 202
    assert incoming(tmp_path) == []


@pytest.mark.spec("I7")
async def test_what_has_expired_is_purged_also_by_a_message_that_is_refused(served: Served) -> None:
    await served.run(
        "insert into input_images (source, thread_key, mime_type, byte_size, image_bytes, position, expires_at) "
        "values ('telegram', 'old', 'image/png', 1, 'x', 0, now())"
    )
    assert (await send(served, body_of(*[image()] * 11))).status_code == 413
    assert await served.one("select count(*) from input_images") == 0


@pytest.mark.spec("I11")
async def test_a_refusal_is_logged_with_its_code_and_thread(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    before = counters.rejects["image_count_exceeded", "api"]
    with caplog.at_level(logging.INFO, "mediamill.inputs"):
        await send(served, body_of(*[image()] * 11, thread_key="mine"))
    assert "source=api thread_key='mine' code=image_count_exceeded" in caplog.text
    assert counters.rejects["image_count_exceeded", "api"] == before + 1


async def test_messages_are_guarded_like_everything_else(
    served: Served, database: Database, tmp_path: Path
) -> None:
    foreign = JSON | {"Origin": "https://elsewhere.example"}
    answer = await send(served, body_of(), foreign)
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
    form = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}", "Sec-Fetch-Site": "cross-site"}
    assert (await send(served, form_of([("thread_key", "t"), ("text", "x")]), form)).status_code == 403
    transport = httpx.ASGITransport(make_app(database, tmp_path, host="0.0.0.0"))
    async with httpx.AsyncClient(transport=transport, base_url="http://mill.example") as stranger:
        for method, path in (
            ("POST", "/v1/messages"),
            ("GET", "/v1/threads/t/runs"),
            ("GET", "/openapi.json"),
            ("GET", "/docs"),
        ):
            refused = await stranger.request(method, path, json=message())
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        known = {"Authorization": f"Bearer {SECRET}"}
        assert (await stranger.post("/v1/messages", json=message(), headers=known)).status_code == 202
    assert await runs(served) == 1


async def test_only_messages_may_be_large(served: Served) -> None:
    for path in ("/v1/messages/more", "/v1/runs/1/retry", "/v1/message"):
        answer = await served.client.post(path, content=b" " * 1_500_001)
        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large"), path


async def test_both_addresses_of_the_document_tell_the_same(served: Served) -> None:
    document = (await served.client.get("/openapi.json")).json()
    assert document == (await served.client.get("/api/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    post = document["paths"]["/v1/messages"]["post"]
    assert set(post["requestBody"]["content"]) == {"application/json", "multipart/form-data"}
    for example in post["requestBody"]["content"]["application/json"]["examples"].values():
        answer = await served.client.post("/v1/messages", json=example["value"])
        assert answer.status_code == 202, answer.text
    problem = post["responses"]["413"]["content"]["application/problem+json"]["schema"]
    assert problem == {"$ref": "#/components/schemas/Problem"}
    assert "Problem" in document["components"]["schemas"]


async def test_leftovers_of_a_killed_server_are_gone_when_the_next_one_is_up(
    database: Database, tmp_path: Path
) -> None:
    folder = spool_folder(tmp_path)
    folder.mkdir(parents=True)
    (folder / "left").write_bytes(GIF)
    os.utime(folder / "left", (1, 1))
    async with serve(database, tmp_path):
        assert incoming(tmp_path) == []


@pytest.mark.spec("I12")
async def test_ten_messages_of_50_mib_at_once_cost_little_memory(served: Served, tmp_path: Path) -> None:
    """The sender is in this process, too."""
    body = body_of(*[image(GIF + bytes(5 * MEGABYTE - len(GIF)))] * 10)
    await send(served, body_of(image()))
    before = _forget_peak()
    answers = await asyncio.gather(*(send(served, pieces(body)) for _ in range(10)))
    added = _memory("VmHWM") - before
    assert [(answer.status_code, answer.json()["image_count"]) for answer in answers] == [(202, 10)] * 10
    assert added < 100 * MEGABYTE
    assert incoming(tmp_path) == []
    assert (
        await served.one("select sum(byte_size) from input_images where mime_type = 'image/gif'")
        > 500 * MEGABYTE
    )


def _forget_peak() -> int:
    """What is in use now; the peak is measured anew from here on."""
    Path("/proc/self/clear_refs").write_text("5")
    return _memory("VmRSS")


def _memory(name: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{name}:")[2].split()[0]) * 1024

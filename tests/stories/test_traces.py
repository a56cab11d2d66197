"""One upload is one trace: from the request over the worker and its child to the delivery. And logs that say which."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from mediamill.testing.otlp_server import OtlpServer, ReceivedSpan
from tests.conftest import wait_until
from tests.crash.processes import Mill, Process, mill
from tests.stories.remote_workers import far

__all__ = ["mill"]

PHOTO = Path(__file__).parents[2] / "samples" / "photo.jpg"
PRIVATE = "between us"
SECRETS = {
    "MEDIAMILL_ADMIN_SECRET": "the secret of the admin",
    "MEDIAMILL_OPENAI_KEY": "the key of the model",
    "MEDIAMILL_ALERT_WEBHOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=the-key-of-the-collector",
}


@pytest.fixture
def otlp() -> Iterator[OtlpServer]:
    with OtlpServer() as server:
        yield server


async def start(mill: Mill, otlp: OtlpServer, workers: int) -> tuple[Process, str]:
    """A server, with images described by a stub; its address."""
    mill.settings |= {
        "OTEL_EXPORTER_OTLP_ENDPOINT": otlp.url,
        "OTEL_BSP_SCHEDULE_DELAY": "200",
        "MEDIAMILL_LOG_FORMAT": "json",
        "MEDIAMILL_LOG_LEVEL": "DEBUG",
        "MEDIAMILL_STUB_IMAGE_SECONDS": "0",
        **SECRETS,
    }
    await mill.say("pools", "set", "image", "processor=stub-image")
    process = await mill.started("up", "--workers", workers)
    (up,) = [line for line in lines(process) if line.get("event") == "server_up"]
    return process, up["url"]


def lines(process: Process) -> list[dict[str, Any]]:
    """What a process said; every whole line of it is an object."""
    return [json.loads(line) for line in process.said.splitlines(keepends=True) if line.endswith("\n")]


async def send_photo(url: str, owner: httpx.Auth) -> None:
    """As a client whose own trace goes on at the server."""
    async with httpx.AsyncClient(base_url=url, auth=owner, timeout=60) as client:
        answer = await client.post("/api/bots", json={"id": "demo", "config": {}, "start": True})
        assert answer.status_code == 201, answer.text

        async def running() -> bool:
            return bool((await client.get("/api/bots/demo")).json()["running"])

        await wait_until(running)
        sent = await client.post(
            "/api/bots/demo/chat/ann/media",
            content=PHOTO.read_bytes(),
            params={"caption": PRIVATE, "filename": f"{PRIVATE}.jpg"},
            headers={"Content-Type": "image/jpeg", "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"},
        )
        assert sent.status_code == 201, sent.text


async def trace_of(otlp: OtlpServer, *names: str) -> dict[str, ReceivedSpan]:
    """The spans of the client's trace by name, once all of these are there."""

    def ours() -> dict[str, ReceivedSpan]:
        return {span.name: span for span in otlp.spans if span.trace == "a" * 32}

    async def complete() -> bool:
        return set(names) <= set(ours())

    await wait_until(complete)
    return ours()


def check_connected(spans: dict[str, ReceivedSpan]) -> None:
    """Every span but the first has its parent in the trace, and nothing in it is private."""
    ids = {span.id for span in spans.values()}
    assert {name for name, span in spans.items() if span.parent not in ids} == {UPLOAD}
    assert spans[UPLOAD].parent == "b" * 16
    for span in spans.values():
        assert span.began_ns <= span.ended_ns
        told = json.dumps([span.name, span.attributes, span.resource])
        assert PRIVATE not in told
        assert not [secret for secret in SECRETS.values() if secret in told]


UPLOAD = "POST /api/bots/{bot_id}/chat/{correspondent}/media"


async def test_one_upload_is_one_trace_over_server_worker_and_child(mill: Mill, otlp: OtlpServer) -> None:
    process, url = await start(mill, otlp, workers=1)
    await send_photo(url, mill.owner)
    spans = await trace_of(otlp, UPLOAD, "enqueue", "run", "fetch input", "process", "settle", "deliver")
    check_connected(spans)
    parents = {name: span.parent for name, span in spans.items()}
    assert parents["enqueue"] == spans[UPLOAD].id
    assert parents["run"] == parents["deliver"] == spans["enqueue"].id
    assert parents["process"] == parents["settle"] == spans["run"].id
    services = {name: span.service for name, span in spans.items()}
    assert services["run"] == services["settle"] == "mediamill-worker"
    assert services[UPLOAD] == services["deliver"] == "mediamill-server"
    pids = {spans[name].resource["process.pid"] for name in (UPLOAD, "run")}
    assert len(pids | {spans["process"].attributes["process.pid"]}) == 3, "three processes"
    assert spans["run"].attributes["mediamill.job_kind"] == "message.process"
    assert spans["process"].attributes["mediamill.processor"] == "stub-image"
    assert spans[UPLOAD].attributes["http.response.status_code"] == 201
    assert not any(span.failed for span in spans.values())
    trace = await mill.one("select trace from finished_jobs where kind = 'message.process'")
    assert trace.split("-")[1] == "a" * 32
    await check_logs(process)
    assert {seen.headers["authorization"] for seen in otlp.seen} == {"the-key-of-the-collector"}


async def check_logs(process: Process) -> None:
    """One object a line, of all processes, with names, ids and the trace; and nothing secret."""
    process.popen.terminate()
    await process.until_gone()
    told = lines(process)
    assert all({"time", "level", "logger", "message", "process"} <= line.keys() for line in told)
    events = {line.get("event") for line in told}
    assert {"server_up", "worker_ready", "worker_leaving", "server_stopped"} <= events
    (ready,) = [line for line in told if line.get("event") == "worker_ready"]
    assert (ready["process"], type(ready["worker_id"])) == ("worker", int)
    assert ready["message"].startswith(f"worker {ready['worker']} ({ready['worker_id']}) is ready, pools: ")
    for secret in (*SECRETS.values(), "the-key-of-the-collector", PRIVATE):
        assert secret not in process.said


@pytest.mark.spec("E23")
async def test_a_trace_goes_on_at_a_worker_without_a_database(mill: Mill, otlp: OtlpServer) -> None:
    _, url = await start(mill, otlp, workers=0)
    await far(mill, "one", url, OTEL_EXPORTER_OTLP_ENDPOINT=otlp.url, OTEL_BSP_SCHEDULE_DELAY="200")
    await send_photo(url, mill.owner)
    complete = "POST /api/worker/complete"
    spans = await trace_of(otlp, UPLOAD, "enqueue", "run", "process", "settle", complete, "deliver")
    check_connected(spans)
    assert spans[complete].parent == spans["settle"].id
    assert spans["settle"].parent == spans["run"].id
    assert (spans["settle"].service, spans[complete].service) == ("mediamill-worker", "mediamill-server")
    download = "GET /api/worker/jobs/{job_id}/input"
    assert spans[download].parent == spans["fetch input"].id

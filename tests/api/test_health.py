from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import pytest

from mediamill.api import health
from mediamill.db.connection import Database
from mediamill.engine.recovery.janitor import forget_old
from mediamill.inputs import counters
from mediamill.inputs.accept import accept_run
from mediamill.inputs.model import NewRun, Scope, SpooledImage
from mediamill.inputs.pending import save_pending
from mediamill.testing.openai_server import OpenAiServer
from tests.api.serving import Served, make_app, serve
from tests.conftest import wait_until


def samples(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines}


@pytest.mark.spec("E33")
async def test_health_counts_workers_and_pending_jobs(served: Served) -> None:
    await served.run(
        "insert into workers (name, type, state) values ('a', 'remote', 'idle'), ('b', 'remote', 'offline')"
    )
    await served.enqueue()
    await served.enqueue(run_after="2999-01-01T00:00:00Z")
    answer = await served.client.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "database": "ok", "active_workers": 1, "pending_jobs": 2}


@pytest.mark.spec("E33")
async def test_deep_health_tells_storage_database_and_processing(served: Served, tmp_path: Path) -> None:
    await served.enqueue()
    body = (await served.client.get("/api/health")).json()
    assert 0 < body["storage"]["free_bytes"] <= body["storage"]["total_bytes"]
    assert body["storage"]["folder"] == str(tmp_path)
    assert int(body["database"]["version"].split(".")[0]) >= 16
    assert body["database"]["size_bytes"] > 1_000_000
    assert body["processing"]["states"]["queued"] == 1
    assert {pool["pool"] for pool in body["processing"]["pools"]} >= {"default", "scripted", "audio"}


@pytest.mark.spec("E33", "E16")
async def test_metrics_are_read_from_the_database_at_each_scrape(served: Served) -> None:
    before = samples((await served.client.get("/metrics")).text)
    assert before['mediamill_queue_depth{pool="scripted"}'] == 0
    await served.enqueue()
    await served.run("insert into throughput values (date_trunc('minute', now()), 'p', 1, 40, 2)")
    await served.run("insert into counters values ('stale_recovered', 3), ('completed_before', 100)")
    await served.run("insert into workers (name, type, state) values ('a', 'remote', 'busy')")
    answer = await served.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    now = samples(answer.text)
    assert now['mediamill_queue_depth{pool="scripted"}'] == 1
    assert now['mediamill_jobs{state="queued"}'] == 1
    assert now['mediamill_workers{state="busy"}'] == 1
    assert now["mediamill_jobs_completed_total"] == 140
    assert now["mediamill_jobs_failed_total"] == 2
    assert now["mediamill_stale_recovered_total"] == 3
    assert now["mediamill_retries_exhausted_total"] == 0
    assert now["mediamill_failures_total"] == 0


@pytest.mark.spec("I11")
async def test_metrics_tell_what_happened_to_images_by_source_and_why_messages_were_refused(
    database: Database, tmp_path: Path
) -> None:
    """Sent, refused, claimed and delivered as people and agents do it; nobody touches the counters."""
    with OpenAiServer() as model:
        async with serve(database, tmp_path, openai_url=f"{model.url}/v1") as served:
            before = samples((await served.client.get("/metrics")).text)
            photo = (Path(__file__).parents[2] / "samples" / "photo.jpg").read_bytes()
            ours = {"thread_key": "t", "text": "look"}
            for count, status in ((2, 202), (11, 413)):
                files = [("images", (f"{number}.jpg", photo)) for number in range(count)]
                answer = await served.client.post("/v1/messages", data=ours, files=files)
                assert answer.status_code == status
            scope = Scope("telegram", "a chat")
            image = SpooledImage(tmp_path / "x.jpg", "image/jpeg", len(photo), "0" * 64)
            image.path.write_bytes(photo)
            async with database.transaction() as connection:
                await save_pending(connection, scope, image)
                await accept_run(connection, NewRun(scope, "and this"), claim_pending=True)
            async with working(served):
                await wait_until(
                    lambda: served.one("select count(*) = 2 from runs where state = 'completed'")
                )
            answer = await served.client.get("/metrics")
    now = samples(answer.text)
    ours_now = [name for name in now if name.startswith(("mediamill_images", "mediamill_inputs"))]
    grown = {name: now[name] - before.get(name, 0) for name in ours_now if now[name] != before.get(name)}
    assert grown == {
        'mediamill_images_ingested_count_total{source="api"}': 2,
        'mediamill_images_ingested_bytes_total{source="api"}': 2 * len(photo),
        'mediamill_images_ingested_count_total{source="telegram"}': 1,
        'mediamill_images_ingested_bytes_total{source="telegram"}': len(photo),
        'mediamill_images_claimed_count_total{source="telegram"}': 1,
        'mediamill_images_deleted_after_delivery_count_total{source="api"}': 2,
        'mediamill_images_deleted_after_delivery_count_total{source="telegram"}': 1,
        'mediamill_inputs_rejected_count_total{code="image_count_exceeded",source="api"}': 1,
    }
    for name in (*counters.NAMES, counters.REJECTED):
        assert f"# TYPE mediamill_{name}_total counter" in answer.text


@asynccontextmanager
async def working(served: Served) -> AsyncIterator[None]:
    """Somebody works runs off."""
    task = asyncio.create_task(served.runs.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.spec("E33")
async def test_totals_do_not_fall_when_the_janitor_forgets_old_minutes(served: Served) -> None:
    await served.run(
        "insert into throughput values (now() - interval '8 days', 'p', 1, 10, 1), (now(), 'p', 1, 5, 2)"
    )
    for _ in range(2):
        async with served.database.transaction() as connection:
            await forget_old(connection, served.engine)
        now = samples((await served.client.get("/metrics")).text)
        assert (now["mediamill_jobs_completed_total"], now["mediamill_jobs_failed_total"]) == (15, 3)
    assert await served.one("select count(*) from throughput") == 1


@pytest.mark.spec("E33")
async def test_a_count_that_takes_too_long_is_left_out_but_the_database_is_not_called_down(
    served: Served,
) -> None:
    async with served.database.transaction() as connection:
        await connection.execute("lock table jobs in access exclusive mode")
        answer = await served.client.get("/health")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "database": "ok", "active_workers": 0, "pending_jobs": None}


class Cut:
    """A wire to the database that can be cut, or go silent, and be mended."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port, self.mode = host, port, "open"
        self.speaks = asyncio.Event()
        self.speaks.set()
        self.writers: set[asyncio.StreamWriter] = set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.mode == "cut":
            writer.close()
            return
        if self.host.startswith("/"):
            socket = f"{self.host}/.s.PGSQL.{self.port}"
            far_reader, far_writer = await asyncio.open_unix_connection(socket)
        else:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.port)
        self.writers |= {writer, far_writer}
        await asyncio.gather(
            self._pump(reader, far_writer), self._pump(far_reader, writer), return_exceptions=True
        )

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.speaks.wait()
            writer.write(data)
        writer.close()

    def cut(self) -> None:
        self.mode = "cut"
        for writer in self.writers:
            writer.close()
        self.writers.clear()


async def wired(database: Database) -> tuple[Cut, asyncio.Server, Database]:
    """A second way to the same database, by a wire."""
    parts = urlsplit(database.url)
    who, _, where = parts.netloc.rpartition("@")
    host, _, far_port = where.partition(":")
    wire = Cut(unquote(host), int(far_port or 5432))
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    url = urlunsplit(parts._replace(netloc=f"{who}@127.0.0.1:{port}", query="sslmode=disable"))
    return wire, server, await Database.open(url)


async def until_well(served: Served) -> None:
    """A busy machine may take longer than health waits."""

    async def well() -> bool:
        return (await served.client.get("/health")).status_code == 200

    await wait_until(well)


@pytest.mark.spec("E33")
async def test_a_database_that_goes_away_is_503_until_it_is_back(database: Database, tmp_path: Any) -> None:
    wire, server, through = await wired(database)
    async with serve(through, tmp_path, pages=True) as served:
        await until_well(served)
        wire.cut()
        for path in ("/health", "/api/jobs", "/metrics", "/api/health"):
            answer = await served.client.get(path)
            assert answer.status_code == 503, path
            assert int(answer.headers["retry-after"]) > 0
        assert (await served.client.get("/health")).json()["database"] == "down"
        refused = await served.client.post("/api/jobs", json={"kind": "scripted.run"})
        assert (refused.status_code, refused.json()["code"]) == (503, "database_down")
        page = await served.client.get("/")
        assert page.status_code == 503
        assert "database is away" in page.text
        wire.mode = "open"
        await until_well(served)
        assert (await served.client.get("/")).status_code == 200
    await through.close()
    server.close()


@pytest.mark.spec("E33")
async def test_health_answers_within_two_seconds_when_the_database_is_silent(
    database: Database, tmp_path: Any
) -> None:
    wire, server, through = await wired(database)
    async with serve(through, tmp_path) as served:
        await until_well(served)
        wire.speaks.clear()
        assert health.ANSWER_SECONDS < 2  # without it there would be no answer as long as the wire is silent
        assert (await served.client.get("/health")).status_code == 503
        wire.speaks.set()
    through.pool.terminate()
    server.close()


def test_scrapes_share_no_global_registry(database: Database, tmp_path: Path) -> None:
    from prometheus_client import REGISTRY

    make_app(database, tmp_path)
    assert not [name for name in REGISTRY._names_to_collectors if name.startswith("mediamill")]

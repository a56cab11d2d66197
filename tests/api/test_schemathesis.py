"""The whole API, tried with requests made from its own document: whatever is sent, nothing fails on our side."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mediamill.access.model import HERE
from mediamill.access.tokens import create_token
from mediamill.db.connection import Database
from tests.api.remote_worker import register
from tests.api.serving import SECRET, Served, serve
from tests.videos.played import Ground

EXAMPLES = 5  # at random for each operation, after those of the document and those at the borders
ROOT = Path(__file__).parents[2]
# Live streams: there is nothing in them to be tried, and they end when what they tell of ends.
STREAMS = ("/api/events", "/v1/runs/{run_id}/events", "/api/worker/wakes")
WAITING = "/api/worker/claim"  # stays open until there is a job, or for some seconds


async def run_schemathesis(served: Served, folder: Path, *more: str) -> tuple[int, str]:
    document = folder / "openapi.json"
    document.write_text(json.dumps(served.app.openapi()))
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("schemathesis")), "run", str(document), "--url", served.url),
        *("--checks", "not_a_server_error", "--phases", "examples,coverage,fuzzing", "--mode", "all"),
        *("--max-examples", str(EXAMPLES), "--seed", "1", "--generation-database", "none", "--workers", "1"),
        *("--request-timeout", "30", "--suppress-health-check", "all", "--no-color", "--continue-on-failure"),
        *more,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.api.chunk_serializer", "PYTHONPATH": str(ROOT)},
    )
    try:
        out, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, out.decode()


@pytest.fixture
async def closed(database: Database, tmp_path: Path) -> AsyncIterator[Served]:
    """A server that asks everybody who they are, and listens to them as often as they like."""
    async with serve(database, tmp_path, login="always", costly_requests_per_minute=0) as served:
        yield served


async def admin_token(served: Served) -> str:
    """With an id that no request will hit upon: one of them revokes tokens."""
    async with served.database.transaction() as connection:
        await connection.execute("alter table api_tokens alter column id restart with 777000777")
        return (await create_token(connection, "tries", ["admin"], days=None, made_by=HERE)).token


async def test_requests_made_from_the_document_find_no_server_error(closed: Served, tmp_path: Path) -> None:
    deps = closed.app.state.deps
    ground = Ground(deps.database, deps.settings, deps.engine, deps.enqueuer)
    await ground.ready("My holiday")  # the example of the routes of videos
    token, worker = await admin_token(closed), await register(closed)
    without = [word for path in (*STREAMS, WAITING) for word in ("--exclude-path", path)]
    operations = 0
    for shown, part in (
        (token, ("--exclude-path-regex", "^/api/worker/")),
        (worker.key, ("--include-path-regex", "^/api/worker/")),
    ):
        headers = ("--header", f"Authorization: Bearer {shown}", "--header", f"X-Admin-Secret: {SECRET}")
        status, out = await run_schemathesis(closed, tmp_path, *without, *part, *headers)
        assert status == 0, out[-8000:]
        assert " passed" in out
        operations += selected(out)
    assert operations == len(operations_of(closed)) - len(without) // 2
    assert (await closed.client.get("/health")).status_code == 200
    assert (
        await closed.client.get("/api/whoami", headers={"Authorization": f"Bearer {token}"})
    ).status_code == 200


def operations_of(served: Served) -> list[tuple[str, str]]:
    """Every operation of the document."""
    paths = served.app.openapi()["paths"]
    return [(method, path) for path, methods in paths.items() for method in methods]


def selected(out: str) -> int:
    """How many operations a run says it tried."""
    found = re.search(r"Operations:\s+(\d+) selected / \d+ total", out)
    assert found is not None, out[:3000]
    return int(found.group(1))


async def test_a_server_error_would_be_found(served: Served, tmp_path: Path) -> None:
    @served.app.get("/api/broken")
    async def broken() -> None:
        raise RuntimeError("not foreseen")

    status, out = await run_schemathesis(served, tmp_path, "--include-path", "/api/broken")
    assert status == 1
    assert "Server error" in out

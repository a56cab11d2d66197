"""The whole API, tried with requests made from its own document: whatever is sent, nothing fails on our side."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.api.remote_worker import register
from tests.api.serving import SECRET, Served
from tests.videos.played import Ground

EXAMPLES = 5  # at random for each operation, after those of the document and those at the borders
ROOT = Path(__file__).parents[2]
# Live streams: there is nothing in them to be tried, and they end when what they tell of ends.
STREAMS = ("/api/events", "/v1/runs/{run_id}/events", "/api/worker/wakes")
WAITING = "/api/worker/claim"  # stays open until there is a job, or for some seconds


async def run_schemathesis(served: Served, folder: Path, *more: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{served.url}/openapi.json"),
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


async def test_requests_made_from_the_document_find_no_server_error(served: Served, tmp_path: Path) -> None:
    without = [word for path in (*STREAMS, WAITING) for word in ("--exclude-path", path)]
    deps = served.app.state.deps
    ground = Ground(deps.database, deps.settings, deps.engine, deps.enqueuer)
    await ground.ready("My holiday")  # the example of the routes of videos
    worker = await register(served)  # its key opens the routes of workers, and means nothing to the others
    headers = ("--header", f"Authorization: Bearer {worker.key}", "--header", f"X-Admin-Secret: {SECRET}")
    status, out = await run_schemathesis(served, tmp_path, *without, *headers)
    assert status == 0, out[-8000:]
    assert " passed" in out
    assert (await served.client.get("/health")).status_code == 200


async def test_a_server_error_would_be_found(served: Served, tmp_path: Path) -> None:
    @served.app.get("/api/broken")
    async def broken() -> None:
        raise RuntimeError("not foreseen")

    status, out = await run_schemathesis(served, tmp_path, "--include-path", "/api/broken")
    assert status == 1
    assert "Server error" in out

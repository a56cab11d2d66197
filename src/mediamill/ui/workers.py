"""The page of workers: who they are, what they do and can do, and telling them what to do."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from starlette.responses import HTMLResponse, RedirectResponse, Response

from mediamill.db.connection import Connection, Database
from mediamill.engine import workers
from mediamill.engine.browse import browse_jobs
from mediamill.engine.flight_dumps import list_dumps
from mediamill.engine.model import Command
from mediamill.errors import NotFoundError
from mediamill.ui.rendering import Renderer

WorkerId = Annotated[int, InPath(ge=1, le=2**31 - 1)]
MOST_RUNNING = 500
MOST_DUMPS = 20
NEAR = ("localhost", "127.0.0.1", "::1")
ENCODERS = {"h264_nvenc": "NVENC", "h264_qsv": "QSV", "h264_vaapi": "VAAPI", "libx264": "x264"}


class UnknownCommandError(NotFoundError):
    """Workers know no such command."""

    code = "unknown_command"


def add_worker_page(router: APIRouter, renderer: Renderer, database: Database) -> None:
    """Its routes."""
    page = _WorkerPage(renderer, database)
    router.get("/workers")(page.all)
    router.post("/workers/{worker_id}/{command}")(page.tell)


class _WorkerPage:
    def __init__(self, renderer: Renderer, database: Database) -> None:
        self._renderer, self._database = renderer, database

    async def all(self, request: Request, all: bool = False, part: str | None = None) -> HTMLResponse:
        """Workers, those long gone only with `all`; with `part` only the list."""
        async with self._database.connection() as connection:
            found = await workers.list_workers(connection, all_=all)
            running = (await browse_jobs(connection, state="running", amount=MOST_RUNNING)).jobs
            dumps = await list_dumps(connection, amount=MOST_DUMPS)
        return self._renderer.page(
            "workers/live.html" if part else "workers/all.html",
            workers=[_with_jobs(worker, running) for worker in found],
            all=all,
            dumps=dumps,
            address=str(request.base_url).rstrip("/"),
            near=request.url.hostname in NEAR,
        )

    async def tell(self, worker_id: WorkerId, command: str) -> Response:
        """A command, or what becomes of the worker; back to the page."""
        async with self._database.transaction() as connection:
            await workers.find_worker(connection, str(worker_id))
            await _tell(connection, worker_id, command)
        return RedirectResponse("/workers", 303)


async def _tell(connection: Connection, worker_id: int, command: str) -> None:
    match command:
        case "disable":
            await workers.disable_worker(connection, worker_id)
        case "enable":
            await workers.enable_worker(connection, worker_id)
        case "revoke":
            await workers.revoke_keys(connection, worker_id)
        case _ if command in list(Command):
            await workers.give_command(connection, worker_id, Command(command))
        case _:
            raise UnknownCommandError(f"workers know no {command[:50]!r}")


def _with_jobs(worker: dict[str, Any], running: list[dict[str, Any]]) -> dict[str, Any]:
    """A worker with what it has in hand, its encoders in words, and what its machine does not keep children from."""
    encoders = worker["capabilities"].get("encoders")
    named = [ENCODERS.get(name, str(name)) for name in encoders] if isinstance(encoders, list) else []
    gaps = worker["capabilities"].get("confinement_gaps")
    jobs = [job for job in running if job["worker_id"] == worker["id"]]
    stats = worker["stats"] if isinstance(worker["stats"], dict) else {}
    figures = {name: value for name, value in stats.items() if isinstance(value, int | float)}
    return {
        **worker,
        "jobs": jobs,
        "encoders": named,
        "stats": figures,
        "gaps": gaps if isinstance(gaps, list) else [],
    }

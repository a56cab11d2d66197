"""`mediamill mcp`: tools for agents over stdin and stdout, by the Model Context Protocol."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import examples
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.mcp.mill import Files
    from mediamill.mcp.tools import Progress

EXAMPLES = examples(
    "mediamill mcp",
    "mediamill mcp --allow-files ~/Documents/inbox",
    "claude mcp add mediamill -- mediamill mcp",
    "# in the configuration of other clients:",
    '# {"mcpServers": {"mediamill": {"command": "mediamill", "args": ["mcp"]}}}',
)


def mcp(
    allow_files: Annotated[
        Path | None,
        typer.Option(
            "--allow-files",
            metavar="FOLDER",
            help="Agents may process files of this folder, too; none outside, and no links.",
        ),
    ] = None,
) -> None:
    """Let an agent search, describe and see the media of this mediamill: an MCP server over stdio.

    Agents start this command themselves. It only reads, unless something is allowed. It speaks on stdout, and logs to
    stderr. If `mediamill up` runs, searches use its models; without it, the embedded database is started.
    """
    from mediamill.mcp.lines import take_stdout

    folder = _check_folder(allow_files) if allow_files is not None else None
    sys.stdout.flush()
    asyncio.run(_serve(folder, take_stdout()))


def _check_folder(folder: Path) -> Path:
    if not folder.is_dir():
        raise InvalidError(f"{folder} is no folder", fix="name one that is there")
    return folder.resolve()


async def _serve(folder: Path | None, target: int) -> None:
    from mediamill.app import open_app
    from mediamill.cli.server_client import server_url
    from mediamill.mcp.mill import Mill
    from mediamill.mcp.server import Server
    from mediamill.mcp.toolbox import toolbox
    from mediamill.settings import Settings
    from mediamill.signals import on_signals

    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    me = asyncio.current_task()
    assert me is not None
    on_signals((signal.SIGTERM,), me.cancel)
    settings = Settings()
    try:
        async with open_app(settings, name="mediamill mcp", keep=True) as app:
            url = server_url(settings) if settings.port else ""
            mill = Mill(settings, app.database, Finder(app).find, url, _files(app, folder))
            await Server(toolbox(mill), 0, target).serve()
    except asyncio.CancelledError:  # told to stop
        return


class Finder:
    """Searches by the server that runs, or here."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def find(self, asked: dict[str, Any]) -> dict[str, Any]:
        """As the command does."""
        from mediamill.cli.search import find_with, read_day

        days = {"since": read_day(asked["since"]), "until": read_day(asked["until"], end=True)}
        return await find_with(self._app, {**asked, **days})


def _files(app: App, folder: Path | None) -> Files | None:
    """One file at a time: each may need a worker in this process."""
    from mediamill.mcp.mill import Files

    if folder is None:
        return None
    turn = asyncio.Lock()

    async def process(inside: str, progress: Progress) -> dict[str, Any]:
        async with turn:
            return await _process(app, folder, inside, progress)

    return Files(folder, process)


async def _process(app: App, folder: Path, inside: str, progress: Progress) -> dict[str, Any]:
    """The same job as `mediamill process` makes."""
    from mediamill.cli.process import enqueue_files, follow_jobs, somebody_works
    from mediamill.cli.process_report import as_json
    from mediamill.staging.inputs import find_inside

    path = await asyncio.to_thread(find_inside, str(folder), inside)
    ids = await enqueue_files(app, [path], previews=False, again=False)
    async with somebody_works(app):
        async for report in follow_jobs(app, ids, _Told(progress)):
            return as_json(path, report)
    raise AssertionError


class _Told:
    """Passes the progress of the one job on."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def tell(self, rows: dict[int, dict[str, Any]]) -> None:
        """How far it is."""
        for row in rows.values():
            self._progress(float(row["percent"] or 0), str(row["step"] or row["state"]))

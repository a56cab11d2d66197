"""`mediamill intake watch`: the files of a project as they are analysed, live; or events for scripts."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.intake_files import Slug
from mediamill.cli.intake_screen import FILE_COLUMNS, file_row
from mediamill.cli.options import examples
from mediamill.cli.session import run
from mediamill.cli.terminal import console, make_table, print_line, styled
from mediamill.cli.watch import LEAST_SECONDS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mediamill.app import App
    from mediamill.db.connection import Connection
    from mediamill.settings import Settings

EXAMPLES = examples("mediamill intake watch invoices", "mediamill intake watch invoices --json")
TOPIC = "file.changed"
STATES = ("processing", "queued", "failed", "completed")
Figures = tuple[dict[str, Any], list[dict[str, Any]]]


def watch_files(
    slug: Slug,
    json: Annotated[bool, typer.Option("--json", help="Print each change as a line of JSON.")] = False,
) -> None:
    """Watch the files of a project being analysed, until Ctrl-C."""
    run(lambda app: _print_events(app, slug) if json else _watch(app, slug))


async def _print_events(app: App, slug: str) -> None:
    from mediamill.cli.follow import follow_events

    async with app.database.connection() as connection:
        await _read(connection, app.settings, slug, 1)  # an unknown one is an error, not a long wait
    async with aclosing(follow_events(app, None)) as events:
        async for event in events:
            if event.topic == TOPIC and event.data.get("project") == slug:
                said = {"id": event.id, "topic": event.topic, "subject": event.subject, "data": event.data}
                print_line(said)


async def _watch(app: App, slug: str) -> None:
    import asyncio

    from rich.live import Live

    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups

    screen = console()
    async with wakeups(app) as wait:
        with Live(console=screen, auto_refresh=False) as live:
            while True:
                rows = max(5, screen.height - 6)
                figures = await read_patiently(
                    app, partial(_read, settings=app.settings, slug=slug, rows=rows)
                )
                live.update(_draw(*figures), refresh=True)
                await asyncio.sleep(LEAST_SECONDS)
                await wait(POLL_SECONDS)


async def _read(connection: Connection, settings: Settings, slug: str, rows: int) -> Figures:
    """What is at work and what waits first, then the newest."""
    from mediamill.intake.look import list_files
    from mediamill.intake.projects import show_project

    project = await show_project(connection, slug)
    found: dict[int, dict[str, Any]] = {}
    for state in ("processing", "queued", None):
        page = await list_files(connection, settings, slug, state=state, amount=rows)
        for file in page["files"]:
            found.setdefault(file["id"], file)
    return project, list(found.values())[:rows]


def _draw(project: dict[str, Any], files: list[dict[str, Any]]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    head = Text()
    for state in STATES:
        number = project["counts"][state]
        head.append(f"{state} ", style="dim")
        head.append_text(Text(f"{number}   ", style=styled(state).style if number else "dim"))
    head.append(f"to review {project['pending_proposals']}", style="dim")
    hint = Text("Ctrl-C ends" if files else "no files yet", style="dim")
    table = make_table(FILE_COLUMNS, [file_row(file) for file in files])
    return Group(head, table, hint) if files else Group(head, hint)

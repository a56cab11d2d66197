"""`mediamill jobs watch`: a live table of what runs, one job until its end, or events for scripts."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import LARGEST_ID, Kind, Owner, PoolName, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, console, make_table, one_line, plural, print_line, say, styled
from mediamill.errors import NotFoundError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mediamill.app import App

EXAMPLES = examples(
    "mediamill jobs watch",
    "mediamill jobs watch 17",
    "mediamill jobs watch --owner bot-7",
    "mediamill jobs watch --json",
)
# Counting what waits costs something when a million do: not more often than this.
LEAST_SECONDS = 0.4
COLUMNS = (">id", "state", "kind", "~owner", ">age", "progress", "~about")
Filters = dict[str, Any]


def watch_jobs(
    id: Annotated[
        int | None,
        typer.Argument(
            min=1, max=LARGEST_ID, metavar="ID", help="Follow this job until it ends.", show_default=False
        ),
    ] = None,
    kind: Kind = None,
    pool: PoolName = None,
    owner: Owner = None,
    json: Annotated[bool, typer.Option("--json", help="Print each event as a line of JSON.")] = False,
) -> None:
    """Watch jobs live, until Ctrl-C.

    With an ID: until that job ends; exit code 1 if it failed.
    """
    if id is not None:
        state = run(lambda app: _watch_one(app, id, json))
        raise typer.Exit(0 if state == "finished" else 1)
    if json:
        run(lambda app: _print_events(app, {"kind": kind, "owner": owner}))
    else:
        run(lambda app: _watch_table(app, {"kind": kind, "pool": pool, "owner": owner}))


async def _print_events(app: App, wanted: Filters) -> None:
    from mediamill.cli.follow import follow_events

    async with aclosing(follow_events(app, None)) as events:
        async for event in events:
            fits = all(value is None or event.data.get(name) == value for name, value in wanted.items())
            if event.topic.startswith("job.") and fits:
                print_line(
                    {"id": event.id, "topic": event.topic, "subject": event.subject, "data": event.data}
                )


async def _watch_table(app: App, filters: Filters) -> None:
    import asyncio

    from rich.live import Live

    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups

    screen = console()
    async with wakeups(app) as wait:
        with Live(console=screen, auto_refresh=False, transient=False) as live:
            while True:
                read = partial(_read, filters=filters, rows=max(5, screen.height - 6))
                figures = await read_patiently(app, read)
                live.update(_draw(*figures), refresh=True)
                await asyncio.sleep(LEAST_SECONDS)
                await wait(POLL_SECONDS)


async def _read(connection: Any, filters: Filters, rows: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    from mediamill.engine.browse import browse_jobs
    from mediamill.engine.watch import overview

    running = (await browse_jobs(connection, state="running", amount=rows, **filters)).jobs
    newest = (await browse_jobs(connection, amount=rows, **filters)).jobs
    others = [job for job in newest if job["state"] != "running"]
    return await overview(connection), [*reversed(running), *others][:rows]


def _draw(figures: dict[str, Any], jobs: list[dict[str, Any]]) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    head = Text()
    for state, number in [*figures["states"].items(), ("dead", figures["dead"])]:
        head.append(f"{state} ", style="dim")
        head.append_text(Text(f"{number}   ", style=styled(state).style if number else "dim"))
    for wait in figures["waits"]:
        jobs_waiting = plural(wait["jobs"], "job")
        head.append(f"\nWaiting for the model server at {wait['server']}: {jobs_waiting}", style="yellow")
    table = make_table(COLUMNS, [_row(job) for job in jobs])
    hint = Text("no jobs yet" if not jobs else "Ctrl-C ends", style="dim")
    return Group(head, table, hint) if jobs else Group(head, hint)


def _row(job: dict[str, Any]) -> list[Any]:
    from mediamill.cli.jobs import about

    return [
        job["id"],
        styled(job["state"]),
        job["kind"],
        one_line(job["owner"], 20),
        ago(job["created_at"]),
        bar(job["percent"]) if job["state"] == "running" else "",
        one_line(about(job), 60),
    ]


def bar(percent: float | None, width: int = 20) -> Any:
    """A progress bar; for one who reports nothing, a dotted line."""
    from rich.text import Text

    if percent is None:
        return Text("·" * width, style="dim")
    full = round(width * min(max(percent, 0), 100) / 100)
    return Text.assemble(("━" * full, "cyan"), ("╌" * (width - full), "dim"))


async def _watch_one(app: App, job_id: int, json: bool) -> str | None:
    """Follow one job; its last state, None if it was purged."""
    from mediamill.engine.watch import show_job

    async with app.database.connection() as connection:
        await show_job(connection, job_id)  # an unknown id is an error, not a long wait
    if json:
        job = await _print_job_events(app, job_id)
    else:
        job = await _draw_job(app, job_id)
    if job is None:
        raise NotFoundError(f"job {job_id} was thrown away meanwhile")
    return str(job["state"])


async def _print_job_events(app: App, job_id: int) -> dict[str, Any] | None:
    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups
    from mediamill.engine.events import EventReader, last_event_id

    async with wakeups(app) as wait:
        reader = EventReader(await read_patiently(app, last_event_id))
        while True:
            job = await read_patiently(app, lambda connection: _find(connection, job_id))
            for event in await read_patiently(app, reader.read):
                if event.topic.startswith("job.") and event.data.get("id") == job_id:
                    print_line(
                        {"id": event.id, "topic": event.topic, "subject": event.subject, "data": event.data}
                    )
            if job is None or job["state"] in ("finished", "dead"):
                _print_end(job_id, job)
                return job
            await wait(POLL_SECONDS / 2)


def _print_end(job_id: int, job: dict[str, Any] | None) -> None:
    """The last line: not every job tells its end as an event, so this is said in any case."""
    data = {
        "id": job_id,
        "state": job["state"] if job else "purged",
        "error": job.get("error") if job else None,
    }
    subject = (job or {}).get("subject_id") or str(job_id)
    print_line({"id": None, "topic": "job.ended", "subject": subject, "data": data})


async def _draw_job(app: App, job_id: int) -> dict[str, Any] | None:
    from rich.live import Live
    from rich.text import Text

    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups

    async with wakeups(app) as wait:
        with Live(console=console(), auto_refresh=False, transient=True) as live:
            while True:
                job = await read_patiently(app, lambda connection: _find(connection, job_id))
                if job is None or job["state"] in ("finished", "dead"):
                    break
                line = Text.assemble(f"job {job_id} ", styled(job["state"]), "  ", bar(job["percent"]), "  ")
                live.update(line.append(one_line(job["step"] or "")), refresh=True)
                await wait(POLL_SECONDS / 2)
    if job is not None:
        reason = f": {one_line(job['error'], 200)}" if job.get("error") else ""
        say(f"job {job_id} {job['state']}{reason}", style="green" if job["state"] == "finished" else "red")
    return job


async def _find(connection: Any, job_id: int) -> dict[str, Any] | None:
    from mediamill.engine.watch import show_job

    try:
        return await show_job(connection, job_id)
    except NotFoundError:
        return None

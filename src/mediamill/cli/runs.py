"""`mediamill runs`: list, show, retry what was asked of the agent, on the running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from mediamill.cli.message import SEND_PATIENCE_SECONDS, Thread, default_thread, follow, open_client, run_out
from mediamill.cli.options import Json, examples
from mediamill.cli.terminal import (
    ago,
    clock,
    one_line,
    plural,
    print_fields,
    print_json,
    print_table,
    say,
    size,
    styled,
    warn,
)
from mediamill.errors import MediamillError

if TYPE_CHECKING:
    from mediamill.client import Run

app = typer.Typer(
    no_args_is_help=True, help="Runs: what was asked of the agent, what it answered, and another try."
)

COLUMNS = ("run", "state", ">images", ">age", "~text", "~answer")
RunId = Annotated[UUID, typer.Argument(metavar="ID", help="The run's id.", show_default=False)]


@app.command("list", epilog=examples("mediamill runs list", "mediamill runs list --thread review --json"))
def list_runs(
    thread: Thread = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Show at most so many.")] = 20,
    json: Json = False,
) -> None:
    """The runs of a thread, newest first."""
    key = thread or default_thread()
    with open_client(SEND_PATIENCE_SECONDS) as client:
        runs = client.runs(key, limit)
    if json:
        print_json([run_out(run) for run in runs])
        return
    print_table(COLUMNS, [_row(run) for run in runs], f"no runs on thread {key}; mediamill message makes one")
    if len(runs) == limit:
        warn(f"there may be more: add --limit {limit * 5}", style="dim")


def _row(run: Run) -> list[Any]:
    return [
        run.run_id,
        styled(run.state),
        run.image_count or None,
        ago(run.created_at),
        one_line(run.text, 60),
        one_line(run.error if run.state == "failed" else run.answer, 60),
    ]


@app.command("show", epilog=examples("mediamill runs show ID", "mediamill runs show ID --follow"))
def show_run(
    id: RunId,
    follow_: Annotated[
        bool, typer.Option("--follow", "-f", help="Only the answer, as it comes, until its end.")
    ] = False,
    json: Json = False,
) -> None:
    """One run: its text, its answer so far, and how it is."""
    with open_client(SEND_PATIENCE_SECONDS) as client:
        run = client.run(str(id))
    if follow_:
        follow(run, json)
    elif json:
        print_json(run_out(run))
    else:
        _print_run(run)


def _print_run(run: Run) -> None:
    images = f"{run.image_count} ({size(run.image_bytes or 0)})" if run.image_count else None
    print_fields(
        {
            "run": run.run_id,
            "state": styled(run.state),
            "thread": run.thread_key,
            "from": run.source,
            "mode": run.delivery_mode,
            "images": images,
            "images waiting": run.images_waiting or None,
            "tries": run.tries,
            "created": clock(run.created_at),
            "started": clock(run.started_at),
            "ended": clock(run.ended_at),
        }
    )
    failed = f"{run.error} ({run.error_code})" if run.error else ""
    for name, block in (("text", run.text), ("answer", run.answer), ("error", failed)):
        if block:
            say(f"\n{name}", style="bold")
            say(block.replace("\r", ""))


@app.command("retry", epilog=examples("mediamill runs retry ID", "mediamill runs retry ID1 ID2 --json"))
def retry_runs(
    ids: Annotated[list[UUID], typer.Argument(metavar="ID…", help="Ids of runs.")], json: Json = False
) -> None:
    """Try failed runs again, with their images as long as those are kept."""
    from mediamill.cli.jobs import raise_all

    done: list[str] = []
    refused: list[MediamillError] = []
    with open_client(SEND_PATIENCE_SECONDS) as client:
        for id_ in dict.fromkeys(ids):
            try:
                done.append(client.retry(str(id_)).run_id)
            except MediamillError as error:
                refused.append(error)
    if json:
        print_json({"retried": done, "refused": [error.message for error in refused]})
    elif done:
        say(f"{plural(len(done), 'run')} queued again: {', '.join(done)}")
    raise_all(refused)

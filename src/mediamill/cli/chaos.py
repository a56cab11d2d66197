"""`mediamill chaos`: kill everything at random while jobs run, and account for every job."""

from __future__ import annotations

from typing import Annotated

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.terminal import console, print_json, say

EXAMPLES = examples("mediamill chaos", "mediamill chaos --jobs 500 --kills 20 --seed 7 --json")


def chaos(
    jobs: Annotated[int, typer.Option(min=1, help="Jobs to run.")] = 5000,
    kills: Annotated[int, typer.Option(min=0, help="Processes to kill meanwhile.")] = 200,
    seed: Annotated[int, typer.Option(help="The same seed makes the same choices.")] = 1,
    workers: Annotated[int, typer.Option(min=1, max=32, help="Worker processes.")] = 3,
    json: Json = False,
) -> None:
    """Show that nothing is lost: in a folder of its own, workers, server and database are killed while jobs run.

    Prints how many jobs were lost, delivered twice, or are stuck. All three must be 0; the exit code says so.
    """
    import asyncio

    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from mediamill.testing.chaos import Chaos, ChaosPlan

    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), disable=json, transient=True) as progress:
        delivered_bar = progress.add_task("delivered", total=jobs)
        kills_bar = progress.add_task("kills", total=kills)

        def told(delivered: int, killed: int) -> None:
            progress.update(delivered_bar, completed=delivered)
            progress.update(kills_bar, completed=killed)

        run = Chaos(ChaosPlan(jobs, kills, seed, workers), told)
        report = asyncio.run(run.run())
    if json:
        print_json(report.as_dict())
    else:
        killed = ", ".join(f"{count} × {name}" for name, count in sorted(run.kills.items())) or "nothing"
        say(f"{report.jobs} jobs, {report.kills} kills ({killed}), seed {report.seed}")
        say(f"lost {report.lost}, delivered twice {report.twice}, stuck {report.stuck}")
    if not report.is_clean:
        raise typer.Exit(1)

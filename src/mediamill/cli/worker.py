"""`mediamill worker`: one worker process on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from mediamill.cli.options import examples

EXAMPLES = examples("mediamill worker", "mediamill worker --pools scripted --name big-machine")


def worker(
    name: Annotated[
        str | None, typer.Option(help="Name of this worker. Default: host name and process id.")
    ] = None,
    pools: Annotated[str | None, typer.Option(help="Serve only these pools, separated by commas.")] = None,
    gpu: Annotated[bool | None, typer.Option(help="This worker has a GPU.")] = None,
) -> None:
    """Run a worker that takes its jobs from the database, until it is told to stop.

    Ctrl-C or SIGTERM once: it finishes what runs and leaves. Twice: it stops at once and hands its jobs back.
    """
    import math

    import uvloop

    from mediamill.app import open_app
    from mediamill.engine.flight_log import install
    from mediamill.settings import Settings
    from mediamill.worker.loop import Worker, WorkerPlan
    from mediamill.worker.supervisor import follow_supervisor

    settings = Settings()
    flight = install(settings.log_level)
    follow_supervisor()  # it may die while we wait for the database

    async def run() -> None:
        async with open_app(settings, name="mediamill worker", wait_seconds=math.inf, keep=True) as app:
            plan = WorkerPlan(data_folder=settings.data_folder, flight=flight)
            plan.child_idle_seconds = settings.child_idle_seconds
            plan.name = name or settings.worker_name or plan.name
            plan.pools = tuple(
                item for item in (pools or settings.worker_pools).replace(" ", "").split(",") if item
            )
            plan.gpu = settings.worker_gpu if gpu is None else gpu
            working = Worker(app.database, app.engine, plan)
            working.obey_signals()
            await working.run()

    uvloop.run(run())

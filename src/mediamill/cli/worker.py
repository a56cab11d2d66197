"""`mediamill worker`: one worker process, beside the database or far from it."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from mediamill.cli.options import examples
from mediamill.cli.terminal import say

if TYPE_CHECKING:
    from mediamill.settings import Settings
    from mediamill.worker.home import WorkerPlan
    from mediamill.worker.remote_key import RemoteKey

EXAMPLES = examples(
    "mediamill worker",
    "mediamill worker --pools scripted --name big-machine",
    "MEDIAMILL_WORKER_KEY=… mediamill worker --server https://mill.example",
    "MEDIAMILL_TOKEN=… mediamill worker --server https://mill.example --register --name gpu-1",
)


class Gpu(StrEnum):
    """Whether to say that this worker has a GPU."""

    AUTO = "auto"
    YES = "yes"
    NO = "no"


def worker(
    name: Annotated[
        str | None, typer.Option(help="Name of this worker. Default: host name and process id.")
    ] = None,
    pools: Annotated[str | None, typer.Option(help="Serve only these pools, separated by commas.")] = None,
    gpu: Annotated[
        Gpu, typer.Option(help="This worker has a GPU; auto: if an encoder in hardware works here.")
    ] = Gpu.AUTO,
    server: Annotated[
        str | None, typer.Option(help="Work for the server at this URL. Default: MEDIAMILL_SERVER.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            help="Key of this worker at the server. Default: MEDIAMILL_WORKER_KEY, which others cannot see."
        ),
    ] = None,
    register: Annotated[
        bool,
        typer.Option(
            "--register",
            help="Get a key from the server, with a MEDIAMILL_TOKEN of the scope worker or MEDIAMILL_ADMIN_SECRET, and "
            "store it for the next start.",
        ),
    ] = False,
) -> None:
    """Run a worker until it is told to stop. It takes its jobs from the database, or from a server over HTTP.

    Ctrl-C or SIGTERM once: it finishes what runs and leaves. Twice: it stops at once and hands its jobs back.
    """
    import uvloop
    from pydantic import SecretStr

    from mediamill.cli.tracing import traced
    from mediamill.engine.flight_log import install
    from mediamill.files import keep_private
    from mediamill.logs import name_process
    from mediamill.settings import Settings
    from mediamill.worker.handover import take_handover
    from mediamill.worker.supervisor import follow_supervisor

    take_handover()
    given = {"server": server, "worker_key": SecretStr(key) if key else None, "worker_name": name}
    settings = Settings().model_copy(update={each: value for each, value in given.items() if value})
    flight = install(settings.log_level, form=settings.log_format)
    name_process(process="worker")
    keep_private(settings.data_folder)
    flight.most, flight.keep_days = settings.flight_dumps, settings.flight_dumps_keep_days
    follow_supervisor()  # it may die while we wait for the database
    plan = make_plan(settings, pools, gpu)
    plan.flight = flight
    remote = uvloop.run(_find_remote(settings, plan, register=register))
    with traced("mediamill-worker", settings.traces_url):
        uvloop.run(_work_at(remote, settings, plan) if remote else _work_here(settings, plan))


def make_plan(settings: Settings, pools: str | None, gpu: Gpu) -> WorkerPlan:
    """What this worker is, by its settings and options."""
    from mediamill.storage.choose import storage_of
    from mediamill.worker.gpu import find_encoders
    from mediamill.worker.home import WorkerPlan

    plan = WorkerPlan(data_folder=settings.data_folder, child_idle_seconds=settings.child_idle_seconds)
    plan.place = storage_of(settings)
    plan.name = settings.worker_name or plan.name
    plan.heartbeat_seconds = settings.worker_heartbeat_seconds
    plan.pools = tuple(item for item in (pools or settings.worker_pools).replace(" ", "").split(",") if item)
    plan.encoders = () if gpu is Gpu.NO else find_encoders()
    plan.gpu = gpu is Gpu.YES or (gpu is Gpu.AUTO and (settings.worker_gpu or bool(plan.encoders)))
    return plan


async def _find_remote(settings: Settings, plan: WorkerPlan, *, register: bool) -> RemoteKey | None:
    """The server to work for; none for the workers that `mediamill up` starts beside its own database."""
    from mediamill.worker.remote_key import NoWorkerKeyError, find_key, register_worker, store_key
    from mediamill.worker.supervisor import SUPERVISED

    if SUPERVISED in os.environ:
        return None
    if not register:
        return find_key(settings.data_folder, settings.server, settings.worker_key)
    if settings.server is None:
        raise NoWorkerKeyError("where should this worker be registered?", fix="add --server URL")
    got = await register_worker(settings.server, settings.admin_secret, settings.token, plan)
    path = store_key(settings.data_folder, got)
    say(f"registered at {got.server} as {plan.name}; the key is in {path}, `mediamill worker` finds it there")
    return got


async def _work_at(remote: RemoteKey, settings: Settings, plan: WorkerPlan) -> None:
    from mediamill.engine.rules import Engine
    from mediamill.worker.loop import Worker
    from mediamill.worker.remote_home import RemoteHome

    engine = Engine(
        heartbeat_seconds=settings.heartbeat_seconds, payload_limit_bytes=settings.payload_limit_bytes
    )
    working = Worker(RemoteHome(remote.server, remote.key, engine, plan), engine, plan)
    working.obey_signals()
    say(f"working for {remote.server}")
    await working.run()


async def _work_here(settings: Settings, plan: WorkerPlan) -> None:
    import math

    from mediamill.app import open_app
    from mediamill.worker.local_home import LocalHome
    from mediamill.worker.loop import Worker

    async with open_app(settings, name="mediamill worker", wait_seconds=math.inf, keep=True) as app:
        working = Worker(LocalHome(app.database, app.engine, plan, app.dispatch), app.engine, plan)
        working.obey_signals()
        await working.run()

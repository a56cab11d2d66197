"""`mediamill process`: files and folders in, text out, through the engine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import examples, typed
from mediamill.cli.session import run
from mediamill.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.cli.process_report import FileReport

EXAMPLES = examples(
    "mediamill process photo.jpg voice.ogg report.pdf",
    "mediamill process ~/Downloads --out ./texts",
    "mediamill process *.mp4 --json",
)
POLL_SECONDS = 0.2
LOOK_FOR_WORKERS_SECONDS = 5.0


def process(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Files, and folders with all that is in them.", show_default=False
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write text, facts, previews and captions of each file into this folder.", metavar="DIR"
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Process anew what was processed before.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON a file.")] = False,
) -> None:
    """Turn files into text: speech, images, videos, documents. Nothing leaves this machine by default.

    Each file is a job of the engine. If this command is stopped or killed, run it again: what is done is not done
    twice. Running workers of `mediamill up` are used; without any, this command works itself.
    Exit code 1 if a file failed.
    """
    found = list(collect_files(files))
    if not found:
        raise InvalidError("there is no file to process", fix="name files, or folders that hold some")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    failed = run(lambda app: _process(app, found, out, again, json))
    if failed:
        raise typer.Exit(1)


def collect_files(given: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Each file, and the name it goes by in the output: below a folder its path in there. Hidden ones are left out."""
    for path in map(typed, given):
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                inside = file.relative_to(path)
                if not any(part.startswith(".") for part in inside.parts) and _is_plain(file):
                    yield file, inside
        elif path.exists():
            yield path, Path(path.name)
        else:
            raise NotFoundError(f"there is no file {path}")


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


async def _process(
    app: App, files: Sequence[tuple[Path, Path]], out: Path | None, again: bool, json: bool
) -> int:
    """How many failed."""
    from mediamill.cli.process_report import Report

    ids = await enqueue_files(app, [path for path, _ in files], previews=out is not None, again=again)
    with Report(files, ids, out, app.settings.data_folder, json=json) as report:
        async with somebody_works(app):
            async for ended in follow_jobs(app, ids, report):
                in_bucket = out is not None and app.settings.bucket is not None
                report.end(await _with_local_files(app, ended) if in_bucket else ended)
    return report.failed


async def _with_local_files(app: App, ended: FileReport) -> FileReport:
    """With copies of what was made, which lies in a bucket."""
    from dataclasses import replace

    from mediamill.storage.choose import storage_of
    from mediamill.storage.contract import StoredMissingError

    storage, files = storage_of(app.settings), dict(ended.files)
    for name, kept in ended.files.items():
        with contextlib.suppress(StoredMissingError):  # swept after its time; the text is still there
            files[name] = {**kept, "path": str(await storage.find(app.database, kept["path"]))}
    return replace(ended, files=files)


async def enqueue_files(app: App, paths: Sequence[Path], *, previews: bool, again: bool) -> list[int]:
    """Their jobs; those of files that were given before are known, and what may succeed now is tried again."""
    from dataclasses import replace

    from mediamill.engine.dead import requeue_dead
    from mediamill.engine.watch import job_states, show_job
    from mediamill.staging.process import job_of_file

    jobs = [
        await asyncio.to_thread(job_of_file, path, app.settings, previews=previews, again=again)
        for path in paths
    ]
    async with app.database.transaction() as connection:
        ids = await app.enqueuer.enqueue_jobs(connection, jobs)
        states = await job_states(connection, ids)
        for position, id_ in enumerate(ids):
            state = states[id_]
            if state is None:  # its key is known, but the job was thrown away
                fresh = replace(jobs[position], idempotency_key=None)
                ids[position] = await app.enqueuer.enqueue_job(connection, fresh)
            elif state == "dead" and (await show_job(connection, id_)).get("reason") != "permanent":
                await requeue_dead(connection, app.engine, [id_])
    return ids


async def follow_jobs(app: App, ids: Sequence[int], report: Any) -> AsyncIterator[FileReport]:
    """Tell progress until every job has ended; those that end, as they do."""
    from mediamill.cli.follow import read_patiently
    from mediamill.cli.process_report import read_report
    from mediamill.engine.watch import job_progress

    waiting = list(dict.fromkeys(ids))
    while waiting:
        progress = await read_patiently(app, partial(job_progress, ids=waiting))
        report.tell(progress)
        for id_ in [id_ for id_ in waiting if id_ not in progress]:
            yield await read_patiently(app, partial(read_report, job_id=id_))
        waiting = [id_ for id_ in waiting if id_ in progress]
        if waiting:
            await asyncio.sleep(POLL_SECONDS)


@contextlib.asynccontextmanager
async def somebody_works(app: App) -> AsyncIterator[None]:
    """Workers that run anyway do the work; if there are none, or they go, one in this process does."""
    watching = asyncio.create_task(_work_if_nobody_does(app))
    logger = logging.getLogger("mediamill")
    level = logger.level
    logger.setLevel(logging.ERROR)  # failures are told with their file
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        logger.setLevel(level)


async def _work_if_nobody_does(app: App) -> None:
    from mediamill.cli.follow import read_patiently
    from mediamill.engine.watch import is_served
    from mediamill.storage.choose import storage_of
    from mediamill.worker.home import WorkerPlan
    from mediamill.worker.local_home import LocalHome
    from mediamill.worker.loop import Worker

    while await read_patiently(app, is_served):  # noqa: ASYNC110 - nobody tells when the last one goes
        await asyncio.sleep(LOOK_FOR_WORKERS_SECONDS)
    place = storage_of(app.settings)
    plan = WorkerPlan(data_folder=app.settings.data_folder, place=place, gpu=app.settings.worker_gpu)
    worker = Worker(LocalHome(app.database, app.engine, plan, app.dispatch), app.engine, plan)
    running = asyncio.create_task(worker.run())
    try:
        await asyncio.shield(running)
    finally:  # told to stop: what still runs goes back and is done by the next who comes
        worker.stop()
        worker.stop()
        await asyncio.gather(running, return_exceptions=True)

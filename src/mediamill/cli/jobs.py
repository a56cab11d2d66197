"""`mediamill jobs`: list, show, add, retry, purge, watch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli import add, watch
from mediamill.cli.faults import SeveralError
from mediamill.cli.options import (
    Before,
    JobId,
    JobIds,
    Json,
    Kind,
    Limit,
    Owner,
    PoolName,
    Yes,
    confirm,
    examples,
)
from mediamill.cli.session import run
from mediamill.cli.terminal import (
    ago,
    clock,
    one_line,
    plural,
    print_fields,
    print_json,
    print_table,
    say,
    styled,
    until,
    warn,
)
from mediamill.engine.model import Priority, State
from mediamill.errors import InvalidError, MediamillError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mediamill.app import App
    from mediamill.engine.browse import Page

app = typer.Typer(no_args_is_help=True, help="Look at jobs, add them, run them again, throw them away.")

app.command("add", epilog=add.EXAMPLES)(add.add_jobs)
app.command("watch", epilog=watch.EXAMPLES)(watch.watch_jobs)

COLUMNS = (">id", "state", "kind", "pool", "~owner", "~subject", ">tries", ">age", "~about")
# Told in their own blocks, or of interest only to the engine.
BLOCKS = ("payload", "parts", "checkpoint", "result", "error", "traceback")


@app.command(
    "list", epilog=examples("mediamill jobs list --state running", "mediamill jobs list --owner bot-7 --json")
)
def list_jobs(
    state: Annotated[State | None, typer.Option(help="Only jobs in this state.")] = None,
    kind: Kind = None,
    pool: PoolName = None,
    owner: Owner = None,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """Jobs of all states, newest first."""

    async def story(opened: App) -> Page:
        from mediamill.engine.browse import browse_jobs

        async with opened.database.connection() as connection:
            return await browse_jobs(
                connection,
                state=state,
                kind=kind,
                pool=pool,
                owner=owner,
                before=before,
                amount=limit,
                patient=True,
            )

    none = "no jobs; `mediamill jobs add scripted.run` adds one to try"
    print_page(run(story), COLUMNS, job_row, none, json)


def print_page(
    page: Page, columns: Sequence[str], row: Callable[[dict[str, Any]], list[Any]], none: str, json: bool
) -> None:
    """A page of jobs, and how to see the next one."""
    if json:
        print_json(page.jobs)
        return
    print_table(columns, [row(job) for job in page.jobs], none)
    if page.next is not None:
        warn(f"there is more: add --before {page.next}", style="dim")


def job_row(job: dict[str, Any]) -> list[Any]:
    """A job as a row of the list."""
    tries = f"{job['attempts']}/{job['max_attempts']}" if job["max_attempts"] else str(job["attempts"])
    return [
        job["id"],
        styled(job["state"]),
        job["kind"],
        job["pool"],
        one_line(job["owner"], 24),
        one_line(job["subject_id"], 24),
        tries,
        ago(job["created_at"]),
        one_line(about(job)),
    ]


def about(job: dict[str, Any]) -> str:
    """What is worth saying of a job in a few words."""
    if job["state"] == State.RUNNING:
        percent = "" if job["percent"] is None else f"{job['percent']:.0f} %"
        return " ".join(part for part in (percent, job["step"], f"on {job['worker_name']}") if part)
    if job["state"] == State.SCHEDULED:
        return f"due {until(job['run_after'])}" + (f": {job['error']}" if job["error"] else "")
    return str(job["error"] or "")


@app.command("show", epilog=examples("mediamill jobs show 17", "mediamill jobs show 17 --json"))
def show_job(id: JobId, json: Json = False) -> None:
    """All that is known of one job, also when it has ended."""

    async def story(opened: App) -> dict[str, Any]:
        from mediamill.engine import watch as reads

        async with opened.database.connection() as connection:
            return await reads.show_job(connection, id)

    job = run(story)
    print_json(job) if json else print_job(job)


def print_job(job: dict[str, Any]) -> None:
    """Facts first, then what went in, what came out, and what went wrong."""
    from datetime import datetime
    from json import dumps

    fields: dict[str, Any] = {}
    for name, value in job.items():
        if name in BLOCKS:
            continue
        fields[name.replace("_", " ")] = clock(value) if isinstance(value, datetime) else value
    fields["state"] = styled(job["state"])
    fields["priority"] = Priority(job["priority"]).name.lower()
    print_fields(fields)
    for name in BLOCKS:
        value = job.get(name)
        if value is not None:
            say(f"\n{name}", style="bold")
            say(value if isinstance(value, str) else dumps(value, indent=2, ensure_ascii=False))


@app.command("retry", epilog=examples("mediamill jobs retry 17", "mediamill jobs retry 17 18 19"))
def retry_jobs(
    ids: Annotated[list[int], typer.Argument(min=1, max=2**63 - 1, metavar="ID…", help="Ids of jobs.")],
    json: Json = False,
) -> None:
    """Run jobs again now: dead ones are requeued, those that wait for their back-off need not wait."""

    async def story(opened: App) -> tuple[list[int], list[MediamillError]]:
        from mediamill.engine.dead import retry_job

        done, refused = [], []
        for id_ in dict.fromkeys(ids):
            try:
                async with opened.database.transaction() as connection:
                    await retry_job(connection, opened.engine, id_)
                done.append(id_)
            except MediamillError as error:
                refused.append(error)
        return done, refused

    done, refused = run(story)
    if json:
        print_json({"retried": done, "refused": [error.message for error in refused]})
    elif done:
        say(f"{plural(len(done), 'job')} queued again: {', '.join(map(str, done))}")
    raise_all(refused)


@app.command(
    "purge",
    epilog=examples(
        "mediamill jobs purge 17 18", "mediamill jobs purge --owner bot-7 --yes", "mediamill jobs purge --all"
    ),
)
def purge_jobs(
    ids: JobIds = None,
    kind: Kind = None,
    owner: Owner = None,
    all_: Annotated[bool, typer.Option("--all", help="Every job that waits.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Throw away jobs that wait (queued, scheduled or held). What runs is left alone."""
    if not (ids or kind or owner or all_):
        raise InvalidError("nothing is named", fix="name ids, --kind, --owner, or --all")
    confirm(f"Throw away {_named(ids, kind, owner)} for good?", yes)

    async def story(opened: App) -> tuple[list[int], dict[int, str | None]]:
        from mediamill.engine import dead
        from mediamill.engine import watch as reads

        async with opened.database.transaction() as connection:
            gone = await dead.purge_jobs(connection, opened.engine, ids or None, kind=kind, owner=owner)
            return gone, await reads.job_states(connection, sorted(set(ids or ()) - set(gone)))

    gone, left = run(story)
    if json:
        print_json({"purged": gone, "left": {str(id_): state for id_, state in left.items()}})
    else:
        say(f"{plural(len(gone), 'job')} thrown away")
    raise_left(left, "does not wait")


def _named(ids: list[int] | None, kind: str | None, owner: str | None) -> str:
    which = plural(len(ids), "job") if ids else "all waiting jobs"
    return which + (f" of kind {kind}" if kind else "") + (f" of owner {owner}" if owner else "")


def raise_left(left: dict[int, str | None], what: str) -> None:
    """Jobs that were named and not moved: each with the reason."""
    raise_all(
        [
            InvalidError(f"job {id_} {what}: it is {state}" if state else f"there is no job {id_}")
            for id_, state in left.items()
        ]
    )


def raise_all(errors: list[MediamillError]) -> None:
    """Several errors as one, none as nothing."""
    if errors:
        raise errors[0] if len(errors) == 1 else SeveralError([error.message for error in errors])

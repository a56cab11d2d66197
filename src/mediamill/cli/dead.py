"""`mediamill dead`: the dead letter, where failed jobs keep their whole record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.jobs import print_job, print_page, raise_left
from mediamill.cli.options import Before, JobId, JobIds, Json, Kind, Limit, Owner, Yes, confirm, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import ago, one_line, plural, print_json, say, warn
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.engine.browse import Page

app = typer.Typer(no_args_is_help=True, help="Failed jobs: look at them, run them again, forget them.")

COLUMNS = (">id", "kind", "~owner", "~subject", ">tries", ">failed ago", "reason", "~error")
Reason = Annotated[str | None, typer.Option(help="Only jobs that died for this reason.")]
AllDead = Annotated[bool, typer.Option("--all", help="Every dead job.")]


@app.command(
    "list", epilog=examples("mediamill dead list", "mediamill dead list --reason max_attempts_exhausted")
)
def list_dead(
    kind: Kind = None,
    owner: Owner = None,
    reason: Reason = None,
    limit: Limit = 50,
    before: Before = None,
    json: Json = False,
) -> None:
    """Dead jobs, newest first."""

    async def story(opened: App) -> Page:
        from mediamill.engine.browse import browse_dead

        async with opened.database.connection() as connection:
            return await browse_dead(
                connection, kind=kind, owner=owner, reason=reason, before=before, amount=limit, patient=True
            )

    print_page(run(story), COLUMNS, _row, "no dead jobs", json)


def _row(job: dict[str, Any]) -> list[Any]:
    return [
        job["id"],
        job["kind"],
        one_line(job["owner"], 24),
        one_line(job["subject_id"], 24),
        f"{job['attempts']}/{job['max_attempts']}",
        ago(job["failed_at"]),
        job["reason"],
        one_line(job["error"]),
    ]


@app.command("show", epilog=examples("mediamill dead show 17"))
def show_dead(id: JobId, json: Json = False) -> None:
    """The whole record of a dead job, with its traceback."""

    async def story(opened: App) -> dict[str, Any]:
        from mediamill.engine import watch as reads

        async with opened.database.connection() as connection:
            return await reads.show_job(connection, id)

    job = run(story)
    if job["state"] != "dead":
        raise InvalidError(f"job {id} is not dead: it is {job['state']}", fix=f"mediamill jobs show {id}")
    print_json(job) if json else print_job(job)


@app.command(
    "requeue", epilog=examples("mediamill dead requeue 17 18", "mediamill dead requeue --kind scripted.run")
)
def requeue_dead(
    ids: JobIds = None,
    kind: Kind = None,
    owner: Owner = None,
    reason: Reason = None,
    all_: AllDead = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Put dead jobs back into the queue, with fresh attempts."""
    _check_named(ids, kind, owner, reason, all_)
    if all_:
        confirm(f"Run {_named(ids, kind, owner, reason)} again?", yes)

    async def story(opened: App) -> tuple[list[int], dict[int, str | None]]:
        from mediamill.engine import dead
        from mediamill.engine import watch as reads

        async with opened.database.transaction() as connection:
            back = await dead.requeue_dead(
                connection, opened.engine, ids or None, kind=kind, owner=owner, reason=reason
            )
            return back, await reads.job_states(connection, sorted(set(ids or ()) - set(back)))

    _tell("requeued", *run(story), json)


@app.command(
    "purge", epilog=examples("mediamill dead purge 17", "mediamill dead purge --kind scripted.run --yes")
)
def purge_dead(
    ids: JobIds = None,
    kind: Kind = None,
    owner: Owner = None,
    reason: Reason = None,
    all_: AllDead = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget dead jobs for good."""
    _check_named(ids, kind, owner, reason, all_)
    confirm(f"Forget {_named(ids, kind, owner, reason)} for good?", yes)

    async def story(opened: App) -> tuple[list[int], dict[int, str | None]]:
        from mediamill.engine import dead
        from mediamill.engine import watch as reads

        async with opened.database.transaction() as connection:
            gone = await dead.purge_dead(connection, ids or None, kind=kind, owner=owner, reason=reason)
            return gone, await reads.job_states(connection, sorted(set(ids or ()) - set(gone)))

    _tell("purged", *run(story), json)


def _check_named(
    ids: list[int] | None, kind: str | None, owner: str | None, reason: str | None, all_: bool
) -> None:
    if not (ids or kind or owner or reason or all_):
        raise InvalidError("nothing is named", fix="name ids, --kind, --owner, --reason, or --all")


def _named(ids: list[int] | None, kind: str | None, owner: str | None, reason: str | None) -> str:
    which = plural(len(ids), "dead job") if ids else "all dead jobs"
    which += (f" of kind {kind}" if kind else "") + (f" of owner {owner}" if owner else "")
    return which + (f" with reason {reason}" if reason else "")


def _tell(done: str, ids: list[int], left: dict[int, str | None], json: bool) -> None:
    if json:
        print_json({done: ids, "left": {str(id_): state for id_, state in left.items()}})
    else:
        say(f"{plural(len(ids), 'job')} {done}")
    for id_ in [id_ for id_, state in left.items() if state == "dead"]:
        warn(f"job {id_} stays dead: what it is about has moved on without it")
        del left[id_]
    raise_left(left, "is not dead")

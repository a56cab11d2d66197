"""`mediamill jobs add`: a job from the command line, and waiting for its end."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import clock, plural, print_json, say
from mediamill.errors import InvalidError, NotFoundError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.engine.model import NewJob

EXAMPLES = examples(
    "mediamill jobs add scripted.run",
    """mediamill jobs add scripted.run '{"do": "sleep", "seconds": 5}' --wait""",
    "mediamill jobs add scripted.run @payload.json --owner bot-7 --priority high --after 10m",
    "echo '{}' | mediamill jobs add scripted.inline - --count 1000",
)
BATCH = 5_000
States = dict[int, str | None]  # None: purged
UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


Payload = Annotated[
    str, typer.Argument(help="A JSON object; - reads it from stdin, @FILE from a file.", show_default=False)
]
Attempts = Annotated[int | None, typer.Option(min=1, max=1_000, help="Most attempts. Unset: the pool's.")]
When = Annotated[
    str | None,
    typer.Option(help="Not before: 90s, 10m, 2h, 1d from now, or a time (ISO 8601).", metavar="WHEN"),
]
Key = Annotated[
    str | None, typer.Option(help="Idempotency key: a second job of this kind and key is not added.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the end; exit code 1 if a job failed.")]


def add_jobs(
    kind: Annotated[str, typer.Argument(help="The job kind, such as scripted.run.", show_default=False)],
    payload: Payload = "{}",
    owner: Annotated[str, typer.Option(help="Whose work it is.")] = "default",
    subject: Annotated[str | None, typer.Option(help="Id of the row that it serves.")] = None,
    mime_type: Annotated[str | None, typer.Option(help="Decides the pool, unless the kind does.")] = None,
    priority: Annotated[Literal["high", "normal", "low"], typer.Option(help="High comes first.")] = "normal",
    pool: Annotated[str | None, typer.Option(help="This pool, whatever the kind and mime type say.")] = None,
    attempts: Attempts = None,
    after: When = None,
    key: Key = None,
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="Add so many alike.")] = 1,
    wait: Wait = False,
    json: Json = False,
) -> None:
    """Add a job to the queue, or many alike."""
    from mediamill.engine.model import NewJob, Priority

    if key is not None and count > 1:
        raise InvalidError("with --key there is only one job", fix="leave out --count or --key")
    job = NewJob(
        kind,
        read_payload(payload),
        owner=owner,
        subject_id=subject,
        mime_type=mime_type,
        priority=Priority[priority.upper()],
        pool=pool,
        max_attempts=attempts,
        run_after=None if after is None else read_time(after, datetime.now(UTC)),
        idempotency_key=key,
    )
    ids, states = run(lambda app: _add(app, job, count, wait, json))
    _tell_end(ids, states, json)


async def _add(app: App, job: NewJob, count: int, wait: bool, json: bool) -> tuple[list[int], States]:
    ids: list[int] = []
    async with app.database.transaction() as connection:
        while len(ids) < count:
            ids += await app.enqueuer.enqueue_jobs(connection, [job] * min(BATCH, count - len(ids)))
    if not json:  # said before the wait: whoever stops waiting must know the ids
        which = f"job {ids[0]}" if len(ids) == 1 else f"{plural(len(ids), 'job')}, {ids[0]} to {ids[-1]}"
        say(f"added {which}" + ("" if wait else f"; mediamill jobs show {ids[0]} tells more"))
    return ids, await wait_for_end(app, ids) if wait else {}


async def wait_for_end(app: App, ids: list[int]) -> States:
    """Wait until none of these jobs can move any more."""
    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups
    from mediamill.engine.watch import job_states

    ended: States = {}
    open_ = list(ids)
    async with wakeups(app) as wait:
        while True:
            states = await read_patiently(app, partial(job_states, ids=open_))
            ended |= {id_: state for id_, state in states.items() if state in (None, "finished", "dead")}
            open_ = [id_ for id_ in open_ if id_ not in ended]
            if not open_:
                return ended
            await wait(POLL_SECONDS / 4)


def _tell_end(ids: list[int], states: States, json: bool) -> None:
    if json:
        ended = {"states": {str(id_): state or "purged" for id_, state in states.items()}}
        print_json({"ids": ids, **(ended if states else {})})
    else:
        for word in ("finished", "dead", None):
            number = sum(state == word for state in states.values())
            if number:
                style = "green" if word == "finished" else "red"
                say(f"{plural(number, 'job')} {word or 'purged'}", style=style)
    if any(state != "finished" for state in states.values()):
        raise typer.Exit(1)


def read_payload(given: str) -> dict[str, Any]:
    """A JSON object from the argument, a file or stdin."""
    import msgspec

    from mediamill.engine.enqueue import PayloadInvalidError

    text = sys.stdin.read() if given == "-" else _read_file(given[1:]) if given.startswith("@") else given
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise PayloadInvalidError(
            f"the payload is not JSON: {error}", fix="""write it like '{"do": "succeed"}', in single quotes"""
        ) from None
    if not isinstance(value, dict):
        names = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
        raise PayloadInvalidError(
            f"a payload must be a JSON object, not {names.get(type(value), 'a number')}"
        )
    return value


def _read_file(name: str) -> str:
    try:
        return Path(name).read_text()
    except FileNotFoundError:
        raise NotFoundError(f"there is no file {name}") from None
    except (OSError, UnicodeError) as error:
        raise InvalidError(f"cannot read {name}: {error}") from None


def read_time(given: str, now: datetime) -> datetime:
    """`10m` from now, or a time; one without a zone is this machine's."""
    short = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhd])", given.strip())
    try:
        if short:
            return now + timedelta(seconds=float(short[1]) * UNITS[short[2]])
        return datetime.fromisoformat(given.strip()).astimezone()
    except (ValueError, OverflowError):
        example = clock(now) or ""
        raise InvalidError(
            f"--after {given!r} is not a time", fix=f"write 90s, 10m, 2h, 1d, or a time like {example[:16]}"
        ) from None

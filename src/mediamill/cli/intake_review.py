"""`mediamill intake proposals`, `accept`, `reject`, `reopen`, `set`, `export`: a person's word and what comes of it."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.intake_files import Id, Slug
from mediamill.cli.intake_screen import PROPOSAL_COLUMNS, proposal_row
from mediamill.cli.jobs import raise_all
from mediamill.cli.options import LARGEST_ID, Json, examples
from mediamill.cli.paged import After, Amount, print_pages, read_pages
from mediamill.cli.session import run
from mediamill.cli.terminal import plural, print_json, say
from mediamill.errors import InvalidError, MediamillError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.db.connection import Connection

Decide = Callable[["Connection", int], Awaitable[dict[str, Any]]]
FindingId = Annotated[
    int,
    typer.Argument(
        min=1,
        max=LARGEST_ID,
        metavar="ID",
        help="The id of what was found: `intake file`.",
        show_default=False,
    ),
]
Ids = Annotated[
    list[int] | None,
    typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of proposals.", show_default=False),
]


class ProposalState(StrEnum):
    """What a person said to it."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


def list_proposals(
    slug: Slug,
    state: Annotated[ProposalState, typer.Option(help="What a person said to them.")] = ProposalState.PENDING,
    file: Annotated[
        int | None, typer.Option(min=1, max=LARGEST_ID, metavar="ID", help="Only those of this file.")
    ] = None,
    field: Annotated[str | None, typer.Option(help="Only those of this field.")] = None,
    amount: Amount = 50,
    after: After = None,
    json: Json = False,
) -> None:
    """What was found in files and waits for a person; with --state what was accepted or rejected."""
    wanted: dict[str, Any] = {"state": state.value, "file_id": file, "field": field}

    async def story(app: App) -> dict[str, Any]:
        from mediamill.intake.proposals import list_proposals

        async with app.database.connection() as connection:

            async def read(place: str | None, most: int) -> dict[str, Any]:
                return await list_proposals(connection, slug, **wanted, after=place, amount=most)

            return await read_pages("proposals", read, after, amount)

    told = run(story)
    none = "nothing waits for a person" if state == ProposalState.PENDING else "no such proposals"
    print_pages(told, PROPOSAL_COLUMNS, proposal_row, none, json=json)


def accept_proposals(
    ids: Ids = None,
    value: Annotated[
        str | None, typer.Option(help="Take this instead of what was found; with one id.", show_default=False)
    ] = None,
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="The surest of each field, with --above.")
    ] = None,
    above: Annotated[
        float | None, typer.Option(min=0, max=1, help="How sure they must be: 0.9.", show_default=False)
    ] = None,
    json: Json = False,
) -> None:
    """Accept proposals by id, with another value if need be; or all of a project that are sure enough."""
    if bool(ids) == bool(project) or (project is None) != (above is None):
        raise InvalidError("nothing is named, or too much", fix="name ids, or --project PROJECT --above 0.9")
    if value is not None and len(ids or []) != 1:
        raise InvalidError("one value does not do for several proposals", fix="name one id")
    if project is not None and above is not None:
        count = run(lambda app: _accept_all(app, project, above))
        print_json({"accepted": count}) if json else say(f"{plural(count, 'proposal')} accepted")
        return
    from mediamill.intake.proposals import accept

    _decide(ids or [], lambda connection, id_: accept(connection, id_, value), "accepted", json)


async def _accept_all(app: App, slug: str, above: float) -> int:
    from mediamill.intake.proposals import accept_all

    async with app.database.transaction() as connection:
        return await accept_all(connection, slug, minimum_confidence=above)


def reject_proposals(ids: Ids, json: Json = False) -> None:
    """Reject proposals. The same value is not proposed for that file again."""
    from mediamill.intake.proposals import reject

    _decide(ids or [], reject, "rejected", json)


def reopen_proposals(ids: Ids, json: Json = False) -> None:
    """Undo what was decided: the proposals wait again."""
    from mediamill.intake.proposals import reopen

    _decide(ids or [], reopen, "waiting again", json)


def enter_value(
    file_id: Id,
    field: Annotated[str, typer.Argument(metavar="FIELD", help="The key of a field of its project.")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="What it is; after -- if it begins with a -.")
    ],
    json: Json = False,
) -> None:
    """Enter what you know of a file, whether something was found or not. It is accepted at once."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.intake.proposals import enter_value

        async with app.database.transaction() as connection:
            return await enter_value(connection, file_id, field, value)

    entered = run(story)
    if json:
        print_json(entered)
    else:
        unit = f" {entered['unit']}" if entered["unit"] else ""
        say(f"file {file_id}: {field} is {entered['value']}{unit}")


def _decide(ids: list[int], verb: Decide, word: str, json: bool) -> None:
    """Each in a transaction of its own; one that is refused does not keep the others from it."""
    if not ids:
        raise InvalidError("nothing is named", fix="name ids: mediamill intake proposals PROJECT lists them")

    async def story(app: App) -> tuple[list[dict[str, Any]], list[MediamillError]]:
        done, refused = [], []
        for id_ in dict.fromkeys(ids):
            try:
                async with app.database.transaction() as connection:
                    done.append(await verb(connection, id_))
            except MediamillError as error:
                refused.append(error)
        return done, refused

    done, refused = run(story)
    if json:
        print_json({"proposals": done, "refused": [error.message for error in refused]})
    elif done:
        say(f"{plural(len(done), 'proposal')} {word}")
    raise_all(refused)


def export_project(
    slug: Slug,
    everything: Annotated[
        bool, typer.Option("--all", help="Where nothing was accepted, the best of what was proposed.")
    ] = False,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write it there instead of the terminal.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="As JSON, with units, instead of CSV.")] = False,
) -> None:
    """A row for each file, a column for each field: what was accepted, as CSV or JSON."""

    async def story(app: App) -> None:
        from mediamill.intake.export import write_csv, write_json
        from mediamill.intake.projects import show_project

        write = write_json if json else write_csv
        async with app.database.transaction() as connection:
            await show_project(connection, slug)
            pieces = write(connection, slug, which="all" if everything else "accepted")
            if to is None:
                async for piece in pieces:
                    sys.stdout.write(piece)
                return
            with to.open("w", encoding="utf-8", newline="") as out:
                async for piece in pieces:
                    out.write(piece)

    run(story)
    if to is not None:
        say(f"{slug} is written to {to}")


def make_field(
    finding: FindingId,
    field: Annotated[
        str | None,
        typer.Option(help="The field that it is. Unset: a new one of its label.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Make a field of what was found and fits none (see `intake file`); what other files have of it is proposed."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.intake.findings import make_field

        async with app.database.transaction() as connection:
            return await make_field(connection, finding, field)

    told = run(story)
    if json:
        print_json(told)
    else:
        say(f"{told['field']}: {told['value']} is accepted; it is a field of {told['project']}")


def drop_finding(finding: FindingId, json: Json = False) -> None:
    """Do not offer this label any more, in the whole project."""

    async def story(app: App) -> str:
        from mediamill.intake.findings import drop_finding

        async with app.database.transaction() as connection:
            return await drop_finding(connection, finding)

    label = run(story)
    print_json({"dropped": label}) if json else say(f"{label!r} is not offered any more")


def add_commands(app: typer.Typer) -> None:
    """All of them, to the group of intake."""
    app.command(
        "proposals",
        epilog=examples(
            "mediamill intake proposals invoices",
            "mediamill intake proposals invoices --field total --state accepted --json",
        ),
    )(list_proposals)
    app.command(
        "accept",
        epilog=examples(
            "mediamill intake accept 7 8",
            "mediamill intake accept 7 --value 2024-05-01",
            "mediamill intake accept --project invoices --above 0.9",
        ),
    )(accept_proposals)
    app.command("reject", epilog=examples("mediamill intake reject 7 8"))(reject_proposals)
    app.command("reopen", epilog=examples("mediamill intake reopen 7"))(reopen_proposals)
    app.command(
        "set",
        epilog=examples(
            "mediamill intake set 12 invoice_number 2024-0815", "mediamill intake set 12 total -- -12.50"
        ),
    )(enter_value)
    app.command(
        "map", epilog=examples("mediamill intake map 31", "mediamill intake map 31 --field customer_number")
    )(make_field)
    app.command("drop", epilog=examples("mediamill intake drop 31"))(drop_finding)
    app.command(
        "export",
        epilog=examples(
            "mediamill intake export invoices > invoices.csv",
            "mediamill intake export invoices --all --json --to invoices.json",
        ),
    )(export_project)

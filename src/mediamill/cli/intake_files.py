"""`mediamill intake files`, `file`, `reprocess`, `priority` and `remove`: what was brought into a project."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.intake_screen import (
    FILE_COLUMNS,
    FINDING_COLUMNS,
    PROPOSAL_COLUMNS,
    file_fields,
    file_row,
    finding_row,
    proposal_row,
)
from mediamill.cli.jobs import raise_all
from mediamill.cli.options import LARGEST_ID, Json, PriorityName, Yes, confirm, examples
from mediamill.cli.paged import After, Amount, print_pages, read_pages
from mediamill.cli.session import run
from mediamill.cli.terminal import clean, plural, print_fields, print_json, print_table, say
from mediamill.errors import InvalidError, MediamillError

if TYPE_CHECKING:
    from mediamill.app import App

Slug = Annotated[str, typer.Argument(metavar="PROJECT", help="The project.", show_default=False)]
Id = Annotated[
    int, typer.Argument(min=1, max=LARGEST_ID, metavar="ID", help="The file's id.", show_default=False)
]
Ids = Annotated[
    list[int] | None,
    typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of files.", show_default=False),
]


class FileState(StrEnum):
    """How far a file is."""

    QUEUED = "queued"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"


def list_files(
    slug: Slug,
    state: Annotated[FileState | None, typer.Option(help="Only those that are so far.")] = None,
    amount: Amount = 50,
    after: After = None,
    json: Json = False,
) -> None:
    """Files of a project, newest first."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.intake.look import list_files

        async with app.database.connection() as connection:

            async def read(place: str | None, most: int) -> dict[str, Any]:
                return await list_files(connection, app.settings, slug, state=state, after=place, amount=most)

            return await read_pages("files", read, after, amount)

    told = run(story)
    none = "no such files" if state or after else f"no files yet; mediamill intake add {slug} FILE… adds some"
    print_pages(told, FILE_COLUMNS, file_row, none, json=json)


def show_file(
    file_id: Id,
    text: Annotated[bool, typer.Option("--text", help="Print its text, and nothing else.")] = False,
    json: Json = False,
) -> None:
    """One file: state, what was found in it and where, and what was decided."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.intake.look import show_file

        async with app.database.connection() as connection:
            return await show_file(connection, app.settings, file_id)

    file = run(story)
    if json:
        print_json(file)
    elif text:
        print(clean(file["text"] or ""))
    else:
        print_fields(file_fields(file))
        if file["proposals"]:
            say("")
            print_table(PROPOSAL_COLUMNS, [proposal_row(each) for each in file["proposals"]], "")
        if file["unmapped"]:
            say("\nalso found; mediamill intake map ID makes a field of it, drop ID drops it:")
            print_table(FINDING_COLUMNS, [finding_row(each) for each in file["unmapped"]], "")


def reprocess_files(
    ids: Ids = None,
    project: Annotated[
        str | None, typer.Option(metavar="PROJECT", help="All of it that failed or is outdated.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also what is finished and up to date, without asking its twins.")
    ] = False,
    json: Json = False,
) -> None:
    """Analyse files again: those that failed or are outdated. What was accepted stays."""
    if bool(ids) == bool(project):
        raise InvalidError("nothing is named, or too much", fix="name ids, or --project PROJECT")
    if project:
        _tell_reprocessed(run(lambda app: _reprocess_project(app, project, force)), json)
        return
    told, refused = run(lambda app: _reprocess(app, ids or [], force))
    if json:
        print_json({"files": told, "refused": [error.message for error in refused]})
    else:
        for each in told:
            say(f"file {each['id']}: {each['why']}")
    raise_all(refused)


async def _reprocess(
    app: App, ids: list[int], force: bool
) -> tuple[list[dict[str, Any]], list[MediamillError]]:
    """Each in a transaction of its own; one that is refused does not keep the others from it."""
    from mediamill.intake.again import reprocess

    told, refused = [], []
    for file_id in dict.fromkeys(ids):
        try:
            async with app.database.transaction() as connection:
                done = await reprocess(connection, app.enqueuer, app.settings, file_id, force=force)
            told.append({"id": file_id, "done": done["done"], "why": done["why"]})
        except MediamillError as error:
            refused.append(error)
    return told, refused


def categorise_files(
    category: Annotated[
        str,
        typer.Argument(
            metavar="CATEGORY", help="What they are; - leaves it to the project's rules.", show_default=False
        ),
    ],
    ids: Annotated[
        list[int],
        typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of files.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Say what files are. They are analysed again if other fields are looked for in such files."""
    told, refused = run(lambda app: _categorise(app, None if category == "-" else category, ids))
    if json:
        print_json({"files": told, "refused": [error.message for error in refused]})
    else:
        for each in told:
            known = f"{each['category']} (by {each['category_by']})" if each["category"] else "not known"
            say(f"file {each['id']}: {known}, {each['state']}")
    raise_all(refused)


async def _categorise(
    app: App, category: str | None, ids: list[int]
) -> tuple[list[dict[str, Any]], list[MediamillError]]:
    from mediamill.intake.categories import set_category

    told, refused = [], []
    for file_id in dict.fromkeys(ids):
        try:
            async with app.database.transaction() as connection:
                file = await set_category(connection, app.enqueuer, app.settings, file_id, category)
            told.append({name: file[name] for name in ("id", "category", "category_by", "state")})
        except MediamillError as error:
            refused.append(error)
    return told, refused


def read_on_files(
    ids: Annotated[
        list[int],
        typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of files.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Read the pages that were left out of long files. Pages that were read are not read again."""
    done, refused = run(lambda app: _read_on(app, ids))
    if json:
        print_json({"files": done, "refused": [error.message for error in refused]})
    elif done:
        say(f"the rest of {plural(len(done), 'file')} is read: mediamill intake file ID shows how far it is")
    raise_all(refused)


async def _read_on(app: App, ids: list[int]) -> tuple[list[int], list[MediamillError]]:
    from mediamill.intake.read_on import read_on

    done, refused = [], []
    for file_id in dict.fromkeys(ids):
        try:
            async with app.database.transaction() as connection:
                await read_on(connection, app.enqueuer, app.settings, file_id)
            done.append(file_id)
        except MediamillError as error:
            refused.append(error)
    return done, refused


async def _reprocess_project(app: App, slug: str, force: bool) -> dict[str, int]:
    from mediamill.intake.again import reprocess_project

    return await reprocess_project(app.database, app.enqueuer, app.settings, slug, force=force)


def _tell_reprocessed(told: dict[str, int], json: bool) -> None:
    count = told["started"]
    if json:
        print_json(told)
    elif count:
        say(f"{plural(count, 'file')} {'is' if count == 1 else 'are'} analysed again")
    else:
        say("everything is up to date; --force analyses it anyway")


def set_priority(
    priority: Annotated[PriorityName, typer.Argument(help="How soon they are analysed.", show_default=False)],
    ids: Annotated[
        list[int],
        typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of files.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Have files that wait analysed sooner or later than others."""

    async def story(app: App) -> None:
        from mediamill.engine.priority import read_priority
        from mediamill.intake.again import set_file_priority

        async with app.database.transaction() as connection:
            for file_id in dict.fromkeys(ids):
                await set_file_priority(connection, file_id, read_priority(priority))

    run(story)
    print_json({"files": ids, "priority": priority}) if json else say(
        f"{plural(len(ids), 'file')} at {priority} priority"
    )


def remove_files(ids: Ids, yes: Yes = False, json: Json = False) -> None:
    """Remove files for good, with what was decided about them."""
    wanted = list(dict.fromkeys(ids or []))
    if not wanted:
        raise InvalidError("nothing is named", fix="name ids: mediamill intake files PROJECT lists them")
    confirm(f"Remove {plural(len(wanted), 'file')}, for good?", yes)

    async def story(app: App) -> tuple[list[int], list[MediamillError]]:
        from mediamill.intake.again import delete_file

        removed, refused = [], []
        for file_id in wanted:
            try:
                async with app.database.transaction() as connection:
                    await delete_file(connection, file_id)
                removed.append(file_id)
            except MediamillError as error:
                refused.append(error)
        return removed, refused

    removed, refused = run(story)
    if json:
        print_json({"removed": removed, "refused": [error.message for error in refused]})
    elif removed:
        say(f"{plural(len(removed), 'file')} removed")
    raise_all(refused)


def add_commands(app: typer.Typer) -> None:
    """All of them, to the group of intake."""
    app.command(
        "files",
        epilog=examples(
            "mediamill intake files invoices", "mediamill intake files invoices --state failed --json"
        ),
    )(list_files)
    app.command("file", epilog=examples("mediamill intake file 12", "mediamill intake file 12 --text"))(
        show_file
    )
    app.command(
        "reprocess",
        epilog=examples(
            "mediamill intake reprocess 12 13",
            "mediamill intake reprocess 12 --force",
            "mediamill intake reprocess --project invoices",
        ),
    )(reprocess_files)
    app.command(
        "category",
        epilog=examples("mediamill intake category Invoice 12 13", "mediamill intake category - 12"),
    )(categorise_files)
    app.command("read-on", epilog=examples("mediamill intake read-on 12"))(read_on_files)
    app.command("priority", epilog=examples("mediamill intake priority high 12 13"))(set_priority)
    app.command("remove", epilog=examples("mediamill intake remove 12 13"))(remove_files)

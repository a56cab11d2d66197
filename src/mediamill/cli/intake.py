"""`mediamill intake`: projects with a field catalog, their files, and what was found in them."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli import intake_add, intake_files, intake_review, intake_watch
from mediamill.cli.intake_screen import (
    COLUMNS,
    FIELD_COLUMNS,
    field_row,
    project_fields,
    project_row,
    read_field,
    read_rule,
)
from mediamill.cli.options import Json, Yes, confirm, examples, typed
from mediamill.cli.session import run
from mediamill.cli.terminal import plural, print_fields, print_json, print_table, say
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.db.connection import Connection
    from mediamill.intake.model import Field

app = typer.Typer(
    no_args_is_help=True, help="Intake: files in, fields out, a person has the last word. By projects."
)

Verb = Callable[["Connection"], Awaitable[str]]
Slug = Annotated[str, typer.Argument(metavar="PROJECT", help="The project's short name.", show_default=False)]
Folder = Annotated[
    Path | None,
    typer.Option("--watch", metavar="FOLDER", help="Take in what appears in this folder. It is only read."),
]
FieldSpecs = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="FIELD",
        help="NAME[:TYPE[:UNIT]][=LABEL][@CATEGORY,…]; types: text, number, amount, date, boolean.",
    ),
]
FieldFile = Annotated[
    str | None,
    typer.Option(
        "--fields",
        metavar="FILE",
        help="The catalog from a JSON file, as `intake fields --json` prints it; - is stdin.",
    ),
]


@app.command(
    "create",
    epilog=examples(
        "mediamill intake create Invoices --field invoice_number --field date:date --field 'total:amount=Total due'",
        "mediamill intake create Meters --field reading:number:kWh --watch /mnt/scans/meters",
        "mediamill intake create Contracts --fields catalog.json",
    ),
)
def create_project(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.", show_default=False)],
    description: Annotated[str, typer.Option(help="What its files are about.")] = "",
    field: FieldSpecs = None,
    fields: FieldFile = None,
    watch: Folder = None,
    slug: Annotated[str | None, typer.Option(help="Its short name. Unset: made from the name.")] = None,
    json: Json = False,
) -> None:
    """Make a project: a place for files of one kind, with the fields that are to be found in them."""
    catalog = [*_read_catalog(fields), *(read_field(each) for each in field or [])]

    async def create(connection: Connection) -> str:
        from mediamill.intake.projects import add_project

        return await add_project(
            connection,
            name,
            slug=slug,
            description=description,
            fields=_as_fields(catalog),
            watch_path=None if watch is None else str(typed(watch).absolute()),
        )

    project = _do(create)
    if json:
        print_json(project)
        return
    say(f"project {project['slug']} is made, with {plural(len(project['fields']), 'field')}")
    say(f"to bring files in: mediamill intake add {project['slug']} FILE…")


@app.command("list", epilog=examples("mediamill intake list", "mediamill intake list --json"))
def list_projects(json: Json = False) -> None:
    """Projects, with how far their files are and how much waits for a person."""

    async def story(app: App) -> list[dict[str, Any]]:
        from mediamill.intake.projects import list_projects

        async with app.database.connection() as connection:
            return await list_projects(connection)

    projects = run(story)
    if json:
        print_json(projects)
        return
    none = "no projects yet; mediamill intake create NAME makes one"
    print_table(COLUMNS, [project_row(project) for project in projects], none)


@app.command("show", epilog=examples("mediamill intake show invoices"))
def show_project(slug: Slug, json: Json = False) -> None:
    """One project: its files by state, its watched folder, its field catalog."""
    project = _show(slug)
    if json:
        print_json(project)
        return
    print_fields(project_fields(project))
    say("")
    _print_catalog(project)


@app.command(
    "edit",
    epilog=examples(
        "mediamill intake edit invoices --watch /mnt/scans",
        "mediamill intake edit invoices --no-watch",
        "mediamill intake edit invoices --rule '*receipt*=Receipt' --rule 'in/*=Invoice'",
    ),
)
def edit_project(
    slug: Slug,
    name: Annotated[str | None, typer.Option(help="What it is called. The short name stays.")] = None,
    description: Annotated[str | None, typer.Option(help="What its files are about.")] = None,
    watch: Folder = None,
    no_watch: Annotated[bool, typer.Option("--no-watch", help="Watch no folder any more.")] = False,
    rule: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=CATEGORY", help="Files of such names are of this category. Replaces all rules."
        ),
    ] = None,
    no_rules: Annotated[bool, typer.Option("--no-rules", help="Have no rules any more.")] = False,
    json: Json = False,
) -> None:
    """Change a project; what is not named stays."""
    if watch is not None and no_watch:
        raise InvalidError("--watch and --no-watch cannot both be meant", fix="name one of them")
    path = "" if no_watch else None if watch is None else str(typed(watch).absolute())
    facts = {"name": name, "description": description, "watch_path": path}
    rules = [read_rule(each) for each in rule or []] if rule or no_rules else None
    if rules is None and all(fact is None for fact in facts.values()):
        raise InvalidError("nothing is to be changed", fix="mediamill intake edit --help lists what can be")

    async def edit(connection: Connection) -> str:
        from mediamill.intake.categories import set_rules
        from mediamill.intake.projects import edit_project

        await edit_project(connection, slug, **facts)
        if rules is not None:
            await set_rules(connection, slug, rules)
        return slug

    project = _do(edit)
    print_json(project) if json else print_fields(project_fields(project))


@app.command(
    "fields",
    epilog=examples(
        "mediamill intake fields invoices",
        "mediamill intake fields invoices --field 'due:date=Payable until' --remove fax",
        "mediamill intake fields invoices --json > catalog.json",
        "mediamill intake fields others --fields catalog.json",
    ),
)
def edit_fields(
    slug: Slug,
    field: FieldSpecs = None,
    remove: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Leave this field out.")] = None,
    fields: FieldFile = None,
    json: Json = False,
) -> None:
    """Show the field catalog, or change it: --field adds or replaces one, --fields replaces all.

    Files that were analysed before stay as they are: mediamill intake reprocess --project brings them up to date.
    """
    changed = bool(field or remove or fields)
    project = _change_fields(slug, field or [], remove or [], fields) if changed else _show(slug)
    if json:
        print_json(project["fields"])
        return
    _print_catalog(project)
    if changed and project["counts"]["completed"]:
        say(f"for files that were analysed before: mediamill intake reprocess --project {slug}", style="dim")


def _change_fields(slug: str, added: list[str], removed: list[str], file: str | None) -> dict[str, Any]:
    given, fresh = _read_catalog(file), [read_field(each) for each in added]

    async def change(connection: Connection) -> str:
        from mediamill.intake.fields import set_fields
        from mediamill.intake.projects import show_project

        there = given if file else (await show_project(connection, slug))["fields"]
        catalog = {each["name"]: each for each in (*there, *fresh)}
        unknown = [name for name in removed if name not in catalog]
        if unknown:
            raise InvalidError(
                f"there is no field {unknown[0]}", fix=f"mediamill intake fields {slug} lists them"
            )
        kept = [each for name, each in catalog.items() if name not in removed]
        await set_fields(connection, slug, _as_fields(kept))
        return slug

    return _do(change)


@app.command("delete", epilog=examples("mediamill intake delete invoices"))
def delete_project(slug: Slug, yes: Yes = False, json: Json = False) -> None:
    """Delete a project for good, with its files and what was decided. A watched folder is not touched."""
    project = _show(slug)
    files = plural(sum(project["counts"].values()), "file")
    confirm(f"Delete project {slug} with {files}, for good?", yes)

    async def story(app: App) -> None:
        from mediamill.intake.projects import delete_project

        async with app.database.transaction() as connection:
            await delete_project(connection, slug)

    run(story)
    print_json({"deleted": slug}) if json else say(f"project {slug} is deleted")


def _read_catalog(file: str | None) -> list[dict[str, Any]]:
    """A JSON list of fields."""
    if file is None:
        return []
    try:
        value = json_module.loads(sys.stdin.read() if file == "-" else Path(file).read_text())
    except OSError as error:
        raise InvalidError(f"cannot read {file}: {error.strerror}") from None
    except ValueError as error:
        raise InvalidError(f"{file} is not JSON: {error}") from None
    keys = {"name", "type", "label", "description", "unit", "categories"}
    if not isinstance(value, list) or not all(isinstance(each, dict) and "name" in each for each in value):
        raise InvalidError(f"{file} is no list of fields", fix='write [{"name": "total", "type": "amount"}]')
    strange = sorted({str(key) for each in value for key in each} - keys)
    if strange:
        raise InvalidError(f"a field has no {strange[0]}", fix=f"it has {', '.join(sorted(keys))}")
    return value


def _as_fields(catalog: list[dict[str, Any]]) -> list[Field]:
    from mediamill.intake.model import Field

    return [Field(**each) for each in catalog]


def _print_catalog(project: dict[str, Any]) -> None:
    none = f"no fields yet; mediamill intake fields {project['slug']} --field NAME adds one"
    print_table(FIELD_COLUMNS, [field_row(each) for each in project["fields"]], none)


def _show(slug: str) -> dict[str, Any]:
    async def story(app: App) -> dict[str, Any]:
        from mediamill.intake.projects import show_project

        async with app.database.connection() as connection:
            return await show_project(connection, slug)

    return run(story)


def _do(verb: Verb) -> dict[str, Any]:
    """In one transaction; the project as it is then."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.intake.projects import show_project

        async with app.database.transaction() as connection:
            return await show_project(connection, await verb(connection))

    return run(story)


app.command("add", epilog=intake_add.EXAMPLES)(intake_add.add_files)
intake_files.add_commands(app)
intake_review.add_commands(app)
app.command("watch", epilog=intake_watch.EXAMPLES)(intake_watch.watch_files)

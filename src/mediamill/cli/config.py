"""`mediamill config`: values in the database that are the same for all machines, in force at once."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.bot_settings import read_json
from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import one_line, print_json, print_table, say
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.app import App

app = typer.Typer(
    no_args_is_help=True, help="Configuration in the database: the quota of media, and who processes which."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The value's name.", show_default=False)]


@app.command("list", epilog=examples("mediamill config list"))
def list_values(json: Json = False) -> None:
    """Every value in force."""

    async def story(opened: App) -> dict[str, Any]:
        from mediamill.conversations.configuration import list_configuration

        async with opened.database.connection() as connection:
            return await list_configuration(connection)

    values = run(story)
    if json:
        print_json(values)
        return
    from mediamill.conversations.configuration import NAMES

    rows = [
        [name, one_line(json_format.dumps(value), 60), NAMES.get(name, "")] for name, value in values.items()
    ]
    print_table(("name", "value", "~what it is"), rows, "nothing")


@app.command(
    "get",
    epilog=examples(
        "mediamill config get media_storage_quota_gb",
        "mediamill config get _mediaProcessorDefinitions > definitions.json",
    ),
)
def get_value(name: Name, json: Json = False) -> None:
    """One value, as JSON."""
    del json  # it is JSON in any case

    async def story(opened: App) -> Any:
        from mediamill.conversations.configuration import get_value

        async with opened.database.connection() as connection:
            return await get_value(connection, name)

    print_json(run(story))


@app.command(
    "set",
    epilog=examples(
        "mediamill config set media_storage_quota_gb 50",
        "mediamill config set _mediaProcessorDefinitions --file definitions.json",
    ),
)
def set_value(
    name: Name,
    value: Annotated[
        str | None, typer.Argument(metavar="VALUE", help="The new value, as JSON.", show_default=False)
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A file with the value as JSON; - is stdin.")] = None,
    json: Json = False,
) -> None:
    """Set a value; it is in force at once. A bad one is refused, and the old one stays."""
    if (value is None) == (file is None):
        raise InvalidError("give a value or --file", fix="see --help")
    new = read_json(file) if file is not None else _parse(str(value))
    if new is None:
        raise InvalidError("null is no value", fix=f"mediamill config unset {name}")
    _set(name, new, json, "set")


@app.command("unset", epilog=examples("mediamill config unset media_storage_quota_gb"))
def unset_value(name: Name, json: Json = False) -> None:
    """The default again."""
    _set(name, None, json, "back at its default")


def _set(name: str, value: Any, json: bool, done: str) -> None:
    async def story(opened: App) -> Any:
        from mediamill.conversations.configuration import get_value, set_value

        async with opened.database.transaction() as connection:
            await set_value(connection, name, value)
            return await get_value(connection, name)

    now = run(story)
    print_json({"name": name, "value": now}) if json else say(
        f"{name} is {done}: {one_line(json_format.dumps(now))}"
    )


def _parse(text: str) -> Any:
    try:
        return json_format.loads(text)
    except (ValueError, RecursionError):
        return text  # refused by name, if a text does not fit

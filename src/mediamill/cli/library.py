"""`mediamill library`: folders of photos and videos that are read and never written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.library_screen import COLUMNS, library_fields, library_row, read_span
from mediamill.cli.options import Json, examples, typed
from mediamill.cli.session import run
from mediamill.cli.terminal import print_fields, print_json, print_table, say
from mediamill.errors import InvalidError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.db.connection import Connection

app = typer.Typer(
    no_args_is_help=True, help="Libraries: folders that are scanned, previewed, tagged and found."
)

Verb = Callable[["App", "Connection"], Awaitable[str]]
Slug = Annotated[str, typer.Argument(metavar="SLUG", help="The library's short name.", show_default=False)]
Every = Annotated[
    str | None,
    typer.Option(
        "--rescan-every",
        metavar="TIME",
        help="Scan again after so long: 15m, 6h, 1d; never.",
        show_default=False,
    ),
]
Limit = Annotated[int | None, typer.Option(min=1, max=10_000, help="The most scenes or frames of a video.")]


class Sampling(StrEnum):
    """How moments of videos are found."""

    SCENES = "scenes"
    WINDOWS = "windows"


class Engine(StrEnum):
    """Who can look at images."""

    LOCAL = "local"
    OPENAI = "openai"
    MOONDREAM = "moondream"


@app.command(
    "add",
    epilog=examples(
        "mediamill library add Photos /mnt/photos",
        'mediamill library add "Family films" /mnt/films --rescan-every 15m --sampling windows',
        "mediamill library add Raw /mnt/raw --ignore-previews --no-scan",
    ),
)
def add_library(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is called.", show_default=False)],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Its folder.", show_default=False)],
    rescan_every: Every = None,
    ignore_previews: Annotated[
        bool, typer.Option("--ignore-previews", help="Develop raw images; their own previews are not used.")
    ] = False,
    sampling: Annotated[Sampling, typer.Option(help="How moments of videos are found.")] = Sampling.SCENES,
    sampling_limit: Limit = None,
    scan: Annotated[bool, typer.Option("--scan/--no-scan", help="Have it scanned at once.")] = True,
    json: Json = False,
) -> None:
    """Add a folder as a library. It is only ever read.

    A server (mediamill up) scans it and makes previews; `mediamill scan` does the scanning here and now.
    """

    async def add(app: App, connection: Connection) -> str:
        from mediamill.libraries.add import add_library
        from mediamill.libraries.scan_job import request_scan

        slug = await add_library(
            connection,
            name,
            str(typed(path).absolute()),
            rescan_seconds=read_span(rescan_every) or None,
            ignore_previews=ignore_previews,
            sampling_limit=sampling_limit or 100,
            mode=sampling.value,
        )
        if scan:
            await request_scan(connection, app.enqueuer, slug)
        return slug

    library = _do(add)
    if json:
        print_json(library)
        return
    slug = library["slug"]
    say(f"library {slug} is added: {library['absolute_path']}")
    first = "a server (mediamill up) scans it; to watch it being done: " if scan else "to have it scanned: "
    say(f"{first}mediamill scan {slug}")


@app.command("list", epilog=examples("mediamill library list", "mediamill library list --json"))
def list_libraries(json: Json = False) -> None:
    """Libraries, with how much is in them and how their scans go."""

    async def story(app: App) -> list[dict[str, Any]]:
        from mediamill.libraries.look import list_libraries

        async with app.database.connection() as connection:
            return await list_libraries(connection)

    libraries = run(story)
    if json:
        print_json(libraries)
        return
    none = "no libraries yet; mediamill library add NAME PATH adds one"
    print_table(COLUMNS, [library_row(library) for library in libraries], none)


@app.command("show", epilog=examples("mediamill library show photos"))
def show_library(slug: Slug, json: Json = False) -> None:
    """One library: folder, scan, what is in it and how far that is."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.libraries.look import show_library

        async with app.database.connection() as connection:
            return await show_library(connection, slug)

    library = run(story)
    print_json(library) if json else print_fields(library_fields(library))


@app.command(
    "edit",
    epilog=examples(
        "mediamill library edit photos --rescan-every 6h",
        "mediamill library edit photos --path /mnt/new/photos --name Pictures",
    ),
)
def edit_library(
    slug: Slug,
    name: Annotated[str | None, typer.Option(help="What it is called. The slug stays.")] = None,
    path: Annotated[Path | None, typer.Option(help="Where its folder is now.")] = None,
    rescan_every: Every = None,
    ignore_previews: Annotated[
        bool | None, typer.Option("--ignore-previews/--use-previews", help="Of raw images.")
    ] = None,
    sampling: Annotated[Sampling | None, typer.Option(help="How moments of videos are found.")] = None,
    sampling_limit: Limit = None,
    json: Json = False,
) -> None:
    """Change a library; what is not named stays. It holds for what is done from now on."""
    facts: dict[str, Any] = {
        "name": name,
        "path": None if path is None else str(typed(path).absolute()),
        "rescan_seconds": read_span(rescan_every),
        "ignore_previews": ignore_previews,
        "mode": None if sampling is None else sampling.value,
        "sampling_limit": sampling_limit,
    }
    if all(fact is None for fact in facts.values()):
        raise InvalidError("nothing is to be changed", fix="mediamill library edit --help lists what can be")

    async def edit(_app: App, connection: Connection) -> str:
        from mediamill.libraries.edit import edit_library

        await edit_library(connection, slug, **facts)
        return slug

    library = _do(edit)
    print_json(library) if json else print_fields(library_fields(library))


@app.command(
    "tagger",
    epilog=examples(
        "mediamill library tagger photos --engine openai --model gpt-4o-mini",
        "mediamill library tagger photos --default",
    ),
)
def choose_tagger(
    slug: Slug,
    engine: Annotated[Engine | None, typer.Option(help="Who looks at images.", show_default=False)] = None,
    model: Annotated[
        str | None, typer.Option(help="A model of that engine. Unset: its default.", show_default=False)
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Whoever the settings name.")] = False,
    json: Json = False,
) -> None:
    """Choose who tags a library. What others tagged is tagged again, from the previews that are there."""
    if default == (engine is not None) or (model and engine is None):
        raise InvalidError("name one tagger", fix="--engine, with --model if need be; or --default")

    async def choose(app: App, connection: Connection) -> str:
        from mediamill.libraries.retag import set_tagger

        await set_tagger(connection, app.settings, slug, engine and engine.value, model)
        return slug

    library = _do(choose)
    who = library.get("tagger") or (
        "the tagger of the settings" if default else f"{engine} {model or ''}".strip()
    )
    _tell(library, f"is tagged by {who} from now on", json)


@app.command("pause", epilog=examples("mediamill library pause photos"))
def pause_library(slug: Slug, json: Json = False) -> None:
    """Stop all work for a library: what runs is finished, nothing else begins."""
    from mediamill.libraries.edit import pause_library

    _tell(_move(pause_library, slug), "is paused", json)


@app.command("resume", epilog=examples("mediamill library resume photos"))
def resume_library(slug: Slug, json: Json = False) -> None:
    """Go on with a library that was paused."""
    from mediamill.libraries.edit import resume_library

    _tell(_move(resume_library, slug), "goes on", json)


@app.command("remove", epilog=examples("mediamill library remove photos"))
def remove_library(slug: Slug, json: Json = False) -> None:
    """Put a library into the trash: all of it is hidden at once, and can be restored. Its folder is not touched."""
    from mediamill.libraries.trash import remove_library

    again = f"back: mediamill library restore {slug}; for good: mediamill trash empty {slug}"
    _tell(_move(remove_library, slug), f"is in the trash; {again}", json)


@app.command("restore", epilog=examples("mediamill library restore photos"))
def restore_library(slug: Slug, json: Json = False) -> None:
    """Bring a library back from the trash, with everything that was in it."""
    from mediamill.libraries.trash import restore_library

    _tell(_move(restore_library, slug), "is back", json)


def _move(verb: Callable[[Connection, str], Awaitable[None]], slug: str) -> dict[str, Any]:
    """What needs nothing but the library."""

    async def move(_app: App, connection: Connection) -> str:
        await verb(connection, slug)
        return slug

    return _do(move)


def _do(verb: Verb) -> dict[str, Any]:
    """In one transaction; the library as it is then."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.libraries.look import show_library

        async with app.database.transaction() as connection:
            slug = await verb(app, connection)
            return await show_library(connection, slug, trash=True)

    return run(story)


def _tell(library: dict[str, Any], what: str, json: bool) -> None:
    print_json(library) if json else say(f"library {library['slug']} {what}")

"""`mediamill trash`: libraries that were removed, and erasing them for good."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.library_screen import TRASH_COLUMNS, erased_text, trash_row
from mediamill.cli.options import Json, Yes, confirm, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import plural, print_json, print_table, say

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.libraries.erase import Erased, OnProgress

app = typer.Typer(no_args_is_help=True, help="The trash: libraries that were removed.")


@app.command("list", epilog=examples("mediamill trash list"))
def list_trash(json: Json = False) -> None:
    """Libraries in the trash. `mediamill library restore` brings one back."""
    libraries = run(_libraries)
    if json:
        print_json(libraries)
    else:
        print_table(TRASH_COLUMNS, [trash_row(library) for library in libraries], "the trash is empty")


@app.command("empty", epilog=examples("mediamill trash empty", "mediamill trash empty photos --yes"))
def empty_trash(
    slug: Annotated[
        str | None,
        typer.Argument(metavar="SLUG", help="Only this library. Unset: all.", show_default=False),
    ] = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Erase what is in the trash, for good: previews, tags, what was found out. The folders stay as they are.

    Work goes on meanwhile: it is done bit by bit. What is cut off goes on with the same command, or in a server.
    """
    if slug is None:
        confirm("Erase every library in the trash, for good?", yes)
    else:
        confirm(f"Erase the library {slug} with all that was found out about it, for good?", yes)

    async def story(app: App) -> Erased:
        from mediamill.libraries.erase import empty_trash

        total = sum(each["assets"] for each in await _libraries(app) if slug in (None, each["slug"]))
        with _bar(total, json) as show:
            return await empty_trash(app.database, slug, show)

    gone = run(story)
    if json:
        print_json({"libraries": gone.libraries, "assets": gone.assets, "moments": gone.moments})
    else:
        say(
            erased_text(gone.libraries, gone.assets, gone.moments) if gone.libraries else "the trash is empty"
        )


async def _libraries(app: App) -> list[dict[str, Any]]:
    from mediamill.libraries.look import list_libraries

    async with app.database.connection() as connection:
        return await list_libraries(connection, trash=True)


@contextmanager
def _bar(total: int, json: bool) -> Iterator[OnProgress]:
    """How many assets are gone, where somebody looks."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from mediamill.cli.terminal import console

    screen = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=screen, transient=True, disable=json or not screen.is_terminal) as bar:
        task = bar.add_task("erasing", total=total)

        def show(gone: Erased) -> None:
            left = f"erasing (and {plural(gone.moments, 'moment')} of videos)" if gone.moments else "erasing"
            bar.update(task, completed=gone.assets, description=left)

        yield show

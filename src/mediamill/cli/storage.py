"""`mediamill storage`: where lasting files lie, and moving them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from mediamill.cli.options import Json, Yes, confirm, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import bytes_bar, plural, print_json, say, size, warn
from mediamill.staging import Target

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.staging.moving import Moved

app = typer.Typer(no_args_is_help=True, help="Where lasting files lie: the data folder, or a bucket.")
MOST_TOLD = 20


@app.callback()
def _group() -> None:
    """So that `move` stays a word of its own."""


@app.command(
    "move",
    epilog=examples("mediamill storage move bucket", "mediamill storage move folder --delete --yes --json"),
)
def move(
    to: Annotated[Target, typer.Argument(help="Where the files go.", show_default=False)],
    delete: Annotated[
        bool,
        typer.Option(
            "--delete",
            help="Also delete them from where they were, each after its two copies were compared byte by byte.",
        ),
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Copy every stored file of the data folder into the bucket that is set, or back. Nothing else may run.

    What is there already with the same size and checksum is not copied again, so a move that was cut off goes on with
    the same command. Exit code 1: something could not be moved, and nothing was deleted.
    """
    if delete:
        confirm(f"Move all stored files to the {to}, and delete them from where they are?", yes)

    async def story(app: App) -> Moved:
        from mediamill.backup.marker import check_whole
        from mediamill.staging.move import move_files
        from mediamill.staging.moving import Moved
        from mediamill.storage.choose import storage_of

        check_whole(app.settings.data_folder)
        with _bar(json, await _total_bytes(app, to)) as show:
            moved = Moved(to.value, show=show)
            return await move_files(app.database, storage_of(app.settings), moved, delete=delete)

    moved = run(story)
    if json:
        print_json(moved.as_dict())
    else:
        _tell(moved, delete)
    if moved.faults:
        raise typer.Exit(1)


def _tell(moved: Moved, delete: bool) -> None:
    for name in moved.left_out[:MOST_TOLD]:
        warn(f"not moved, because it is no plain file: {name}", style="yellow")
    for fault in moved.faults[:MOST_TOLD]:
        warn(fault, style="red")
    if moved.faults:
        deleted = f"{moved.deleted_files} were deleted" if moved.deleted_files else "nothing was deleted"
        warn(f"{plural(len(moved.faults), 'fault')}; {deleted}", style="red")
    there = f"{plural(moved.files, 'file')} ({size(moved.bytes)}) are in the {moved.to}"
    say(f"{there}; copied {moved.copied_files} ({size(moved.copied_bytes)})")
    if delete and not moved.faults:
        say(f"deleted from where they were: {plural(moved.deleted_files, 'file')}")
    if moved.to == Target.FOLDER:
        say("  unset MEDIAMILL_BUCKET before `mediamill up`, for the files of the folder to be found")


async def _total_bytes(app: App, to: Target) -> int:
    """For the bar."""
    import asyncio

    from mediamill.staging.moving import walk_stored
    from mediamill.storage.count import count_bucket

    if to is Target.FOLDER:
        return (await count_bucket(app.database, "")).bytes
    folder = app.settings.data_folder
    return await asyncio.to_thread(lambda: sum(found.bytes for found in walk_stored(folder, [])))


@contextmanager
def _bar(json: bool, total: int) -> Iterator[Callable[[str, Moved], None]]:
    from mediamill.staging.move_in import COPYING, DELETING

    with bytes_bar(hidden=json) as bar:
        task = bar.add_task(COPYING, total=total)

        def show(what: str, moved: Moved) -> None:
            step = f"{what} {moved.deleted_files}" if what == DELETING else what
            bar.update(task, description=step, completed=moved.bytes)

        yield show

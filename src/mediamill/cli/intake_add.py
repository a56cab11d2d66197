"""`mediamill intake add`: files and folders into a project, with a bar; --wait stays until they are analysed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, PriorityName, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import console, one_line, plural, print_json, say, warn
from mediamill.errors import InvalidError, MediamillError

if TYPE_CHECKING:
    from mediamill.app import App

EXAMPLES = examples(
    "mediamill intake add invoices invoice.pdf scan.jpg",
    "mediamill intake add invoices ~/Documents/2024 --wait",
    "mediamill intake add invoices *.pdf --json",
)
ENDED = ("completed", "failed")
Told = dict[str, Any]


def add_files(
    slug: Annotated[str, typer.Argument(metavar="PROJECT", help="The project.", show_default=False)],
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE…", help="Files, and folders with all that is in them.", show_default=False
        ),
    ],
    category: Annotated[str, typer.Option(help="What they are, if you know.")] = "",
    priority: Annotated[PriorityName, typer.Option(help="How soon they are analysed.")] = PriorityName.NORMAL,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until each is analysed.")] = False,
    json: Json = False,
) -> None:
    """Add files to a project, to be analysed. One with the content of another takes over what that one gave.

    With --wait, running workers of `mediamill up` are used; without any, this command works itself.
    Exit code 1 if a file was refused or failed.
    """
    from mediamill.cli.process import collect_files

    found = list(collect_files(files))
    if not found:
        raise InvalidError("there is no file to add", fix="name files, or folders that hold some")
    told = run(lambda app: _add_all(app, slug, found, category, priority, wait, json))
    if json:
        print_json(told)
    else:
        _tell(slug, told, wait)
    if any(each["error"] and each["state"] in ("refused", "failed") for each in told):
        raise typer.Exit(1)


async def _add_all(
    app: App,
    slug: str,
    files: Sequence[tuple[Path, Path]],
    category: str,
    priority: str,
    wait: bool,
    json: bool,
) -> list[Told]:
    from mediamill.intake.projects import show_project

    async with app.database.connection() as connection:
        await show_project(connection, slug)  # an unknown one is one error, not one for each file
    told: list[Told] = []
    sizes = [_size(path) for path, _ in files]
    with _bar("adding", sum(sizes), json, counts_bytes=True) as show:
        for (path, inside), size in zip(files, sizes, strict=True):
            show(0, one_line(path.name, 30))
            told.append(await _add(app, slug, path, inside, category, priority))
            show(size, one_line(path.name, 30))
    if wait:
        await _await_all(app, told, json)
    return told


def _size(path: Path) -> int:
    """For the bar only: one that has vanished meanwhile is told of when its turn comes."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


async def _add(app: App, slug: str, path: Path, inside: Path, category: str, priority: str) -> Told:
    """One file; that it is refused does not keep the others from it."""
    from mediamill.engine.priority import read_priority
    from mediamill.intake.add import take_file

    told: Told = {"file": str(path), "id": None, "state": "refused", "twin_of": None, "error": None}
    try:
        file = await take_file(
            app.database,
            app.enqueuer,
            app.settings,
            slug,
            path,
            name=inside.as_posix(),
            category=category,
            priority=read_priority(priority),
        )
    except OSError as error:
        told["error"] = f"it cannot be read: {error.strerror}"
    except MediamillError as error:
        told["error"] = error.message
    else:
        told |= {name: file[name] for name in ("id", "state", "twin_of", "error")}
    return told


async def _await_all(app: App, told: list[Told], json: bool) -> None:
    """Until none of them can move any more; those that were deleted meanwhile are not waited for."""
    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups
    from mediamill.cli.process import somebody_works
    from mediamill.intake.look import file_states

    waiting = {each["id"]: each for each in told if each["id"] and each["state"] not in ENDED}
    with _bar("analysing", len(waiting), json) as show:
        async with somebody_works(app), wakeups(app) as wait:
            while waiting:
                states = await read_patiently(app, partial(file_states, ids=list(waiting)))
                ended = [id_ for id_ in waiting if id_ not in states or states[id_]["state"] in ENDED]
                for id_ in ended:
                    gone: Told = {"state": "failed", "error": "it was deleted meanwhile"}
                    waiting.pop(id_).update(states.get(id_, gone))
                busy = sum(state["state"] == "processing" for state in states.values())
                show(len(ended), f"{busy} at work, {len(waiting) - busy} waiting" if waiting else "done")
                if waiting:
                    await wait(POLL_SECONDS)


def _tell(slug: str, told: list[Told], waited: bool) -> None:
    """What went wrong by name, the rest by number."""
    for each in told:
        if each["error"] and each["state"] in ("refused", "failed"):
            warn(f"{each['file']} {each['state']}: {one_line(each['error'], 300)}", style="red")
    added = [each for each in told if each["id"] is not None]
    twins = sum(each["twin_of"] is not None for each in added)
    known = f", {twins} of them known already" if twins else ""
    say(f"{plural(len(added), 'file')} added to {slug}{known}")
    if waited:
        done = sum(each["state"] == "completed" for each in told)
        say(f"{plural(done, 'file')} analysed: mediamill intake proposals {slug}", style="green")
    elif added:
        say(f"a server (mediamill up) analyses them; to see how far: mediamill intake watch {slug}")


@contextmanager
def _bar(what: str, total: int, json: bool, *, counts_bytes: bool = False) -> Iterator[Any]:
    """Where somebody looks. It is told how much more is done, and a word."""
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn

    screen = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        DownloadColumn() if counts_bytes else MofNCompleteColumn(),
    )
    with Progress(*columns, console=screen, transient=True, disable=json or not screen.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done, word: bar.update(task, advance=done, description=f"{what} {word}")

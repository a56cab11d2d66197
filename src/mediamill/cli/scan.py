"""`mediamill scan`: look through a library's folder now, here, with a counter; once, or again and again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import console, print_fields, print_json, print_line, say, span, warn
from mediamill.errors import MediamillError

if TYPE_CHECKING:
    from rich.text import Text

    from mediamill.app import App
    from mediamill.libraries.scan_model import ScanCounts

EXAMPLES = examples(
    "mediamill scan photos", "mediamill scan photos --watch --every 10", "mediamill scan photos --json"
)
SHOWN = {
    "new": "new",
    "changed": "changed",
    "renamed": "renamed",
    "back": "back again",
    "vanished": "gone",
    "unreadable": "unreadable",
    "left_alone": "left alone",
}
DETAILS = {
    "folders": "folders",
    "files": "images and videos",
    **SHOWN,
    "unchanged": "unchanged",
    "links": "links, not followed",
    "others": "other files",
    "too_long": "too long a path",
}


def scan(
    slug: Annotated[str, typer.Argument(metavar="LIBRARY", help="Its slug.", show_default=False)],
    watch: Annotated[bool, typer.Option("--watch", help="Again and again, until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between scans, with --watch.")] = 30,
    accept_empty: Annotated[
        bool, typer.Option("--accept-empty", help="The folder is empty indeed: mark everything as gone.")
    ] = False,
    json: Json = False,
) -> None:
    """Look for new, changed and vanished files in the folder of a library.

    Only folders and times are read; no file is opened. A scan that was killed goes on where it was.
    """
    if watch:
        run(lambda app: _watch(app, slug, every, accept_empty, json))
        return
    began = time.monotonic()
    counts = run(lambda app: _scan(app, slug, accept_empty, quiet=json))
    if json:
        print_json(counts.as_dict())
        return
    told = counts.as_dict()
    print_fields(
        {name: told[key] for key, name in DETAILS.items() if told[key] or key in ("folders", "files")}
    )
    say(f"scanned in {span(time.monotonic() - began)}", style="green")
    _warn(counts)


async def _scan(app: App, slug: str, accept_empty: bool, *, quiet: bool) -> ScanCounts:
    from mediamill.libraries.scan import scan_library

    screen = console(stderr=True)
    if quiet or not screen.is_terminal:
        return await scan_library(app.database, app.settings, slug, accept_empty=accept_empty)
    with screen.status(f"scanning {slug} …") as status:
        began = time.monotonic()

        def show(counts: ScanCounts) -> None:
            status.update(_line(counts, time.monotonic() - began))

        return await scan_library(app.database, app.settings, slug, show, accept_empty)


async def _watch(app: App, slug: str, every: float, accept_empty: bool, json: bool) -> None:
    """One line for each round in which something was other than before; a folder that is away is waited for."""
    import asyncio

    from mediamill.libraries import scan_model as scans

    passing = (
        scans.ScanBusyError,
        scans.ScanFailedError,
        scans.ScanLostError,
        scans.ScanRefusedError,
        scans.LibraryPausedError,
    )
    told: Any = None
    while True:
        try:
            counts = await _scan(app, slug, accept_empty, quiet=json)
            if counts.found_changes or told is None:
                _tell_round(counts, json)
            if told != counts.warnings:
                _warn(counts)
            told = counts.warnings
        except passing as error:
            if told != error.message:
                _warn_error(error)
            told = error.message
        await asyncio.sleep(every)


def _tell_round(counts: ScanCounts, json: bool) -> None:
    if json:
        print_line(counts.as_dict())
    else:
        say(f"{time.strftime('%H:%M:%S')} {_line(counts, None)}")


def _line(counts: ScanCounts, seconds: float | None) -> Text:
    from rich.text import Text

    parts = [f"{_many(counts.files, 'file')} in {_many(counts.folders, 'folder')}"]
    parts += [f"{getattr(counts, key):,} {name}" for key, name in SHOWN.items() if getattr(counts, key)]
    if seconds is not None:
        parts.append(span(seconds))
    return Text(", ".join(parts))


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _warn(counts: ScanCounts) -> None:
    for text in counts.warnings:
        warn(text, style="yellow")


def _warn_error(error: MediamillError) -> None:
    warn(f"{error.message}; {error.fix}" if error.fix else error.message, style="yellow")

"""`mediamill videos transcript` and `download`: what is said in a video, and the file as it was uploaded."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from mediamill.cli.options import Json, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import clean, console, print_json, say, size
from mediamill.cli.video_screen import length
from mediamill.errors import ConflictError, NotFoundError

if TYPE_CHECKING:
    from mediamill.app import App
    from mediamill.videos.playback import Source

TRANSCRIPT_EXAMPLES = examples(
    "mediamill videos transcript my-holiday", "mediamill videos transcript my-holiday --vtt > captions.vtt"
)
DOWNLOAD_EXAMPLES = examples(
    "mediamill videos download my-holiday",
    "mediamill videos download my-holiday --to /tmp",
    "mediamill videos download my-holiday --to - | ffprobe -",
)
CHUNK_BYTES = 4 << 20
BAR_BYTES = 100_000_000  # less than that is copied before one could read it
NAME_BYTES = 200
Who = Annotated[str, typer.Argument(metavar="VIDEO", help="Slug or id.", show_default=False)]
NO_CAPTIONS = {
    "none": "nobody wrote down what is said in it",
    "pending": "what is said in it is still being written down",
    "silent": "nothing is said in it",
    "failed": "writing down what is said in it failed",
}


class NoTranscriptError(NotFoundError):
    """There is no transcript."""

    code = "no_transcript"


class FileThereError(ConflictError):
    """There is such a file already."""

    code = "file_there"


def show_transcript(
    who: Who,
    vtt: Annotated[bool, typer.Option("--vtt", help="As WebVTT, for players.")] = False,
    json: Json = False,
) -> None:
    """What is said in a video, with the time of each sentence."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.videos.look import find_video, show_transcript

        async with app.database.connection() as connection:
            return await show_transcript(connection, await find_video(connection, who))

    found = run(story)
    if json:
        said = found["transcript"] or {}
        print_json({"state": found["captions_state"], "error": found["captions_error"], **said})
    elif found["captions"] is None:
        why = NO_CAPTIONS.get(found["captions_state"], found["captions_state"])
        fix = f"mediamill videos retry {who}" if found["captions_state"] == "failed" else None
        raise NoTranscriptError(
            why + (f": {found['captions_error']}" if found["captions_error"] else ""), fix=fix
        )
    elif vtt:
        sys.stdout.write(found["captions"])
    else:
        _print_sentences(found["transcript"]["segments"])


def _print_sentences(segments: list[dict[str, Any]]) -> None:
    from rich.text import Text

    screen = console()
    width = max(len(length(one["start"])) for one in segments)
    for one in segments:
        begin = f"{length(one['start']):>{width}}"
        screen.print(Text.assemble((begin, "cyan"), "  ", clean(one["text"].strip())), soft_wrap=True)


def download(
    who: Who,
    to: Annotated[
        Path | None, typer.Option(help="File or folder; - is stdout. Unset: here, by its own name.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: Json = False,
) -> None:
    """Copy the file as it was uploaded."""

    async def story(app: App) -> tuple[Source, Path]:
        from mediamill.storage.choose import storage_of
        from mediamill.videos.look import find_video
        from mediamill.videos.playback import find_source

        async with app.database.connection() as connection:
            source = await find_source(connection, await find_video(connection, who))
        return source, await storage_of(app.settings).find(app.database, source.stored)

    source, path = run(story)
    with _open(path, who) as file:
        if to == Path("-"):
            _copy(file, sys.stdout.buffer)
            return
        target = _target(source, who, to)
        _save(file, target, force)
    count = target.stat().st_size
    print_json({"path": target, "bytes": count}) if json else say(f"{target} ({size(count)})")


def _open(path: Path, who: str) -> BinaryIO:
    try:
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
    except FileNotFoundError:
        raise NotFoundError(
            f"the file of {who} is not in {path.parent.parent.parent}",
            fix="run this where the server runs, or get it from there: /api/videos/…/source",
        ) from None


def _target(source: Source, who: str, to: Path | None) -> Path:
    if to is not None and not to.is_dir():
        return to
    return (to or Path()) / safe_name(source.name, f"{who}.mp4")


def safe_name(name: str, otherwise: str) -> str:
    """A file name from a stranger's: no folder, nothing hidden, nothing that steers a terminal, no option."""
    text = "".join("_" if unicodedata.category(each)[0] in "CZ" and each != " " else each for each in name)
    text = re.sub(r'[/\\:*?"<>|]', "_", text).strip(". -_")
    while len(text.encode()) > NAME_BYTES:
        text = text[1:].lstrip(". -_")
    return text or otherwise


def _save(file: BinaryIO, target: Path, force: bool) -> None:
    """Whole, or not at all: under another name until all of it is there."""
    if target.exists() and not force:
        raise FileThereError(f"{target} is there already", fix="add --force, or name another with --to")
    part = target.with_name(f".{target.name[:100]}.part")
    try:
        part.unlink(missing_ok=True)
        with part.open("xb") as out:
            _copy(file, out)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _copy(file: BinaryIO, out: BinaryIO) -> None:
    total = os.fstat(file.fileno()).st_size
    screen = console(stderr=True)
    if total < BAR_BYTES or not screen.is_terminal:
        while chunk := file.read(CHUNK_BYTES):
            out.write(chunk)
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    with Progress(
        BarColumn(), DownloadColumn(), TransferSpeedColumn(), console=screen, transient=True
    ) as progress:
        task = progress.add_task("", total=total)
        while chunk := file.read(CHUNK_BYTES):
            progress.update(task, advance=out.write(chunk))

"""`mediamill videos upload`: files to the running server; what broke off goes on with the same command."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import Json, PriorityName, examples
from mediamill.errors import InvalidError, MediamillError

if TYPE_CHECKING:
    from mediamill.client import UploadedVideo, Video
    from mediamill.client.body import Progress

EXAMPLES = examples(
    "mediamill videos upload holiday.mp4",
    'mediamill videos upload talk.mov --title "A talk" --category talks --wait',
    "mediamill videos upload *.mp4 --json",
)
PATIENCE_SECONDS = 120.0  # a server that restarts is sat out
FIRST_PATIENCE_SECONDS = 2.0  # but where none is, that is told soon
LOOK_SECONDS = 1.0


@dataclass
class Sent:
    """One file, and how far it got."""

    path: Path
    size: int
    there: int = 0


def upload(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="Videos of any usual format.", show_default=False)
    ],
    title: Annotated[
        str | None, typer.Option(help="Title. Unset: made of the file's name.", show_default=False)
    ] = None,
    description: Annotated[str | None, typer.Option(help="What it is about.", show_default=False)] = None,
    category: Annotated[str | None, typer.Option(help="Category.", show_default=False)] = None,
    priority: Annotated[PriorityName, typer.Option(help="How soon a worker takes it.")] = PriorityName.NORMAL,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until each is ready to be played.")] = False,
    json: Json = False,
) -> None:
    """Upload videos to the server that `mediamill up` runs.

    What breaks off, by Ctrl-C or otherwise, goes on from there with the same command. Exit code 1 if one failed.
    """
    from mediamill.cli.terminal import print_json

    if title is not None and len(files) > 1:
        raise InvalidError("one title does not do for several files", fix="upload them one by one")
    checked = [_check(path) for path in files]
    _find_server()
    said = {"title": title, "description": description, "category": category, "priority": priority.value}
    told = [_bring_in(each, said, wait, json) for each in checked]
    if json:
        print_json(told)
    if any(each["error"] for each in told):
        raise typer.Exit(1)


def _check(path: Path) -> Sent:
    """What the server would refuse is told before anything is sent."""
    from mediamill.media.sniff import sniff

    found = sniff(path)
    if not found.mime_type.startswith("video/"):
        raise InvalidError(f"{path.name} is no video but {found.mime_type} ({found.evidence})")
    return Sent(path, path.stat().st_size)


def _find_server() -> None:
    """By something that whoever may upload may do, too, and that does nothing: a camera's token sees no videos."""
    from mediamill.cli.message import open_client
    from mediamill.client import ProblemError

    with open_client(FIRST_PATIENCE_SECONDS) as client:
        try:
            client.retry_video("00000000-0000-0000-0000-000000000000")
        except ProblemError as error:
            if error.status != 404:
                raise


def _bring_in(sent: Sent, said: dict[str, str | None], wait: bool, json: bool) -> dict[str, Any]:
    """One file; its failure does not keep the others from it."""
    from mediamill.cli.terminal import size, warn
    from mediamill.client import NoServerError

    told: dict[str, Any] = {"file": sent.path, "bytes": sent.size, "video_id": None, "error": None}
    try:
        done = _send(sent, said)
        told |= {"video_id": done.video_id, "resumed_from": done.resumed_from, "state": "pending"}
        if not json:
            _tell_sent(sent, done)
        if wait:
            told |= _await_ready(done.video_id, json)
    except (KeyboardInterrupt, NoServerError):
        if told["video_id"] is None:
            warn(
                f"{sent.path.name}: about {size(sent.there)} of {size(sent.size)} are there; the same command goes on",
                style="yellow",
            )
        raise
    except MediamillError as error:
        told["error"] = error.message
        warn(f"error: {sent.path.name}: {error.message}", style="red")
        if error.fix:
            warn(f"  fix: {error.fix}")
    return told


def _send(sent: Sent, said: dict[str, str | None]) -> UploadedVideo:
    from mediamill.cli.message import open_client

    with open_client(PATIENCE_SECONDS) as client, _upload_bar(sent) as progress:
        return client.upload_video(sent.path, **said, progress=progress)


def _tell_sent(sent: Sent, done: UploadedVideo) -> None:
    from mediamill.cli.terminal import say, size

    resumed = f", {size(done.resumed_from)} of it were there" if done.resumed_from else ""
    say(f"{sent.path.name} is uploaded ({size(sent.size)}{resumed}): video {done.video_id}")


@contextmanager
def _upload_bar(sent: Sent) -> Iterator[Progress]:
    """With speed and the time that is left, where somebody looks."""
    from mediamill.cli.terminal import bytes_bar, one_line

    with bytes_bar() as bar:
        task = bar.add_task(one_line(sent.path.name, 20), total=sent.size)
        begun = False

        def show(there: int, total: int) -> None:
            nonlocal begun
            sent.there = there
            if begun:
                bar.update(task, completed=there)
            else:
                bar.reset(task, total=total, completed=there)  # what was there is not counted as speed
                begun = True

        yield show


def _await_ready(video_id: str, json: bool) -> dict[str, Any]:
    """Until it plays, or will never."""
    from mediamill.cli.message import open_client
    from mediamill.cli.terminal import say

    try:
        with open_client(PATIENCE_SECONDS) as client, _making_bar() as show:
            while not (video := client.video(video_id)).has_ended:
                show(video)
                time.sleep(LOOK_SECONDS)
    except KeyboardInterrupt:
        say(f"it is made without you, too; to see how far it is: mediamill videos watch {video_id}")
        raise
    if video.state == "ready" and not json:
        say(f"{video.title} is ready: mediamill videos show {video.slug}", style="green")
    if video.state != "ready":
        why = video.error or "it was deleted"
        raise MediamillError(f"it did not become a stream: {why}", fix=f"mediamill videos retry {video_id}")
    return {"state": video.state, "slug": video.slug}


@contextmanager
def _making_bar() -> Iterator[Any]:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from mediamill.cli.terminal import console

    screen = console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(20), TaskProgressColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("waiting for a worker", total=100)
        yield lambda video: bar.update(task, completed=video.percent or 0, description=_doing(video))


def _doing(video: Video) -> str:
    from mediamill.cli.terminal import clean

    if video.job_state != "running":
        return "waiting for a worker"
    return clean(str(video.step or "beginning").replace("_", " "))

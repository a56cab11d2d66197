"""`mediamill videos watch`: videos as they are made, live; one of them until it is ready, or events for scripts."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.options import examples
from mediamill.cli.session import run
from mediamill.cli.terminal import console, make_table, one_line, print_line, say
from mediamill.cli.video_screen import COLUMNS, draw_progress, length, video_row
from mediamill.cli.watch import LEAST_SECONDS
from mediamill.errors import NotFoundError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mediamill.app import App
    from mediamill.db.connection import Connection

Video = dict[str, Any]
EXAMPLES = examples(
    "mediamill videos watch", "mediamill videos watch my-holiday", "mediamill videos watch --json"
)
TOPICS = ("video.changed", "job.progress")
LARGE_ROWS = 4  # of so many at work each quality is shown


class VideoGoneError(NotFoundError):
    """The video is not there any more."""

    code = "video_gone"


def watch_videos(
    who: Annotated[
        str | None,
        typer.Argument(metavar="VIDEO", help="Follow this one until it is ready.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print each change as a line of JSON.")] = False,
) -> None:
    """Watch videos being made, until Ctrl-C.

    With a VIDEO (slug or id): until it is ready; exit code 1 if it failed.
    """
    if who is not None:
        follow_video(who, json)
    elif json:
        run(_print_events)
    else:
        run(_watch_all)


def follow_video(who: str, json: bool) -> None:
    """Show one video as it is made, to its end."""
    video = run(lambda app: _follow(app, who, json))
    if not json:
        _tell_end(video)
    raise typer.Exit(0 if video["state"] == "ready" and not video["error"] else 1)


def _tell_end(video: Video) -> None:
    if video["deleted_at"] is not None:
        say(f"{video['title']} is in the trash: mediamill videos restore {video['slug']}", style="yellow")
    elif video["error"]:
        what = f"the retranscode of {video['title']}" if video["state"] == "ready" else video["title"]
        say(f"{what} failed: {one_line(video['error'], 300)}", style="red")
        say(f"  fix: mediamill videos retry {video['slug']}")
    else:
        names = ", ".join(row["quality"] for row in video["qualities"] if row["state"] == "completed")
        say(f"{video['title']} is ready: {length(video['duration_seconds'])}, {names}", style="green")


async def _follow(app: App, who: str, json: bool) -> Video:
    """By its id, once it is found: the slug may change meanwhile."""
    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups
    from mediamill.videos.look import find_video

    async with app.database.connection() as connection:
        video_id = await find_video(connection, who)
    async with wakeups(app) as wait:
        with _screen(json) as show:
            while True:
                video = await read_patiently(app, lambda connection: _show(connection, str(video_id)))
                show(video)
                if has_ended(video):
                    return video
                await wait(POLL_SECONDS)


def has_ended(video: Video) -> bool:
    """Nothing more comes, unless somebody wants it."""
    return video["deleted_at"] is not None or (
        video["state"] in ("ready", "failed") and video["job_id"] is None
    )


async def _show(connection: Connection, who: str) -> Video:
    from mediamill.videos.look import show_video

    try:
        return await show_video(connection, who)
    except NotFoundError as error:
        raise VideoGoneError("the video was erased meanwhile") from error


def _screen(json: bool) -> Any:
    return _Lines() if json else _Live()


class _Lines:
    """One line of JSON for each change."""

    def __init__(self) -> None:
        self._last: Video | None = None

    def __enter__(self) -> Any:
        return self._show

    def __exit__(self, *_: object) -> None:
        return None

    def _show(self, video: Video) -> None:
        if video != self._last:
            print_line(video)
        self._last = video


class _Live:
    """Drawn in place; on anything but a terminal, only how it ended."""

    def __enter__(self) -> Any:
        from rich.live import Live

        screen = console()
        self._live = Live(console=screen, auto_refresh=False, transient=not screen.is_terminal)
        self._live.start()
        return self._show

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _show(self, video: Video) -> None:
        self._live.update(draw_progress(video), refresh=True)


async def _print_events(app: App) -> None:
    from mediamill.cli.follow import follow_events

    async with aclosing(follow_events(app, None)) as events:
        async for event in events:
            if event.topic == TOPICS[0] or (
                event.topic == TOPICS[1] and "video." in str(event.data.get("kind"))
            ):
                said = {"id": event.id, "topic": event.topic, "subject": event.subject, "data": event.data}
                print_line(said)


async def _watch_all(app: App) -> None:
    import asyncio

    from rich.live import Live

    from mediamill.cli.follow import POLL_SECONDS, read_patiently, wakeups

    screen = console()
    async with wakeups(app) as wait:
        with Live(console=screen, auto_refresh=False) as live:
            while True:
                rows = max(5, screen.height - 6)
                videos = await read_patiently(app, lambda connection: _read(connection, rows))  # noqa: B023
                live.update(_draw(videos, rows), refresh=True)
                await asyncio.sleep(LEAST_SECONDS)
                await wait(POLL_SECONDS)


async def _read(connection: Connection, rows: int) -> list[Video]:
    """What is made and what waits first, then the newest."""
    from mediamill.videos.look import list_videos

    found: dict[str, Video] = {}
    for state in ("processing", "pending", None):
        for video in await list_videos(connection, state=state, amount=rows):
            found.setdefault(video["id"], video)
    return list(found.values())[:rows]


def _draw(videos: list[Video], rows: int) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    if not videos:
        return Text("no videos yet; mediamill videos upload FILE brings one in", style="dim")
    at_work = [video for video in videos if video["state"] == "processing"][:LARGE_ROWS]
    left = max(3, rows - sum(3 + len(video["qualities"]) for video in at_work))
    parts: list[RenderableType] = []
    for video in at_work:
        parts += [draw_progress(video), Text("")]
    others = [video for video in videos if video not in at_work][:left]
    parts += [make_table(COLUMNS, [video_row(video) for video in others])] if others else []
    return Group(*parts, Text("Ctrl-C ends", style="dim"))

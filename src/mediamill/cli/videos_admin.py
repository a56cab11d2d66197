"""`mediamill videos`: list, show, edit, retry, retranscode; to the trash and back; watching has a file of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli import video_files, video_watch
from mediamill.cli.jobs import raise_all
from mediamill.cli.options import Json, PriorityName, Yes, confirm, examples
from mediamill.cli.session import run
from mediamill.cli.terminal import plural, print_fields, print_json, print_table, say, warn
from mediamill.cli.video_files import Who
from mediamill.cli.video_screen import COLUMNS, QUALITY_COLUMNS, quality_rows, video_fields, video_row
from mediamill.errors import MediamillError

if TYPE_CHECKING:
    from uuid import UUID

    from mediamill.app import App
    from mediamill.db.connection import Connection

Verb = Callable[["App", "Connection", "UUID"], Awaitable[None]]
Whos = Annotated[list[str], typer.Argument(metavar="VIDEO…", help="Slugs or ids.", show_default=False)]


class VideoState(StrEnum):
    """How a video can be."""

    PENDING = "pending"
    PROCESSING = "processing"
    READY = "ready"
    FAILED = "failed"


def add_commands(app: typer.Typer) -> None:
    """All of them, to the group of videos."""
    for name, (command, epilog) in COMMANDS.items():
        app.command(name, epilog=epilog)(command)


def list_videos(
    state: Annotated[VideoState | None, typer.Option(help="Only videos in this state.")] = None,
    category: Annotated[str | None, typer.Option(help="Only videos of this category.")] = None,
    words: Annotated[
        str | None, typer.Option("--words", "-q", help="In title, description, category, or what is said.")
    ] = None,
    trash: Annotated[bool, typer.Option("--trash", help="Those that were deleted.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Show at most so many.")] = 50,
    before: Annotated[
        str | None, typer.Option(metavar="VIDEO", help="Only videos older than this one: to page on.")
    ] = None,
    json: Json = False,
) -> None:
    """Videos, newest first."""

    async def story(app: App) -> list[dict[str, Any]]:
        from mediamill.videos import look

        async with app.database.connection() as connection:
            older = None if before is None else await look.find_video(connection, before)
            return await look.list_videos(
                connection,
                state=state,
                category=category,
                words=words,
                trash=trash,
                before=older,
                amount=limit,
            )

    videos = run(story)
    if json:
        print_json(videos)
        return
    narrowed = state or category or words or before
    none = "the trash is empty" if trash else "no videos yet; mediamill videos upload FILE brings one in"
    print_table(COLUMNS, [video_row(video) for video in videos], "no such videos" if narrowed else none)
    if len(videos) == limit:
        warn(f"there may be more: add --before {videos[-1]['slug']}", style="dim")


def show_video(
    who: Who,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Live, until it is ready.")] = False,
    json: Json = False,
) -> None:
    """One video: what is known of it, and how far each quality is."""
    if follow:
        video_watch.follow_video(who, json)
        return

    async def story(app: App) -> dict[str, Any]:
        from mediamill.videos.look import show_video

        async with app.database.connection() as connection:
            return await show_video(connection, who)

    video = run(story)
    print_json(video) if json else _print_video(video)


def _print_video(video: dict[str, Any]) -> None:
    print_fields(video_fields(video))
    if video["qualities"]:
        say("")
        print_table(QUALITY_COLUMNS, quality_rows(video), "")


def edit_video(
    who: Who,
    title: Annotated[str | None, typer.Option(help="Its title.")] = None,
    description: Annotated[str | None, typer.Option(help="What it is about.")] = None,
    category: Annotated[str | None, typer.Option(help='Its category; "" takes it out.')] = None,
    slug: Annotated[str | None, typer.Option(help="Its name in addresses and commands.")] = None,
    json: Json = False,
) -> None:
    """Change the title, description, category or slug; what is not named stays."""
    from mediamill.errors import InvalidError

    if title is None and description is None and category is None and slug is None:
        raise InvalidError(
            "nothing is to be changed", fix="name --title, --description, --category or --slug"
        )

    async def story(app: App) -> dict[str, Any]:
        from mediamill.videos import look
        from mediamill.videos.edit import edit_video

        async with app.database.transaction() as connection:
            video_id = await look.find_video(connection, who)
            await edit_video(
                connection, video_id, title=title, description=description, category=category, slug=slug
            )
            return await look.show_video(connection, video_id)

    video = run(story)
    print_json(video) if json else _print_video(video)


def retry_videos(whos: Whos, json: Json = False) -> None:
    """Try again what failed: the stream, the captions, or both."""

    async def retry(app: App, connection: Connection, video_id: UUID) -> None:
        from mediamill.videos.again import retry_video

        await retry_video(connection, app.engine, app.enqueuer, app.settings, video_id)

    _each(whos, retry, "queued again", json)


def retranscode_videos(
    whos: Whos,
    quality: Annotated[
        list[str] | None,
        typer.Option("--quality", "-q", help="Only this one; can be given several times. Unset: all."),
    ] = None,
    transcript: Annotated[bool, typer.Option("--transcript", help="The captions, too.")] = False,
    priority: Annotated[
        PriorityName, typer.Option(help="low: after videos that cannot be played yet.")
    ] = PriorityName.LOW,
    json: Json = False,
) -> None:
    """Make qualities anew, or all of them. What is there plays until the new stream is ready."""

    async def again(app: App, connection: Connection, video_id: UUID) -> None:
        from mediamill.engine.priority import read_priority
        from mediamill.videos.again import retranscode_video

        await retranscode_video(
            connection,
            app.enqueuer,
            app.settings,
            video_id,
            quality or None,
            transcript=transcript,
            priority=read_priority(priority),
        )

    _each(whos, again, "to be made anew", json)


def set_priority(
    priority: Annotated[PriorityName, typer.Argument(help="How soon they are claimed.", show_default=False)],
    whos: Whos,
    json: Json = False,
) -> None:
    """Have videos that wait claimed sooner or later than others."""

    async def change(_app: App, connection: Connection, video_id: UUID) -> None:
        from mediamill.engine.priority import read_priority
        from mediamill.videos.edit import set_video_priority

        await set_video_priority(connection, video_id, read_priority(priority))

    _each(whos, change, f"at {priority} priority", json)


def delete_videos(whos: Whos, json: Json = False) -> None:
    """To the trash. They can be restored from there."""

    async def delete(_app: App, connection: Connection, video_id: UUID) -> None:
        from mediamill.videos.trash import delete_video

        await delete_video(connection, video_id)

    _each(whos, delete, "in the trash", json)


def restore_videos(whos: Whos, json: Json = False) -> None:
    """Back from the trash."""

    async def restore(_app: App, connection: Connection, video_id: UUID) -> None:
        from mediamill.videos.trash import restore_video

        await restore_video(connection, video_id)

    _each(whos, restore, "restored", json)


def erase_videos(whos: Whos, yes: Yes = False, json: Json = False) -> None:
    """Erase videos that are in the trash, for good, with their files."""
    confirm(f"Erase {plural(len(whos), 'video')} with all files, for good?", yes)

    async def erase(app: App, connection: Connection, video_id: UUID) -> None:
        from mediamill.storage.choose import storage_of
        from mediamill.videos.trash import erase_video

        await erase_video(connection, storage_of(app.settings), video_id)

    _each(whos, erase, "erased", json)


def empty_trash(yes: Yes = False, json: Json = False) -> None:
    """Erase all that is in the trash, for good."""
    confirm("Erase every video in the trash with all files, for good?", yes)

    async def story(app: App) -> int:
        from mediamill.storage.choose import storage_of
        from mediamill.videos.trash import empty_trash

        return await empty_trash(app.database, storage_of(app.settings))

    erased = run(story)
    print_json({"erased": erased}) if json else say(f"{plural(erased, 'video')} erased")


def _each(whos: list[str], verb: Verb, done_word: str, json: bool) -> None:
    """Each in a transaction of its own; one that is refused does not keep the others from it."""

    async def story(app: App) -> tuple[list[str], list[MediamillError]]:
        from mediamill.videos.look import find_video

        done, refused = [], []
        for who in dict.fromkeys(whos):
            try:
                async with app.database.transaction() as connection:
                    await verb(app, connection, await find_video(connection, who))
                done.append(who)
            except MediamillError as error:
                refused.append(type(error)(f"{who}: {error.message}", fix=error.fix))
        return done, refused

    done, refused = run(story)
    if json:
        print_json({"done": done, "refused": [error.message for error in refused]})
    elif done:
        say(f"{plural(len(done), 'video')} {done_word}: {', '.join(done)}")
    raise_all(refused)


COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "list": (
        list_videos,
        examples(
            "mediamill videos list --state failed",
            "mediamill videos list -q lighthouse",
            "mediamill videos list --trash --json",
        ),
    ),
    "show": (
        show_video,
        examples("mediamill videos show my-holiday", "mediamill videos show my-holiday --follow"),
    ),
    "watch": (video_watch.watch_videos, video_watch.EXAMPLES),
    "edit": (
        edit_video,
        examples('mediamill videos edit my-holiday --title "A week at the sea" --category holidays'),
    ),
    "retry": (retry_videos, examples("mediamill videos retry my-holiday")),
    "retranscode": (
        retranscode_videos,
        examples(
            "mediamill videos retranscode my-holiday",
            "mediamill videos retranscode my-holiday -q 1080p -q 720p",
        ),
    ),
    "priority": (set_priority, examples("mediamill videos priority high my-holiday")),
    "transcript": (video_files.show_transcript, video_files.TRANSCRIPT_EXAMPLES),
    "download": (video_files.download, video_files.DOWNLOAD_EXAMPLES),
    "delete": (delete_videos, examples("mediamill videos delete my-holiday old-one")),
    "restore": (restore_videos, examples("mediamill videos restore my-holiday")),
    "erase": (erase_videos, examples("mediamill videos erase my-holiday --yes")),
    "empty-trash": (empty_trash, examples("mediamill videos empty-trash --yes")),
}

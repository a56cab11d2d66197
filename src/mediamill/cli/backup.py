"""`mediamill backup` and `mediamill restore`: everything out to a folder, and back in again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from mediamill.cli.options import Json, Yes, confirm, examples
from mediamill.cli.terminal import bytes_bar, plural, print_json, say, size, warn

if TYPE_CHECKING:
    from mediamill.backup.copying import Progress
    from mediamill.backup.make import Made
    from mediamill.backup.model import Manifest
    from mediamill.settings import Settings

MAKE = "create"
RESTORE_EXAMPLES = examples(
    "mediamill restore /backups",
    "MEDIAMILL_DATA=/srv/mediamill mediamill restore /backups/20261116T030000.000000Z --yes",
)
Source = Annotated[
    Path,
    typer.Argument(metavar="SRC", help="A backup, or the folder of several: then the last of them."),
]


class _Group(TyperGroup):
    """`mediamill backup DEST` is `mediamill backup create DEST`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h"):
            args = [MAKE, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    help="Database and files out to a folder. `mediamill backup DEST` is `mediamill backup create DEST`.",
)


@app.command(MAKE, epilog=examples("mediamill backup create /backups", "mediamill backup /backups --json"))
def create_backup(
    destination: Annotated[
        Path,
        typer.Argument(metavar="DEST", help="The folder of backups; a new one is made in it."),
    ],
    files: Annotated[
        bool,
        typer.Option("--files/--no-files", help="Also the files of the data folder, not only the database."),
    ] = True,
    json: Json = False,
) -> None:
    """Make a backup, while everything runs on. What did not change since the last one in DEST takes no new room.

    It holds chats, keys of sessions and tokens: its files are for your eyes only. A backup that is cut off is never
    taken for a whole one, and the next one goes on from what it copied.
    """

    async def story(settings: Settings, url: str) -> Made:
        from mediamill.backup.make import make_backup
        from mediamill.backup.marker import check_whole

        check_whole(settings.data_folder)
        with _bar(json, _last_bytes(destination)) as show:
            return await make_backup(url, settings.data_folder, destination, files=files, show=show)

    made = _run(story)
    manifest = made.manifest
    if json:
        print_json(
            {
                **_facts(made.folder, manifest),
                "copied_files": made.copied_files,
                "copied_bytes": made.copied_bytes,
            }
        )
        return
    say(f"{made.folder}: {_text(manifest)}; copied {size(made.copied_bytes)}")
    from mediamill.settings import Settings

    if (bucket := Settings().bucket) is not None:
        warn(
            f"files in the bucket {bucket} are not copied: docs/how-to/buckets.md says how they last",
            style="yellow",
        )
    for name in manifest.left_out:
        warn(f"not in the backup, because it is no plain file: {name}", style="yellow")


@app.command("verify", epilog=examples("mediamill backup verify /backups"))
def verify(source: Source, json: Json = False) -> None:
    """Read a backup to its last byte and compare it with its manifest. Exit code 1: something is wrong with it."""
    from mediamill.backup.copying import Progress
    from mediamill.backup.shelf import find_backup
    from mediamill.backup.verify import verify_backup

    folder = find_backup(source)
    with _bar(json, _last_bytes(folder)) as show:
        found = verify_backup(folder, Progress(lambda far: show("reading", far)))
    if json:
        print_json({**_facts(folder, found.manifest), "faults": found.faults})
    else:
        for fault in found.faults:
            say(fault, style="red")
        say(f"{folder}: {_text(found.manifest)}; {'damaged' if found.faults else 'all of it is as it was'}")
    if found.faults:
        raise typer.Exit(1)


def restore(
    source: Source,
    answer: Annotated[
        bool,
        typer.Option(
            "--answer",
            help="Send the answers that were due. Only if the server had been stopped before the backup: "
            "otherwise they may have been sent since.",
        ),
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Bring a backup into an empty data folder (and an empty database), all of it or nothing.

    A restore that is cut off goes on with the same command. An older schema is brought up to date. The server that the
    backup comes from must not run any more: two of them would answer in the same chats.
    """

    async def story(settings: Settings) -> tuple[Path, Manifest]:
        from mediamill.access.restored import log_everybody_out
        from mediamill.app import database_url
        from mediamill.backup.restore import restore_backup
        from mediamill.backup.shelf import find_backup
        from mediamill.conversations.restored import stop_replies

        folder = find_backup(source)
        confirm(f"Restore {folder} into {settings.data_folder}?", yes)
        with _bar(json, _last_bytes(folder)) as show:
            manifest = await restore_backup(
                database_url(settings),
                settings.data_folder,
                folder,
                afterwards=[log_everybody_out, *([] if answer else [stop_replies])],
                show=show,
            )
        return folder, manifest

    folder, manifest = _run_alone(story)
    if json:
        print_json(_facts(folder, manifest))
    else:
        say(f"restored: {_text(manifest)}, as of {manifest.made_at:%Y-%m-%d %H:%M:%S} UTC")
        say("  `mediamill up` goes on from there")


def _run(story: Callable[[Settings, str], Awaitable[Any]]) -> Any:
    """With the address of the database, which is not migrated."""

    async def with_database(settings: Settings) -> Any:
        from mediamill.cli.session import opened_database

        async with opened_database(settings) as database:
            return await story(settings, database.url)

    return _run_alone(with_database)


def _run_alone(story: Callable[[Settings], Awaitable[Any]]) -> Any:
    import asyncio

    from mediamill.settings import Settings

    async def run() -> Any:
        return await story(Settings())

    return asyncio.run(run())


def _facts(folder: Path, manifest: Manifest) -> dict[str, Any]:
    files = manifest.files
    return {
        "backup": folder,
        "made_at": manifest.made_at,
        "mediamill": manifest.mediamill,
        "schema": manifest.schema_revision,
        "database_bytes": manifest.database.bytes,
        "files": files.count if files else None,
        "bytes": files.total_bytes if files else None,
        "left_out": manifest.left_out,
    }


def _text(manifest: Manifest) -> str:
    database = f"the database ({size(manifest.database.bytes)}, schema {manifest.schema_revision})"
    if manifest.files is None:
        return f"{database}, no files"
    return f"{database} and {plural(manifest.files.count, 'file')} ({size(manifest.files.total_bytes)})"


def _last_bytes(folder: Path) -> int | None:
    """How much it will be, as far as an earlier backup tells."""
    from mediamill.backup.model import read_manifest
    from mediamill.backup.shelf import find_backup
    from mediamill.errors import MediamillError

    try:
        files = read_manifest(find_backup(folder)).files
    except (MediamillError, OSError):
        return None
    return files.total_bytes if files else None


@contextmanager
def _bar(json: bool, total: int | None) -> Iterator[Callable[[str, Progress], None]]:
    """How far it is, where somebody looks. Without an earlier backup nobody knows how far it is to the end."""
    with bytes_bar(hidden=json) as bar:
        tasks: dict[str, Any] = {}

        def show(what: str, far: Progress) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total if "file" in what or what == "reading" else None)
            bar.update(tasks[what], completed=far.bytes)

        yield show

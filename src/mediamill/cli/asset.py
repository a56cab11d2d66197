"""`mediamill asset`: the images and videos of libraries."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mediamill.cli.jobs import raise_all
from mediamill.cli.library_screen import (
    ASSET_COLUMNS,
    FRAME_COLUMNS,
    SCENE_COLUMNS,
    asset_fields,
    asset_row,
    frame_row,
    scene_row,
)
from mediamill.cli.options import LARGEST_ID, Json, examples
from mediamill.cli.paged import After, Amount, print_pages, read_pages
from mediamill.cli.session import run
from mediamill.cli.terminal import plural, print_fields, print_json, print_table, say, warn
from mediamill.errors import InvalidError, MediamillError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mediamill.app import App
    from mediamill.db.connection import Connection

app = typer.Typer(no_args_is_help=True, help="Assets: the images and videos of libraries.")

MOST_ROWS = 50
Id = Annotated[
    int, typer.Argument(min=1, max=LARGEST_ID, metavar="ID", help="The asset's id.", show_default=False)
]


class AssetType(StrEnum):
    """What it is."""

    IMAGE = "image"
    VIDEO = "video"


class AssetStatus(StrEnum):
    """How far it is."""

    PENDING = "pending"
    EXTRACTING = "extracting"
    PROXIED = "proxied"
    ANALYZING = "analyzing"
    COMPLETED = "completed"
    FAILED = "failed"
    POISONED = "poisoned"


class What(StrEnum):
    """What is made again."""

    ALL = "all"
    IMAGES = "images"
    RAW = "raw"
    VIDEOS = "videos"


class AssetOrder(StrEnum):
    """Which comes first."""

    NEWEST = "newest"
    PATH = "path"


@app.command(
    "list",
    epilog=examples(
        "mediamill asset list photos",
        "mediamill asset list photos --status failed --json",
        "mediamill asset list photos --type video --order path --amount 500",
    ),
)
def list_assets(
    slug: Annotated[str, typer.Argument(metavar="SLUG", help="The library.", show_default=False)],
    type_: Annotated[AssetType | None, typer.Option("--type", help="Only these.")] = None,
    status: Annotated[AssetStatus | None, typer.Option(help="Only those that are so far.")] = None,
    order: Annotated[AssetOrder, typer.Option(help="Which comes first.")] = AssetOrder.NEWEST,
    month: Annotated[
        str | None, typer.Option(metavar="2024-05", help="Only those of this month (UTC).")
    ] = None,
    gone: Annotated[bool, typer.Option("--gone", help="Those that the last scan did not find.")] = False,
    amount: Amount = 50,
    after: After = None,
    json: Json = False,
) -> None:
    """Assets of a library, newest first or by path."""
    wanted: dict[str, Any] = {
        "type": type_,
        "status": status,
        "order": order.value,
        "month": month,
        "vanished": gone,
    }

    async def story(app: App) -> dict[str, Any]:
        from mediamill.libraries.assets import list_assets

        async with app.database.connection() as connection:

            async def read(place: str | None, most: int) -> dict[str, Any]:
                return await list_assets(connection, slug, **wanted, after=place, amount=most)

            return await read_pages("assets", read, after, amount)

    told = run(story)
    narrowed = type_ or status or month or gone or after
    none = "no such assets" if narrowed else f"nothing is in it yet; mediamill scan {slug} looks for it"
    print_pages(told, ASSET_COLUMNS, asset_row, none, json=json)


@app.command("show", epilog=examples("mediamill asset show 12", "mediamill asset show 12 --json"))
def show_asset(asset_id: Id, json: Json = False) -> None:
    """One asset: facts, tags and who gave them, the scenes or frames of a video."""

    async def story(app: App) -> dict[str, Any]:
        from mediamill.libraries.assets import show_asset

        async with app.database.connection() as connection:
            return await show_asset(connection, asset_id)

    asset = run(story)
    if json:
        print_json(asset)
        return
    print_fields(asset_fields(asset))
    for columns, row, moments in (
        (SCENE_COLUMNS, scene_row, asset["scenes"]),
        (FRAME_COLUMNS, frame_row, asset["frames"]),
    ):
        if moments:
            say("")
            print_table(columns, [row(each) for each in moments[:MOST_ROWS]], "")
        if len(moments) > MOST_ROWS:
            warn(f"and {len(moments) - MOST_ROWS} more: --json has all of them", style="dim")


@app.command(
    "retry",
    epilog=examples("mediamill asset retry 12 13", "mediamill asset retry --all-failed photos"),
)
def retry_assets(
    ids: Annotated[
        list[int] | None,
        typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of assets.", show_default=False),
    ] = None,
    all_failed: Annotated[
        str | None, typer.Option("--all-failed", metavar="SLUG", help="All of this library that failed.")
    ] = None,
    json: Json = False,
) -> None:
    """Try again what failed or was given up, as if it had never been tried."""
    if bool(ids) == bool(all_failed):
        raise InvalidError("nothing is named, or too much", fix="name ids, or --all-failed SLUG")
    retried, refused = run(lambda app: _retry_all(app, all_failed) if all_failed else _retry(app, ids or []))
    if json:
        print_json({"retried": retried, "refused": [error.message for error in refused]})
    elif retried or not refused:
        say(f"{plural(retried, 'asset')} {'waits' if retried == 1 else 'wait'} again")
    raise_all(refused)


@app.command(
    "remake",
    epilog=examples(
        "mediamill asset remake 12",
        "mediamill asset remake --all photos --only raw",
        "mediamill asset remake --all films",
    ),
)
def remake_assets(
    ids: Annotated[
        list[int] | None,
        typer.Argument(min=1, max=LARGEST_ID, metavar="ID…", help="Ids of assets.", show_default=False),
    ] = None,
    all_of: Annotated[
        str | None, typer.Option("--all", metavar="SLUG", help="All of this library that are done or failed.")
    ] = None,
    only: Annotated[What, typer.Option(help="With --all: which of them.")] = What.ALL,
    json: Json = False,
) -> None:
    """Make again what is there, by the settings of its library as they are now. Each file is read once more."""
    if bool(ids) == bool(all_of):
        raise InvalidError("nothing is named, or too much", fix="name ids, or --all SLUG")
    remade, refused = run(lambda app: _remake_all(app, all_of, only) if all_of else _remake(app, ids or []))
    if json:
        print_json({"remade": remade, "refused": [error.message for error in refused]})
    elif remade or not refused:
        say(f"{plural(remade, 'asset')} {'is' if remade == 1 else 'are'} made again")
    raise_all(refused)


async def _remake(app: App, ids: list[int]) -> tuple[int, list[MediamillError]]:
    from mediamill.libraries.remake import remake_asset

    return await _each(app, remake_asset, ids)


async def _remake_all(app: App, slug: str, only: What) -> tuple[int, list[MediamillError]]:
    from mediamill.libraries.remake import remake_some

    remade, after = 0, 0
    while True:
        async with app.database.transaction() as connection:
            some, end = await remake_some(connection, slug, only.value, after)
        remade += some
        if end is None:
            return remade, []
        after = end


async def _retry(app: App, ids: list[int]) -> tuple[int, list[MediamillError]]:
    from mediamill.libraries.retry import retry_asset

    return await _each(app, retry_asset, ids)


async def _each(
    app: App, verb: Callable[[Connection, int], Awaitable[None]], ids: list[int]
) -> tuple[int, list[MediamillError]]:
    """Each in a transaction of its own; one that is refused does not keep the others from it."""
    done, refused = 0, []
    for asset_id in dict.fromkeys(ids):
        try:
            async with app.database.transaction() as connection:
                await verb(connection, asset_id)
            done += 1
        except MediamillError as error:
            refused.append(error)
    return done, refused


async def _retry_all(app: App, slug: str) -> tuple[int, list[MediamillError]]:
    """Until fewer than a batch are left: what fails again meanwhile is not tried for ever."""
    from mediamill.libraries.retry import RETRIED_AT_ONCE, retry_failed

    retried, some = 0, RETRIED_AT_ONCE
    while some == RETRIED_AT_ONCE:
        async with app.database.transaction() as connection:
            some = await retry_failed(connection, slug)
        retried += some
    return retried, []

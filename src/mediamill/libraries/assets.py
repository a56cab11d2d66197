"""Assets: page by page, one with all there is to know of it, and its files.

A page costs the same among millions: in the order of time each type and status is a stretch of one index, and the
page is merged from them; in the order of paths only so many are looked at, so a page there may be short.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, Literal

from asyncpg import Record

from mediamill.db.connection import Connection
from mediamill.errors import InvalidError, NotFoundError
from mediamill.libraries.cursors import (
    NEWEST,
    OLDEST,
    Place,
    read_month,
    read_path,
    read_place,
    write_path,
    write_place,
)
from mediamill.libraries.look import find_library
from mediamill.libraries.model import STATUSES, TYPES, UnknownAssetError, output_folder
from mediamill.libraries.store import queries
from mediamill.staging.file_names import shown

Order = Literal["newest", "path"]
WALK = 50_000  # paths that one page looks at
MOST_MOMENTS = 5_000  # scenes or frames of one video that are shown
_OUTPUT = re.compile(r"\d{1,19}-\d{1,19}")
_FILE = re.compile(r"preview\.webp|thumbnail\.jpg|clip\.mp4|scene-\d{5}\.jpg|frame-\d{9}\.jpg")


class BadListError(InvalidError):
    """Assets cannot be listed like that."""

    code = "bad_list"


class NoSuchAssetFileError(NotFoundError):
    """The asset has no such file."""

    code = "no_such_file"


async def list_assets(
    connection: Connection,
    slug: str,
    *,
    type: str | None = None,
    status: str | None = None,
    order: Order = "newest",
    after: str | None = None,
    before: str | None = None,
    month: str | None = None,
    amount: int = 100,
    vanished: bool = False,
) -> dict[str, Any]:
    """A page: `assets`, and the places `next` and `previous` to go on from; None where there is nothing more.

    `vanished`: those that the last scan did not find, instead of those that are there.
    """
    library = (await find_library(connection, slug))["number"]
    wanted = {"library": library, "types": _one_of(TYPES, type), "statuses": _one_of(STATUSES, status)}
    if after and before:
        raise BadListError("a page begins after a place or ends before one, not both")
    if order == "path":
        if before or month:
            raise BadListError("by path there is neither `before` nor `month`", fix="use the order newest")
        return await _list_by_path(connection, wanted, after, amount, vanished=vanished)
    if vanished and (before or month):
        raise BadListError("of what vanished there is neither `before` nor `month`")
    return await _list_by_time(connection, wanted, after, before, month, amount, vanished=vanished)


async def show_asset(connection: Connection, asset_id: int) -> dict[str, Any]:
    """One, with its scenes or frames, the job at hand, and its neighbours: `newer` and `older`."""
    row = await queries.show_asset.row(connection, id=asset_id)
    if row is None:
        raise UnknownAssetError(f"there is no asset {asset_id}", fix="mediamill asset list shows them")
    told = _plain(row)
    told |= {
        "tags": _read(row["tags"]) or [],
        "facts": _read(row["facts"]) or {},
        "job": _job(row),
        "scenes": [],
        "frames": [],
        **await _neighbours(connection, row),
    }
    if row["type"] == "video":
        many = {"asset_id": asset_id, "amount": MOST_MOMENTS}
        told["scenes"] = [_scene(one, row) for one in await queries.scenes_of.rows(connection, **many)]
        told["frames"] = [_frame(one, row) for one in await queries.frames_of.rows(connection, **many)]
    return told


async def names_of_assets(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """The paths of many in their libraries; those of a library in the trash are not in it."""
    return {
        row["id"]: row["rel_path"] for row in await queries.names_of_assets.rows(connection, ids=list(ids))
    }


async def asset_file(connection: Connection, asset_id: int, output: str, name: str) -> PurePosixPath:
    """Where one of its derivatives is, relative to the data folder; whether it is there is for the reader to see."""
    if not _OUTPUT.fullmatch(output) or not _FILE.fullmatch(name):
        raise NoSuchAssetFileError
    await find_asset(connection, asset_id)
    return output_folder(asset_id, output) / name


async def asset_source(connection: Connection, asset_id: int) -> tuple[str, str]:
    """The library's folder, and the path of the file in it: for staging.inputs.find_inside."""
    row = await find_asset(connection, asset_id)
    return row["absolute_path"], row["rel_path"]


async def find_asset(connection: Connection, asset_id: int) -> Record:
    """Its row; those of a library in the trash are not there."""
    row = await queries.find_asset.row(connection, id=asset_id)
    if row is None:
        raise UnknownAssetError(f"there is no asset {asset_id}", fix="mediamill asset list shows them")
    return row


async def _list_by_time(
    connection: Connection,
    wanted: dict[str, Any],
    after: str | None,
    before: str | None,
    month: str | None,
    amount: int,
    *,
    vanished: bool,
) -> dict[str, Any]:
    until, since = read_month(month) if month else (NEWEST, OLDEST)
    if after:
        until = _nearer(until, read_place(after), min)
    if before:
        since = _nearer(since, read_place(before), max)
    bounds = {**wanted, "until": until.shown_at, "until_id": until.id, "amount": amount + 1}
    if vanished:
        rows = await queries.list_vanished.rows(connection, **bounds)
    else:
        statement = queries.list_newer if before else queries.list_older
        rows = await statement.rows(connection, **bounds, since=since.shown_at, since_id=since.id)
    more, rows = len(rows) > amount, rows[:amount]
    if before:
        rows.reverse()
    return {
        "assets": await _show_page(connection, rows),
        "next": _place_of(rows[-1]) if rows and (more or before) else None,
        "previous": _place_of(rows[0]) if rows and not vanished and (after or (before and more)) else None,
    }


async def _list_by_path(
    connection: Connection, wanted: dict[str, Any], after: str | None, amount: int, *, vanished: bool
) -> dict[str, Any]:
    path = read_path(after) if after else ""
    rows = await queries.list_by_path.rows(
        connection, **wanted, path=path, walk=WALK, vanished=vanished, amount=amount + 1
    )
    if len(rows) > amount:
        end = rows[amount - 1]["rel_path"]
    else:
        end = await queries.walked_to.value(connection, library=wanted["library"], path=path, walk=WALK)
    return {
        "assets": await _show_page(connection, rows[:amount]),
        "next": write_path(end) if end is not None else None,
        "previous": None,
    }


async def _show_page(connection: Connection, rows: Sequence[Record]) -> list[dict[str, Any]]:
    """What was erased in this moment is left out."""
    page = await queries.show_page.rows(connection, ids=[row["id"] for row in rows])
    return [_plain(row) for row in page]


async def _neighbours(connection: Connection, row: Record) -> dict[str, int | None]:
    """The ids of the one before and the one after it, newest first."""
    wanted = {"library": row["library"], "types": list(TYPES), "statuses": list(STATUSES), "amount": 1}
    newer = await queries.list_newer.row(
        connection, **wanted, until=None, until_id=NEWEST.id, since=row["shown_at"], since_id=row["id"]
    )
    older = await queries.list_older.row(
        connection, **wanted, until=row["shown_at"], until_id=row["id"], since=None, since_id=OLDEST.id
    )
    return {"newer": newer["id"] if newer else None, "older": older["id"] if older else None}


def _one_of(known: Sequence[str], wanted: str | None) -> list[str]:
    if wanted is None:
        return list(known)
    if wanted not in known:
        raise BadListError(f"{wanted[:50]!r} is none of {', '.join(known)}")
    return [wanted]


def _nearer(bound: Place, place: Place, choose: Any) -> Place:
    """The one of two bounds that leaves less."""
    if bound.shown_at is None:
        return place
    chosen: Place = choose(bound, place)
    return chosen


def _place_of(row: Record) -> str:
    return write_place(Place(row["shown_at"], row["id"]))


def _plain(row: Record) -> dict[str, Any]:
    """For the list, and the beginning of one: with addresses of its files, and its name as people can read it."""
    hidden = ("video_preview_path", "library", "job_id", "tags", "facts", *_JOB)
    told = {name: value for name, value in row.items() if name not in hidden}
    path = shown(row["rel_path"])
    told |= {"path": path, "name": path.rpartition("/")[2]}
    told |= {"thumbnail_url": None, "preview_url": None, "clip_url": None}
    if row["output"] is not None:
        told["thumbnail_url"] = file_url(row["id"], row["output"], "thumbnail.jpg")
        told["preview_url"] = file_url(row["id"], row["output"], "preview.webp")
        told["clip_url"] = (
            file_url(row["id"], row["output"], "clip.mp4") if row["video_preview_path"] else None
        )
    return told


def file_url(asset_id: int, output: str, name: str) -> str:
    """Where a derivative is read from; another output has another address, so what is there never changes."""
    return f"/api/assets/{asset_id}/files/{output}/{name}"


_JOB = ("job_kind", "job_state", "step", "percent", "attempts", "max_attempts", "worker_name", "job_error")


def _job(row: Record) -> dict[str, Any] | None:
    if row["job_id"] is None or row["job_kind"] is None:
        return None
    return {"id": row["job_id"], **{name.removeprefix("job_"): row[name] for name in _JOB}}


def _scene(scene: Record, asset: Record) -> dict[str, Any]:
    told = {name: value for name, value in scene.items() if name not in ("rep_frame_path", "metadata")}
    told |= {"tags": _read(scene["tags"]) or [], "text": (_read(scene["metadata"]) or {}).get("text")}
    return told | {"frame_url": _frame_url(asset, scene["rep_frame_path"])}


def _frame(frame: Record, asset: Record) -> dict[str, Any]:
    told = {name: value for name, value in frame.items() if name != "frame_path"}
    told |= {"tags": _read(frame["tags"]) or [], "seconds": frame["timestamp_ms"] / 1000}
    return told | {"frame_url": _frame_url(asset, frame["frame_path"])}


def _frame_url(asset: Record, path: str) -> str | None:
    """None while its job still runs: only then are the files in place."""
    file = PurePosixPath(path)
    if asset["output"] is None or file.parent != output_folder(asset["id"], asset["output"]):
        return None
    return file_url(asset["id"], asset["output"], file.name)


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)

"""The tool `fetch`: the picture of a thing, small enough for an agent, or all of its text as a resource.

Pictures are derivatives that confined children made; they are passed on as they are, and nothing is decoded here.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from mediamill.db.connection import Connection
from mediamill.errors import InvalidError, NotFoundError
from mediamill.intake.look import page_image, thumbnail
from mediamill.intake.model import NoSuchPageError
from mediamill.libraries.assets import asset_file, show_asset
from mediamill.mcp.arguments import Fetch
from mediamill.mcp.describe import look_at
from mediamill.mcp.mill import Mill
from mediamill.mcp.references import Reference, read_reference
from mediamill.mcp.tools import Content
from mediamill.storage.choose import storage_of
from mediamill.videos.look import find_video, show_video
from mediamill.videos.playback import find_file

MOST_IMAGE_BYTES = 700_000  # about a million characters in base64, which clients still take
MOST_RESOURCE = 200_000  # characters
TYPES = {".webp": "image/webp", ".jpg": "image/jpeg"}


class BadFetchError(InvalidError):
    """Of this thing there is no such picture."""

    code = "bad_fetch"


class NoPictureError(NotFoundError):
    """There is no picture of it."""

    code = "no_picture"


async def fetch(mill: Mill, asked: Fetch) -> Content:
    """A picture, or the text."""
    reference = read_reference(asked.reference)
    if asked.page is not None and reference.of != "file":
        raise BadFetchError("only files of projects have pages", fix="leave out `page`")
    if asked.at_seconds is not None and reference.of != "asset":
        raise BadFetchError("only videos of libraries have pictures of moments", fix="leave out `at_seconds`")
    async with mill.database.connection() as connection:
        if asked.what == "text":
            _, text = await look_at(connection, mill.settings, reference)
            return [_resource(reference, text)]
        names = await _pictures(connection, reference, asked)
    return [await _first_that_fits(mill, names)]


async def _pictures(connection: Connection, reference: Reference, asked: Fetch) -> list[str]:
    """The names of pictures of it, the best first."""
    small = asked.what == "thumbnail"
    match reference.of:
        case "asset":
            return await _of_asset(connection, int(reference.id), asked.at_seconds, small=small)
        case "video":
            return await _of_video(connection, reference.id, small=small)
        case "file":
            return await _of_file(connection, int(reference.id), asked.page, small=small)
    raise NoPictureError("media of chats are not kept", fix="describe has what became of it")


async def _of_asset(connection: Connection, asset_id: int, at: float | None, *, small: bool) -> list[str]:
    asset = await show_asset(connection, asset_id)
    if asset["output"] is None:
        raise NoPictureError(f"asset {asset_id} has no picture yet", fix="try again when it is processed")
    names = ["thumbnail.jpg"] if small else ["preview.webp", "thumbnail.jpg"]
    if at is not None:
        names = [_name_at(asset, at)]
    return [str(await asset_file(connection, asset_id, asset["output"], name)) for name in names]


def _name_at(asset: dict[str, Any], at: float) -> str:
    """The picture of the moment that is nearest."""
    moments = [(abs(float(frame["seconds"]) - at), frame["frame_url"]) for frame in asset["frames"]]
    for scene in asset["scenes"]:
        distance = max(float(scene["start_ts"]) - at, at - float(scene["end_ts"]), 0.0)
        moments.append((distance, scene["frame_url"]))
    there = [(distance, url) for distance, url in moments if url]
    if not there:
        raise NoPictureError("there are no pictures of its moments")
    return str(min(there)[1]).rpartition("/")[2]


async def _of_video(connection: Connection, who: str, *, small: bool) -> list[str]:
    video_id = await find_video(connection, who)
    output = (await show_video(connection, video_id))["output"]
    if output is None:
        raise NoPictureError("the video is not ready", fix="try again when it is")
    names = ["thumbnail.jpg"] if small else ["poster.jpg", "thumbnail.jpg"]
    return [(await find_file(connection, video_id, output, name)).stored for name in names]


async def _of_file(connection: Connection, file_id: int, page: int | None, *, small: bool) -> list[str]:
    """Its first page, unless another is asked for; what has no pages has a small picture."""
    if page is None and small:
        return [await thumbnail(connection, file_id)]
    try:
        return [await page_image(connection, file_id, page or 1)]
    except NoSuchPageError:
        if page is not None:
            raise
        return [await thumbnail(connection, file_id)]


async def _first_that_fits(mill: Mill, names: Sequence[str]) -> dict[str, Any]:
    for name in names:
        data = await _read(mill, name)
        if data is not None:
            return {
                "type": "image",
                "data": base64.b64encode(data).decode(),
                "mimeType": TYPES.get(PurePosixPath(name).suffix, "application/octet-stream"),
            }
    raise NoPictureError("its picture is gone, or too large to be sent", fix="ask for what: thumbnail")


async def _read(mill: Mill, name: str) -> bytes | None:
    """None: not there, no plain file, or too large."""
    file = await storage_of(mill.settings).open(mill.database, name)
    if file is None:
        return None
    try:
        if not 0 < file.length <= MOST_IMAGE_BYTES:
            return None
        return b"".join([chunk async for chunk in file.chunks(0, file.length)])
    finally:
        file.close()


def _resource(reference: Reference, text: str) -> dict[str, Any]:
    uri = f"mediamill://{reference.of}/{reference.id}/text"
    return {
        "type": "resource",
        "resource": {"uri": uri, "mimeType": "text/plain", "text": text[:MOST_RESOURCE]},
    }

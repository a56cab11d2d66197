"""The files of videos: the stream that players read, and what was uploaded, by range."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from mediamill.api.deps import Wired
from mediamill.api.file_answer import OTHER, answer_file, sent_in_ranges
from mediamill.storage.choose import storage_of
from mediamill.videos.playback import NoSuchFileError, find_file, find_source

router = APIRouter(prefix="/api/videos/{video_id}", tags=["video files"])

TYPES = {
    "m3u8": "application/vnd.apple.mpegurl",
    "mp4": "video/mp4",
    "m4s": "video/mp4",
    "vtt": "text/vtt; charset=utf-8",
    "jpg": "image/jpeg",
}
YEAR_SECONDS = 31_536_000
NAME_CHARACTERS = 150
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # what a name could use to look like another
_RISKY = re.compile(r'[^\x20-\x7e]|["\\%/:*?<>|;]')

Output = Annotated[int, Path(ge=1, le=2**63 - 1, description="The video's `output`.")]
Name = Annotated[str, Path(max_length=100, description="`master.m3u8` first; playlists name the others.")]


@router.head("/files/{output}/{name}", include_in_schema=False)
@router.get(
    "/files/{output}/{name}",
    response_class=Response,
    responses=sent_in_ranges(*dict.fromkeys(each.partition(";")[0] for each in TYPES.values())),
)
async def send_file(request: Request, deps: Wired, video_id: UUID, output: Output, name: Name) -> Response:
    """A file of the stream. With another stream `output` is another number, so segments never change."""
    storage = storage_of(deps.settings)
    async with deps.database.connection() as connection:
        found = await find_file(connection, video_id, output, name)
    file = await storage.open(deps.database, found.stored)
    if file is None:
        raise NoSuchFileError
    return answer_file(request, file, type_of(name), {"Cache-Control": _caching(name)}, found.etag)


@router.head("/source", include_in_schema=False)
@router.get("/source", response_class=Response, responses=sent_in_ranges("video/*", "audio/*", OTHER))
async def send_source(request: Request, deps: Wired, video_id: UUID) -> Response:
    """The file as it was uploaded, to be saved under its own name."""
    async with deps.database.connection() as connection:
        source = await find_source(connection, video_id)
    file = await storage_of(deps.settings).open(deps.database, source.stored)
    if file is None:
        raise NoSuchFileError
    media = source.mime_type if source.mime_type.startswith(("video/", "audio/")) else OTHER
    return answer_file(request, file, media, {"Content-Disposition": attachment(source.name)})


def type_of(name: str) -> str:
    """The content type of a file of a stream."""
    known = TYPES.get(name.rpartition(".")[2], OTHER)
    return known.replace("video/", "audio/") if name.startswith("audio-") else known


def attachment(name: str) -> str:
    """Content-Disposition with a name that a stranger gave (RFC 6266): plain for old readers, whole for the others."""
    letters = unicodedata.normalize("NFC", name)
    shown = "".join(each for each in letters if unicodedata.category(each) not in HIDDEN)
    shown = shown.strip(" .")[-NAME_CHARACTERS:] or "video"
    plain = _RISKY.sub("_", shown)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(shown, safe='')}"


def _caching(name: str) -> str:
    if name.endswith(".m3u8"):
        return "no-cache"
    return f"private, max-age={YEAR_SECONDS}, immutable"  # nobody but the one who asked may keep it

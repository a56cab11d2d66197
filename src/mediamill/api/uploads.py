"""Resumable uploads of videos: tus 1.0 with creation (with upload), expiration, termination and checksum."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from mediamill.api import tus
from mediamill.api.errors import problem_of
from mediamill.api.inbox import Refusal, RequestBody
from mediamill.db.connection import LOST
from mediamill.errors import MediamillError
from mediamill.settings import Settings
from mediamill.videos.upload import Upload, Uploads

router = APIRouter(prefix="/api/uploads", tags=["uploads"])

SILENT_SECONDS = 2.0  # whoever sent nothing for so long makes way for another who wants to go on
VERSION_HEADERS = {"Tus-Resumable": tus.VERSION, "Tus-Version": tus.VERSION}


class UploadDesk:
    """One per server: the uploads, and who is sending just now."""

    def __init__(self, uploads: Uploads) -> None:
        self.uploads = uploads
        self._sending: list[tuple[UUID, RequestBody]] = []

    def make_way(self, upload_id: UUID) -> None:
        """A line that broke unnoticed must not keep its sender from going on by another."""
        for sent, body in self._sending:
            if sent == upload_id:
                body.end_if_silent(SILENT_SECONDS)

    @contextmanager
    def sending(self, upload_id: UUID, body: RequestBody) -> Iterator[None]:
        """Known as one who sends it."""
        self._sending.append((upload_id, body))
        try:
            yield
        finally:
            self._sending.remove((upload_id, body))


def _header(name: str, description: str, *, required: bool = True, **schema: Any) -> dict[str, Any]:
    return {
        "name": name,
        "in": "header",
        "required": required,
        "description": description,
        "schema": {"type": "string", **schema},
    }


NUMBER: dict[str, Any] = {"type": "integer", "minimum": 0}
TUS = _header("Tus-Resumable", "The version of the protocol.", enum=[tus.VERSION])
OFFSET = _header("Upload-Offset", "Where the chunk begins: where the upload ends.", **NUMBER)
LENGTH = _header("Upload-Length", "Bytes of the whole file. It must be known.", **NUMBER)
METADATA = _header(
    "Upload-Metadata",
    "Pairs of a key and base64, separated by commas: filename, title, description, category, priority (high, normal, "
    "low), and fingerprint: "
    "an unfinished upload with the same fingerprint and length is gone on with, and of a finished one the video is "
    "told (Video-Id), until DELETE says that this was heard, the video is in the trash, or MEDIAMILL_UPLOAD_KEEP_HOURS "
    "have passed. Without it, each is a new one.",
    required=False,
)
CHECKSUM = _header(
    "Upload-Checksum", "sha256 or sha1, and base64; a chunk that is different is not kept.", required=False
)
CHUNK = {"content": {tus.CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}}}}


@router.options("", status_code=204)
@router.options("/{upload_id}", status_code=204, include_in_schema=False)
async def tell_abilities(request: Request) -> Response:
    """What of tus is spoken here, and how large an upload may be."""
    limit = _desk(request).uploads.settings.video_upload_limit_bytes
    more = {
        "Tus-Extension": tus.EXTENSIONS,
        "Tus-Max-Size": str(limit),
        "Tus-Checksum-Algorithm": ",".join(tus.DIGEST_BYTES),
    }
    return Response(status_code=204, headers={**VERSION_HEADERS, **more})


@router.post(
    "",
    status_code=201,
    response_class=Response,
    openapi_extra={
        "parameters": [TUS, LENGTH, METADATA, CHECKSUM],
        "requestBody": {**CHUNK, "required": False},
    },
)
async def begin_upload(request: Request) -> Response:
    """A new upload, at Location; its first chunk may be the body. Send the rest there by PATCH."""
    return await _answered(request, lambda body: _begin(request, body))


@router.head("/{upload_id}", response_class=Response, openapi_extra={"parameters": [TUS]})
async def show_upload(request: Request, upload_id: UUID) -> Response:
    """How much has come (Upload-Offset); once all of it has, its video (Video-Id)."""
    return await _answered(request, lambda _body: _show(request, upload_id))


@router.patch(
    "/{upload_id}",
    status_code=204,
    openapi_extra={"parameters": [TUS, OFFSET, CHECKSUM], "requestBody": {**CHUNK, "required": True}},
)
async def send_chunk(request: Request, upload_id: UUID) -> Response:
    """The next bytes, as many as you like. With the last one it becomes a video (Video-Id)."""
    return await _answered(request, lambda body: _send(request, upload_id, body))


@router.delete("/{upload_id}", status_code=204, openapi_extra={"parameters": [TUS]})
async def end_upload(request: Request, upload_id: UUID) -> Response:
    """It is not wanted any more; or, of one that is a video (Video-Id), that was heard: the video stays.

    The same file with the same fingerprint becomes another video from then on.
    """
    return await _answered(request, lambda _body: _end(request, upload_id))


@router.post("/{upload_id}", status_code=204, include_in_schema=False)
async def do_by_post(request: Request, upload_id: UUID) -> Response:
    """For those whose way allows POST only: the method is in X-HTTP-Method-Override."""
    match request.headers.get("x-http-method-override", "").upper():
        case "PATCH":
            return await send_chunk(request, upload_id)
        case "DELETE":
            return await end_upload(request, upload_id)
        case "HEAD":
            return await show_upload(request, upload_id)
    raise HTTPException(405, "send a chunk by PATCH, or with X-HTTP-Method-Override: PATCH")


async def _answered(request: Request, verb: Callable[[RequestBody], Awaitable[Response]]) -> Response:
    """With the headers that every answer has; whoever still sends what is refused gets to know it."""
    body = RequestBody(request)
    try:
        tus.check_version(request)
        answer = await verb(body)
    except ClientDisconnect:
        return Response(status_code=400)  # nobody is there to read it
    except (MediamillError, HTTPException, *LOST) as error:
        answer = problem_of(error)
        answer.headers.update(VERSION_HEADERS)
        return Refusal(answer, body) if tus.has_body(request) else answer
    except BaseException:
        body.give_back()
        raise
    answer.headers.update(VERSION_HEADERS)
    return answer


async def _begin(request: Request, body: RequestBody) -> Response:
    length, metadata = tus.read_length(request), tus.read_metadata(request)
    with_chunk = tus.has_body(request)
    if with_chunk:
        tus.check_content_type(request)
    upload = await _desk(request).uploads.create(length, metadata)
    if with_chunk and upload.offset == 0:
        upload = await _append(request, upload.id, body, 0)
        with_chunk = False
    headers = {"Location": _address(request, upload.id), **tus.headers_of(upload)}
    answer = Response(status_code=201, headers=headers)
    if not with_chunk:
        return answer
    answer.headers.update(VERSION_HEADERS)
    return Refusal(answer, body)  # the upload was there and has its first chunk: what comes is not needed


def _address(request: Request, upload_id: UUID) -> str:
    """Whole, because clients of tus expect that; by the name of this server that the caller used."""
    settings: Settings = request.app.state.deps.settings
    origin = settings.public_url or f"{request.url.scheme}://{request.headers['host']}"
    return f"{origin}{router.prefix}/{upload_id}"


async def _show(request: Request, upload_id: UUID) -> Response:
    desk = _desk(request)
    desk.make_way(upload_id)
    upload = await desk.uploads.show(upload_id)
    headers = {
        "Upload-Length": str(upload.bytes),
        "Upload-Metadata": tus.write_metadata(upload),
        "Cache-Control": "no-store",
        **tus.headers_of(upload),
    }
    return Response(headers=headers)


async def _send(request: Request, upload_id: UUID, body: RequestBody) -> Response:
    tus.check_content_type(request)
    offset = tus.read_number(request, "Upload-Offset")
    upload = await _append(request, upload_id, body, offset)
    return Response(status_code=204, headers=tus.headers_of(upload))


async def _append(request: Request, upload_id: UUID, body: RequestBody, offset: int) -> Upload:
    desk, checksum = _desk(request), tus.read_checksum(request)
    announced = tus.read_announced(request)
    desk.make_way(upload_id)
    with desk.sending(upload_id, body):
        return await desk.uploads.append(
            upload_id, offset, body.pieces(), announced_bytes=announced, checksum=checksum
        )


async def _end(request: Request, upload_id: UUID) -> Response:
    desk = _desk(request)
    desk.make_way(upload_id)
    upload = await desk.uploads.terminate(upload_id)
    return Response(status_code=204, headers=tus.headers_of(upload) if upload is not None else None)


def _desk(request: Request) -> UploadDesk:
    desk: UploadDesk = request.app.state.upload_desk
    return desk

"""What the tus protocol (1.0) says in headers: read, checked and written."""

from __future__ import annotations

import base64
import binascii
from email.utils import format_datetime

from starlette.exceptions import HTTPException
from starlette.requests import Request

from mediamill.errors import ConflictError, InvalidError
from mediamill.videos.upload import Upload

VERSION = "1.0.0"
EXTENSIONS = "creation,creation-with-upload,expiration,termination,checksum"
CONTENT_TYPE = "application/offset+octet-stream"
METADATA = ("filename", "filetype", "title", "description", "category", "priority", "fingerprint")
DIGEST_BYTES = {"sha256": 32, "sha1": 20}
LONGEST_NUMBER = 18  # digits


class TusVersionError(ConflictError):
    """The request must speak tus 1.0.0."""

    code = "tus_version"


class BadUploadHeaderError(InvalidError):
    """A header of the upload is missing or not valid."""

    code = "upload_header_invalid"


class DeferredLengthError(InvalidError):
    """An upload whose length is not known is not taken."""

    code = "length_deferred"


class ConcatenationError(InvalidError):
    """Uploads are not put together from others."""

    code = "concatenation_unsupported"


class ChecksumUnsupportedError(InvalidError):
    """The checksum cannot be read."""

    code = "checksum_unsupported"


def check_version(request: Request) -> None:
    """Before anything else is looked at."""
    if request.headers.get("tus-resumable") != VERSION:
        raise TusVersionError(fix=f"send Tus-Resumable: {VERSION}")


def check_content_type(request: Request) -> None:
    """A chunk must say that it is one."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
        raise HTTPException(415, f"send a chunk with Content-Type: {CONTENT_TYPE}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "send the chunk as it is, without Content-Encoding")


def read_number(request: Request, name: str) -> int:
    """A header that must be there."""
    text = request.headers.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER):
        raise BadUploadHeaderError(f"{name} must be a number of bytes, not {text[:50]!r}")
    return int(text)


def read_length(request: Request) -> int:
    """Of a new upload: how long it will be."""
    if "upload-concat" in request.headers:
        raise ConcatenationError(fix="send the whole as one upload")
    if "upload-defer-length" in request.headers:
        raise DeferredLengthError(fix="send Upload-Length: the size of the file")
    return read_number(request, "Upload-Length")


def read_announced(request: Request) -> int | None:
    """The length of the body, if it is told."""
    text = request.headers.get("content-length", "")
    return int(text) if text.isdecimal() else None


def has_body(request: Request) -> bool:
    """Whether a new upload comes with its first chunk."""
    return bool(read_announced(request)) or "transfer-encoding" in request.headers


def read_metadata(request: Request) -> dict[str, str]:
    """What we know a use for; other keys may be there."""
    found: dict[str, str] = {}
    for pair in filter(
        None, (pair.strip() for pair in request.headers.get("upload-metadata", "").split(","))
    ):
        key, _, value = pair.partition(" ")
        if key in found:
            raise BadUploadHeaderError(f"Upload-Metadata has {key} twice")
        if key in METADATA:
            found[key] = _text(key, value)
    return found


def _text(key: str, value: str) -> str:
    try:
        return base64.b64decode(value.strip(), validate=True).decode()
    except ValueError:
        raise BadUploadHeaderError(
            f"Upload-Metadata: {key} is not base64 of a text", fix="send base64 of UTF-8"
        ) from None


def write_metadata(upload: Upload) -> str:
    """As it was said."""
    return ",".join(
        f"{key} {base64.b64encode(value.encode()).decode()}" for key, value in upload.metadata.items()
    )


def read_checksum(request: Request) -> bytes | None:
    """The digest that the chunk must have; its length says by which algorithm."""
    given = request.headers.get("upload-checksum")
    if given is None:
        return None
    algorithm, _, value = given.partition(" ")
    length = DIGEST_BYTES.get(algorithm.lower())
    if length is None:
        raise ChecksumUnsupportedError(f"checksums are taken by {' or '.join(DIGEST_BYTES)} only")
    try:
        digest = base64.b64decode(value.strip(), validate=True)
    except (ValueError, binascii.Error):
        digest = b""
    if len(digest) != length:
        raise ChecksumUnsupportedError(fix=f"send {algorithm}, a blank, and the {length} bytes as base64")
    return digest


def headers_of(upload: Upload) -> dict[str, str]:
    """How far it is; with the id of its video, once it is one."""
    headers = {"Upload-Offset": str(upload.offset)}
    if upload.finished:
        headers["Video-Id"] = str(upload.id)
    else:
        headers["Upload-Expires"] = format_datetime(upload.expires_at, usegmt=True)
    return headers

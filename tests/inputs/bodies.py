"""Small images, bodies of messages, and readers that are fed in pieces."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from mediamill.inputs.draft import MessageDraft, ReadMessage
from mediamill.inputs.read_body import BodyReader
from mediamill.inputs.read_message import JsonMessageReader
from mediamill.inputs.read_multipart import MultipartMessageReader
from mediamill.inputs.spool import Spool

GIF = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
PNG = b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + bytes(20)
JPEG = b"\xff\xd8\xff\xe0" + bytes(30)
WEBP = b"RIFF\x1a\0\0\0WEBPVP8 " + bytes(20)
BOUNDARY = "a-border"
FORM_TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def image(data: bytes = GIF, mime_type: str = "image/gif", **more: Any) -> dict[str, Any]:
    return {"mime_type": mime_type, "data_base64": base64.b64encode(data).decode(), **more}


def message(*images: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"thread_key": "t", "text": "look", **({"images": list(images)} if images else {}), **more}


def body_of(*images: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(message(*images, **more)).encode()


def form_of(
    fields: Iterable[tuple[str, str]],
    files: Iterable[tuple[bytes, str, str | None]] = (),
    name: str = "images",
) -> bytes:
    """Files are bytes, type, file name."""
    parts = [_part(f'name="{field}"', value.encode()) for field, value in fields]
    for data, mime_type, filename in files:
        named = f'; filename="{filename}"' if filename is not None else ""
        parts.append(
            _part(f'name="{name}"{named}', data, f"Content-Type: {mime_type}\r\n" if mime_type else "")
        )
    return b"".join(parts) + f"--{BOUNDARY}--\r\n".encode()


def _part(facts: str, data: bytes, more: str = "") -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {facts}\r\n{more}\r\n"
    return head.encode() + data + b"\r\n"


def cut(body: bytes, borders: Sequence[int]) -> list[bytes]:
    """In pieces, cut before these bytes."""
    places = [0, *sorted(borders), len(body)]
    return [body[start:end] for start, end in pairwise(places)]


def read(
    folder: Path, pieces: Iterable[bytes], *, form: bool = False, key: str | None = None
) -> tuple[ReadMessage, list[bytes]]:
    """The message and the bytes of its images; afterwards nothing lies in the folder."""
    try:
        with Spool(folder).open_tray() as tray:
            draft = MessageDraft(tray, key)
            reader: BodyReader = (
                MultipartMessageReader(draft, FORM_TYPE) if form else JsonMessageReader(draft)
            )
            for piece in pieces:
                reader.feed(piece)
            found = reader.close()
            return found, [each.path.read_bytes() for each in found.images]
    finally:
        assert not list(folder.iterdir())

"""The body of a message: JSON whose images are turned into base64 while it is sent, a chunk at a time.

Its length is known beforehand, from the sizes of the files; a file that is shorter when it is read breaks it off.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, BinaryIO

from mediamill.client.model import Image
from mediamill.errors import InvalidError
from mediamill.media.peek import open_regular
from mediamill.media.sniff import sniff_file

CHUNK_BYTES = 3 << 16  # a multiple of three, so that the pieces of base64 fit together

Progress = Callable[[int, int], None]  # bytes sent, bytes in all


class ImageChangedError(InvalidError):
    """An image changed while it was sent."""

    code = "image_changed"


class Body:
    """Can be sent again from the start: each time the files are read anew."""

    content_type = "application/json"

    def __init__(
        self, fields: Mapping[str, Any], images: Sequence[Image], progress: Progress | None = None
    ) -> None:
        head = json.dumps(fields)  # escapes everything beyond ASCII, so also what is no valid text
        self._head = f'{head[:-1]}, "images": ['.encode() if images else head.encode()
        self._images = [_Part(image, first=number == 0) for number, image in enumerate(images)]
        self._tail = b"]}" if images else b""
        self._progress = progress
        self.length = sum(map(len, (self._head, self._tail))) + sum(part.length for part in self._images)

    def pieces(self) -> Generator[bytes, None, None]:
        """The pieces, in order."""
        sent = 0
        for piece in self._pieces():
            yield piece
            sent += len(piece)
            if self._progress:
                self._progress(sent, self.length)

    def _pieces(self) -> Iterator[bytes]:
        yield self._head
        for part in self._images:
            yield from part.pieces()
        if self._tail:
            yield self._tail


class _Part:
    """One image in the JSON."""

    def __init__(self, image: Image, *, first: bool) -> None:
        self._image = image
        with _open(image) as file:
            mime_type = image.mime_type or sniff_file(file).mime_type
            self._size = file.seek(0, 2)
        facts = {"mime_type": mime_type, **({"filename": name} if (name := _name(image)) else {})}
        self._head = f'{"" if first else ", "}{json.dumps(facts)[:-1]}, "data_base64": "'.encode()
        self._tail = b'"}'
        self.length = len(self._head) + 4 * -(-self._size // 3) + len(self._tail)

    def pieces(self) -> Iterator[bytes]:
        """No more than was announced, even if the file has grown."""
        yield self._head
        with _open(self._image) as file:
            left = self._size
            while left:
                chunk = _read(file, min(CHUNK_BYTES, left))
                left -= len(chunk)
                yield b64encode(chunk)
        yield self._tail


def _open(image: Image) -> BinaryIO:
    return BytesIO(image.data) if isinstance(image.data, bytes) else open_regular(image.data)


def _name(image: Image) -> str | None:
    return image.filename or (None if isinstance(image.data, bytes) else image.data.name)


def _read(file: BinaryIO, count: int) -> bytes:
    """So many bytes, whatever number the system gives at a time."""
    chunk = b""
    while len(chunk) < count:
        more = file.read(count - len(chunk))
        if not more:
            raise ImageChangedError("an image got shorter while it was sent", fix="send it again")
        chunk += more
    return chunk

"""A message out of its JSON: what may be where, and images decoded to the spool while they arrive."""

from __future__ import annotations

import binascii
from typing import Final, Literal

from mediamill.inputs.draft import (
    FIELDS,
    MIME_TYPE_CHARACTERS,
    FieldError,
    ImageDraft,
    MessageDraft,
    ReadMessage,
)
from mediamill.inputs.model import FILENAME_CHARACTERS, ImageBase64Error
from mediamill.inputs.read_json import JsonReader, Kind, Scalar, Sink
from mediamill.inputs.spool import SpoolFile

# The fields of an image that are texts, and how many characters each may have.
IMAGE_FIELDS: Final = {"mime_type": MIME_TYPE_CHARACTERS, "filename": FILENAME_CHARACTERS}
IMAGE_KEYS: Final = (*IMAGE_FIELDS, "data_base64")
NULLABLE: Final = ("idempotency_key", "filename", "images")
PADDING: Final = ord("=")

Place = Literal["body", "message", "images", "image"]


class JsonMessageReader:
    """Feed it the body in pieces, then close it."""

    def __init__(self, draft: MessageDraft) -> None:
        self._draft = draft
        self._json = JsonReader(_MessageVisitor(draft))

    def feed(self, piece: bytes) -> None:
        """The next bytes of the body."""
        self._json.feed(piece)

    def close(self) -> ReadMessage:
        """The whole message."""
        self._json.close()
        return self._draft.finish()


class _MessageVisitor:
    """Knows what a message looks like; anything else is refused where it begins."""

    def __init__(self, draft: MessageDraft) -> None:
        self._draft = draft
        self._place: Place = "body"
        self._key = ""
        self._seen: set[str] = set()
        self._image: ImageDraft | None = None
        self._image_seen: set[str] = set()

    def begin(self, kind: Kind) -> None:
        """Only a message, its images, and each of them open anything."""
        match self._place, kind:
            case "body", "object":
                self._place = "message"
            case "message", "list" if self._key == "images":
                self._place = "images"
            case "images", "object":
                self._image, self._image_seen = self._draft.begin_image(), set()
                self._place = "image"
            case _:
                raise self._wrong()

    def end(self) -> None:
        """An image that ends must be whole."""
        match self._place:
            case "image":
                self._end_image()
                self._place = "images"
            case "images":
                self._place = "message"

    def key(self, name: str) -> None:
        """Each of those that are known, once."""
        in_image = self._place == "image"
        seen = self._image_seen if in_image else self._seen
        if name not in (IMAGE_KEYS if in_image else (*FIELDS, "images")):
            raise FieldError(f"there is no {self._path(name)}", fix="leave it out")
        if name in seen:
            raise FieldError(f"{self._path(name)} is there twice")
        seen.add(name)
        self._key = name

    def begin_string(self) -> int | Sink:
        """How long it may be; the bytes of an image go to its file."""
        if self._place == "message" and self._key in FIELDS:
            return FIELDS[self._key]
        if self._place == "image":
            assert self._image is not None
            return IMAGE_FIELDS.get(self._key) or Base64Sink(self._image.file, self._image.where)
        raise self._wrong()

    def value(self, value: Scalar) -> None:
        """A text where one may be, or null for what may be left out."""
        if self._place not in ("message", "image"):
            raise self._wrong()
        if value is None and self._key in NULLABLE:
            return
        if not isinstance(value, str):
            raise self._wrong()
        if self._place == "message":
            self._draft.put(self._key, value)
        elif self._image is not None:
            (self._image.name if self._key == "filename" else self._image.claim_type)(value)

    def _end_image(self) -> None:
        assert self._image is not None
        for name in ("mime_type", "data_base64"):
            if name not in self._image_seen:
                raise FieldError(f"{self._path(name)} is missing")
        self._draft.end_image(self._image)
        self._image = None

    def _path(self, name: str) -> str:
        return f"{self._image.where}.{name}" if self._image is not None else name

    def _wrong(self) -> FieldError:
        match self._place:
            case "body":
                return FieldError("the body is no object")
            case "images":
                return FieldError("images has something in it that is no object")
        return FieldError(f"{self._path(self._key)} is no {'list' if self._key == 'images' else 'text'}")


class Base64Sink:
    """Strict base64 with padding into a file, four characters at a time wherever the text is cut."""

    def __init__(self, file: SpoolFile, where: str) -> None:
        self._file, self._where = file, where
        self._rest = b""
        self._padded = False

    def write(self, piece: bytes) -> None:
        """The next characters."""
        text = self._rest + piece
        whole = len(text) & ~3
        self._rest = text[whole:]
        # What comes after padding, and padding that stands for nothing, Python would take.
        if (self._padded and text) or text.endswith(b"===", 0, whole):
            raise self._wrong()
        if not whole:
            return
        try:
            data = binascii.a2b_base64(text[:whole], strict_mode=True)
        except binascii.Error as error:
            raise self._wrong() from error
        self._padded = text[whole - 1] == PADDING
        self._file.write(data)

    def end(self) -> None:
        """Nothing may be left over."""
        if self._rest or not self._file.byte_size:
            raise self._wrong()

    def _wrong(self) -> ImageBase64Error:
        return ImageBase64Error(f"{self._where}.data_base64 is not valid base64, or empty")

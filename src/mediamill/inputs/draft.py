"""A message while it is read, from JSON or from a form: one set of checks, and a hash that names its content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, cast

from mediamill.errors import InvalidError
from mediamill.inputs.model import (
    DELIVERY_MODES,
    FILENAME_CHARACTERS,
    KEY_CHARACTERS,
    MIME_TYPES,
    TEXT_CHARACTERS,
    THREAD_KEY_CHARACTERS,
    DeliveryMode,
    ImageTypeError,
    SpooledImage,
)
from mediamill.inputs.spool import SpoolFile, Tray

# The fields of a message that are texts, and how many characters each may have.
FIELDS: Final = {
    "thread_key": THREAD_KEY_CHARACTERS,
    "text": TEXT_CHARACTERS,
    "delivery_mode": 20,
    "idempotency_key": KEY_CHARACTERS,
}
REQUIRED: Final = ("thread_key", "text")
MIME_TYPE_CHARACTERS: Final = 100


class FieldError(InvalidError):
    """A field of the message is not valid."""


class KeysDifferError(InvalidError):
    """The header and the body name different idempotency keys."""

    code = "idempotency_keys_differ"


@dataclass(frozen=True, slots=True)
class ReadMessage:
    """A message as it was sent; its images lie in the spool."""

    thread_key: str
    text: str
    delivery_mode: DeliveryMode
    idempotency_key: str | None
    images: Sequence[SpooledImage]
    payload_hash: str


class ImageDraft:
    """An image while it is read; type and name may come before its bytes or after them."""

    def __init__(self, file: SpoolFile, where: str) -> None:
        self.file = file
        self.where = where
        self.mime_type: str | None = None
        self.filename: str | None = None

    def claim_type(self, mime_type: str) -> None:
        """What the sender says that it is."""
        self.mime_type = mime_type.strip().lower()
        if self.mime_type not in MIME_TYPES:
            raise ImageTypeError(f"{self.where}: images of type {mime_type[:80]!r} are not taken")

    def name(self, filename: str) -> None:
        """What the sender calls it; only ever shown."""
        check_line(f"{self.where}.filename", filename, FILENAME_CHARACTERS)
        self.filename = filename or None


class MessageDraft:
    """What is there of a message so far."""

    def __init__(self, tray: Tray, idempotency_key: str | None = None) -> None:
        """`idempotency_key`: the one of the header."""
        if idempotency_key is not None:
            _check_key("Idempotency-Key", idempotency_key)
        self._header_key = idempotency_key
        self._tray = tray
        self._fields: dict[str, str] = {}
        self._images: list[tuple[SpooledImage, str]] = []  # each with the type that was claimed
        self._begun = 0

    @property
    def thread_key(self) -> str | None:
        """If it is known already."""
        return self._fields.get("thread_key")

    def put(self, name: str, value: str) -> None:
        """A text of the message."""
        if name in self._fields:
            raise FieldError(f"{name} is there twice")
        if name == "text":
            _check_text(value)
        elif name == "delivery_mode":
            if value not in DELIVERY_MODES:
                raise FieldError(f"delivery_mode is none of {', '.join(DELIVERY_MODES)}")
        elif name == "idempotency_key":
            _check_key(name, value)
        else:
            check_line(name, value, FIELDS[name], least=1)
        self._fields[name] = value

    def begin_image(self) -> ImageDraft:
        """The next one."""
        file = self._tray.begin_image()
        self._begun += 1
        return ImageDraft(file, f"images[{self._begun - 1}]")

    def end_image(self, image: ImageDraft) -> None:
        """All of it is there."""
        spooled = image.file.finish(image.filename)
        self._images.append((spooled, image.mime_type or spooled.mime_type))

    def finish(self) -> ReadMessage:
        """The whole message."""
        for name in REQUIRED:
            if name not in self._fields:
                raise FieldError(f"{name} is missing")
        key = self._fields.get("idempotency_key", self._header_key)
        if self._header_key not in (None, key):
            raise KeysDifferError(fix="send one of them, or the same twice")
        thread_key, text = self._fields["thread_key"], self._fields["text"]
        mode = cast(DeliveryMode, self._fields.get("delivery_mode", "prompt"))
        images = [[claimed, image.sha256, image.filename] for image, claimed in self._images]
        return ReadMessage(
            thread_key,
            text,
            mode,
            key,
            [image for image, _ in self._images],
            _hash([thread_key, text, mode, images]),
        )


def _hash(content: object) -> str:
    """Of the same content always the same, however it was written down on the way here."""
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def _check_text(text: str) -> None:
    _check_characters("text", text, TEXT_CHARACTERS)
    if not text.strip():
        raise FieldError("text is empty")


def _check_key(name: str, key: str) -> None:
    check_line(name, key, KEY_CHARACTERS, least=1)


def check_line(name: str, value: str, most: int, *, least: int = 0) -> None:
    """One line without control characters."""
    _check_characters(name, value, most)
    if len(value) < least:
        raise FieldError(f"{name} is empty")
    if any(character < " " or "\x7f" <= character <= "\x9f" for character in value):
        raise FieldError(f"{name} has control characters")


def _check_characters(name: str, value: str, most: int) -> None:
    """What no database can keep is refused here, where it can still be said which field it was."""
    if len(value) > most:
        raise FieldError(f"{name} may have {most} characters")
    if "\0" in value:
        raise FieldError(f"{name} has NUL characters")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise FieldError(f"{name} has lone surrogates") from error
